-------------------------- MODULE PictureWhatIfParts --------------------------
(* What is drawn: the fit, its jobs, and a what-if. Steps that change none of them are left out. *)
EXTENDS MCWhatIfParts
VARIABLE drawn

Kinds(x) == {IF j.part = 0 THEN "finds out" ELSE "parts" : j \in JobsOf(x)}
Asked == CHOOSE x \in WhatIfs : TRUE
Jobs(x) == IF JobsOf(x) = {} THEN "none" ELSE CHOOSE k \in Kinds(x) : TRUE
Look ==
    [fit |-> state[Fit], fitjobs |-> Jobs(Fit), whatif |-> state[Asked], jobs |-> Jobs(Asked)]
Drawn(step) == drawn' = <<IF Look' = Look THEN "another" ELSE step, Look'>>

PictureInit == Init /\ drawn = <<"", Look>>
PictureNext ==
    \/ (\E x \in WhatIfs : Ask(x)) /\ Drawn("Ask")
    \/ \E w \in Workers : \E j \in Holds(w) :
          \/ StorePart(w, j) /\ Drawn("StorePart: the last one")
          \/ NeedFit(w, j) /\ Drawn("NeedFit")
          \/ HandOut(w, j) /\ Drawn("HandOut")
          \/ End(w, j) /\ Drawn("End")
          \/ Simulate(w, j) /\ Drawn("another")
    \/ /\ \E w \in Workers : Read(w) \/ \E j \in jobs : Claim(w, j)
       /\ Drawn("another")
===============================================================================
