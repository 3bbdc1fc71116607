---------------------- MODULE DrawAggressiveAvoidance ----------------------
(* AggressiveAvoidance with a variable that says what the picture shows: one subflow, One, and what a loss would do. *)
EXTENDS MCAggressiveAvoidance

CONSTANT One

VARIABLE drawn \* <<the step that led here, what is to be seen>>

Phase == CASE life[One] = "new" -> "not joined"
           [] life[One] = "gone" -> "closed"
           [] life[One] = "live" /\ cwnd[One] < ssthresh[One] -> "slow start"
           [] OTHER -> "congestion avoidance"

Seen == [subflow |-> Phase,
         loss |-> IF life[One] # "live" THEN "none" ELSE IF SameLossRate(peak) THEN "takes what equation 8 says" ELSE "halves"]

DrawInit == Init /\ drawn = <<"", Seen>>

Draws(s, mine, others) == drawn' = <<IF s = One THEN mine ELSE others, Seen'>>

DrawNext ==
    \E s \in Subflows :
        \/ (\E n \in Acked : Ack(s, n)) /\ Draws(s, "Ack", "another's Ack")
        \/ Loss(s) /\ Draws(s, "Loss", "another's Loss")
        \/ Timeout(s) /\ Draws(s, "Timeout", "another's Timeout")
        \/ Join(s) /\ Draws(s, "Join", "another's Join")
        \/ Leave(s) /\ Draws(s, "Leave", "another's Leave")

DrawSpec == DrawInit /\ [][DrawNext]_<<vars, drawn>>
=============================================================================
