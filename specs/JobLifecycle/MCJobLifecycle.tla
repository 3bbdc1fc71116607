---------------------------- MODULE MCJobLifecycle ----------------------------
(* Bounds for TLC: see the .cfg files. *)
EXTENDS JobLifecycle, TLC
Interchangeable == Permutations(Workers) \cup Permutations(Deletes)
=============================================================================
