----------------------- MODULE MCAggressiveAvoidance -----------------------
(* A finite model of AggressiveAvoidance. *)
EXTENDS AggressiveAvoidance, TLC

\* Above its threshold a window does not depend on where exactly that is, and only aca_md=auto asks for peaks.
View == <<life, cwnd, [s \in Subflows |-> Min(ssthresh[s], cwnd[s] + 1)], rtt, grown,
          IF Decrease = "auto" THEN peak ELSE <<>>>>

Symmetry == Permutations(Subflows)
=============================================================================
