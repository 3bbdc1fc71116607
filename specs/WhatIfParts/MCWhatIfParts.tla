---------------------------- MODULE MCWhatIfParts ----------------------------
EXTENDS WhatIfParts, TLC
Symmetry == Permutations(WhatIfs) \cup Permutations(Workers)
=============================================================================
