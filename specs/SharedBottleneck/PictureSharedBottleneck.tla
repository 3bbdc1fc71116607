------------------------ MODULE PictureSharedBottleneck ------------------------
(* What is drawn: how far subflow 1 is, and with whom. Steps that change neither are left out. *)
EXTENDS MCSharedBottleneck
VARIABLE drawn

Look == [subflow1 |-> IF 1 \in live THEN state[1] ELSE "closed",
         with |-> UNION {members[i] : i \in SetsOf(1)} \ {1}]
Drawn(step) == drawn' = <<IF Look' = Look THEN "another" ELSE step, Look'>>

PictureInit == Init /\ drawn = <<"", Look>>
PictureNext ==
    \/ (\E r \in Subflows : JudgeAlone(r)) /\ Drawn("JudgeAlone")
    \/ (\E i \in Sets : JudgeSet(i) /\ Holds(i)) /\ Drawn("JudgeSet: holds")
    \/ (\E i \in Sets : JudgeSet(i) /\ ~ Holds(i)) /\ Drawn("JudgeSet: fails")
    \/ Leave(1) /\ Drawn("Leave(1)")
    \/ (\E r \in Subflows \ {1} : Leave(r)) /\ Drawn("Leave(other)")
    \/ Join(1) /\ Drawn("Join(1)")
    \/ /\ \/ \E b \in {"A", "B", "C"} : Congest(b)
          \/ \E r \in Subflows : Ece(r) \/ Loss(r) \/ Fade(r) \/ (r # 1 /\ Join(r))
          \/ \E r, s \in Subflows : CloseAlone(s, r)
          \/ \E i \in Sets, r \in Subflows : CloseSet(i, r)
       /\ Drawn("another")
===============================================================================
