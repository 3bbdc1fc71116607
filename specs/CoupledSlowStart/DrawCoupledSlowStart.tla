------------------------ MODULE DrawCoupledSlowStart ------------------------
(* CoupledSlowStart with a variable that says what the picture shows: the connection and one subflow, One. *)
EXTENDS MCCoupledSlowStart

CONSTANT One

VARIABLE drawn \* <<the step that led here, what is to be seen>>

Phase == CASE life[One] = "new" -> "not joined"
           [] life[One] = "gone" -> "closed"
           [] initial[One] -> "coupled slow start"
           [] life[One] = "live" /\ ~initial[One] /\ cwnd[One] < ssthresh[One] -> "slow start"
           [] OTHER -> "congestion avoidance"

Seen == [connection |-> IF conInitial THEN "initial slow start" ELSE "after it", subflow |-> Phase]

DrawInit == Init /\ drawn = <<"", Seen>>

Draws(s, mine, others) == drawn' = <<IF s = One THEN mine ELSE others, Seen'>>

DrawNext ==
    \E s \in Subflows :
        \/ (\E r \in FirstRtts : Join(s, r)) /\ Draws(s, "Join", "another's Join")
        \/ (\E n \in Acked : CoupledAck(s, n)) /\ Draws(s, "CoupledAck", "another's CoupledAck")
        \/ (\E n \in Acked : ThresholdAck(s, n)) /\ Draws(s, "ThresholdAck", "another's ThresholdAck")
        \/ ExitAck(s) /\ Draws(s, "ExitAck", "another's ExitAck")
        \/ (\E n \in Acked : OrdinaryAck(s, n)) /\ Draws(s, "OrdinaryAck", "another's OrdinaryAck")
        \/ Loss(s) /\ Draws(s, "Loss", "another's Loss")
        \/ Timeout(s) /\ Draws(s, "Timeout", "another's Timeout")
        \/ Undo(s) /\ Draws(s, "Undo", "another's Undo")
        \/ Separate(s) /\ Draws(s, "Separate", "another's Separate")
        \/ Leave(s) /\ Draws(s, "Leave", "another's Leave")
        \/ Idle(s) /\ Draws(s, "Idle", "another's Idle")

DrawSpec == DrawInit /\ [][DrawNext]_<<vars, drawn>>
=============================================================================
