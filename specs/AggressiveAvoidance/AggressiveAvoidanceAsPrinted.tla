------------------- MODULE AggressiveAvoidanceAsPrinted -------------------
(***************************************************************************)
(* The same machine with lines of TCCC's Algorithm 2 taken at their word,  *)
(* each by itself: Literal names which.                                    *)
(*                                                                         *)
(*   floor      lines 10 and 12: cwnd_r -= D_r, whatever is left           *)
(*   threshold  lines 8-13 set no ssth_r, and line 3 asks for it           *)
(*   remainder  line 4: cwnd_r += acked, also across the threshold         *)
(*                                                                         *)
(* With none of them it is the machine as run, watched for what several    *)
(* losses in one round trip do.                                            *)
(***************************************************************************)
EXTENDS MCAggressiveAvoidance

CONSTANT Literal

VARIABLE round \* all windows together after the last ACK

printedVars == <<vars, round>>
Says(line) == line \in Literal
Total(w) == Sum(w, Subflows)

PInit == Init /\ round = Total(cwnd)

PAck(s, n) ==
    /\ IF Says("remainder") /\ s \in Live /\ cwnd[s] < ssthresh[s]
       THEN /\ cwnd' = [cwnd EXCEPT ![s] = Min(cwnd[s] + n * Segment, WindowMax)]
            /\ grown' = [grown EXCEPT ![s] = TRUE]
            /\ UNCHANGED <<life, ssthresh, rtt, peak>>
       ELSE Ack(s, n)
    /\ round' = Total(cwnd')

PLoss(s) ==
    /\ "loss" \in Events
    /\ s \in Live
    /\ cwnd[s] > 0  \* what sends nothing loses nothing
    /\ peak' = PeakNow(s)
    /\ LET left == cwnd[s] - Cut(s, peak')
           kept == IF Says("floor") THEN left ELSE Max(left, MinSsthresh)
       IN /\ cwnd' = [cwnd EXCEPT ![s] = kept]
          /\ ssthresh' = IF Says("threshold") THEN ssthresh ELSE [ssthresh EXCEPT ![s] = kept]
    /\ grown' = [grown EXCEPT ![s] = FALSE]
    /\ UNCHANGED <<life, rtt, round>>

PTimeout(s) == Timeout(s) /\ UNCHANGED round

PNext == \E s \in Subflows : (\E n \in Acked : PAck(s, n)) \/ PLoss(s) \/ PTimeout(s)

PSpec == PInit /\ [][PNext]_printedVars /\ \A s \in Subflows : WF_printedVars(\E n \in Acked : PAck(s, n))

NotNegative == \A s \in Live : cwnd[s] >= 0

\* However many subflows lose in one round trip, half of what the connection had is left: a TCP halves once.
RoundHalvesOnce == 2 * Total(cwnd) >= round
=============================================================================
