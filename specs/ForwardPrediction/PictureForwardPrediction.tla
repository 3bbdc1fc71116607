------------------------ MODULE PictureForwardPrediction ------------------------
(* What is drawn: where segment 1 is. Steps that do not move it are left out. *)
EXTENDS MCForwardPrediction
VARIABLE drawn

Look == [segment1 |-> CASE 1 \in acked -> "arrived"
                        [] written = 0 -> "not written"
                        [] 1 \in Queue /\ carried[1] = {} -> "waits: nobody has it"
                        [] 1 \in Queue -> "waits: whoever had it is lost or closed"
                        [] OTHER -> "on its way"]
Drawn(step) == drawn' = <<IF Look' = Look THEN "another" ELSE step, Look'>>

PictureInit == Init /\ drawn = <<"", Look>>
PictureNext ==
    \/ Write /\ Drawn("Write")
    \/ Send /\ Drawn("Send")
    \/ (\E r \in Subflows : Ack(r)) /\ Drawn("Ack")
    \/ (\E r \in Subflows : Timeout(r)) /\ Drawn("Timeout")
    \/ (\E r \in Subflows : Repair(r)) /\ Drawn("Repair")
    \/ (\E r \in Subflows : Close(r)) /\ Drawn("Close")
    \/ (\E r \in Subflows : Halve(r)) /\ Drawn("another")
===============================================================================
