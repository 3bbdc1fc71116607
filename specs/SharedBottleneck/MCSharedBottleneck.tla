-------------------------- MODULE MCSharedBottleneck --------------------------
(* Bounds for TLC: see the .cfg files. A configuration cannot write a function, so the networks are here. *)
EXTENDS SharedBottleneck, TLC
Shared2 == <<"A", "A">>
Apart2 == <<"A", "B">>
TwoOfThree == <<"A", "A", "B">>
Shared3 == <<"A", "A", "A">>
TwoAndTwo == <<"A", "A", "B", "B">>
ThreeOfFour == <<"A", "A", "A", "B">>

\* Both true sets are final already: shorter ways to what follows from there.
InitVerified ==
    /\ live = First /\ recent = {} /\ hit = {} /\ used = {}
    /\ state = [r \in Subflows |-> "final"]
    /\ members = <<{1, 2}, {3, 4}>> /\ passed = Sets
    /\ alone = [r \in Subflows |-> Nothing] /\ ofset = [i \in Sets |-> Nothing]
    /\ budget = [join |-> JoinMax, close |-> CloseMax, noise |-> NoiseMax]
=============================================================================
