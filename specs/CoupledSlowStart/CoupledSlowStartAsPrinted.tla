--------------------- MODULE CoupledSlowStartAsPrinted ---------------------
(***************************************************************************)
(* The same machine with lines of the papers taken at their word, each by  *)
(* itself: Literal names which.  The configurations asprinted-*.cfg show   *)
(* what follows; their violations are expected and pinned.                 *)
(*                                                                         *)
(*   c1     TCCC Algorithm 1 line 18: alpha_r = alpha R_r / min R          *)
(*   c3     TCCC Algorithm 1 line 6: exp_th is computed once, at the start *)
(*   c5     TCCC Algorithm 1 line 15: rtt = g rtt + (1 - g) rtt            *)
(*   c8     TCCC lines 7-11, CSS Algorithm 2: a join computes alpha        *)
(*          whatever the totals are                                        *)
(*   late   TCCC lines 2-4, CSS lines 2-4: every subflow begins in initial *)
(*          slow start, also after the connection left it                  *)
(*   c10    CSS Algorithm 2 line 9: alpha_r is computed at joins only      *)
(*   c12    TCCC Algorithm 1 has no loss: a subflow that lost goes on      *)
(*          growing by lines 17-20, which do not ask for ini_SS_r          *)
(*   c15    TCCC Algorithm 1 has no line for a subflow's own threshold     *)
(*          (CSS lines 18-19)                                              *)
(*   exit   TCCC lines 23-24: the exit sets the threshold of every subflow *)
(*   c13    TCCC line 29, CSS Algorithm 3 line 5: outside, an ACK adds     *)
(*          what it acknowledges, also above the threshold                 *)
(*   flag   CSS Algorithm 1 lines 5-7: initialSS stays true when the last  *)
(*          coupled subflow lost, and a join does not ask whether any is   *)
(*   close  neither paper has a rule for a subflow that closes             *)
(***************************************************************************)
EXTENDS MCCoupledSlowStart

CONSTANT Literal

VARIABLES
    firstMin, \* the smallest RTT when exp_th was computed (c3)
    ratio     \* R_r and base RTT when alpha_r was computed (c10)

printedVars == <<vars, firstMin, ratio>>

Says(line) == line \in Literal

PInit == Init /\ firstMin = NoSample /\ ratio = [s \in Subflows |-> <<1, 1>>]

\* ln alpha' = ln alpha ln(con/after) / ln(con/total), for any totals; where it divides by zero, whatever it was.
PrintedRescale(a, total, after) ==
    LET up == Ln(ConSsthresh) - Ln(after)  down == Ln(ConSsthresh) - Ln(total)
    IN IF down = 0 THEN a ELSE IF down > 0 THEN (a * up) \div down ELSE (a * (0 - up)) \div (0 - down)

\* (alpha_r - 1) n, and not less than a unit where it is above 0; below 0 where alpha is below 1.
PrintedStep(s, n) ==
    LET r     == IF Says("c10") THEN ratio[s][1] ELSE rtt[s]
        least == IF Says("c10") THEN ratio[s][2] ELSE RttMin
        growth == IF Says("c1") THEN ((1000 + ExpMinusOne(alpha)) * r) \div least - 1000
                                ELSE ExpMinusOne((alpha * r) \div least)
        units == (growth * n * Segment) \div 1000
    IN IF growth > 0 THEN Max(units, 1) ELSE units

PrintedExceeds ==
    IF Says("c3") /\ firstMin # NoSample
    THEN Sum([s \in Subflows |-> IF s \in Sampled THEN Rate(cwnd[s], rtt[s], firstMin) ELSE 0], Sampled)
           > ConSsthresh * RateUnit
    ELSE RateExceeds

PJoin(s, r) ==
    /\ IF Literal \cap {"c8", "late", "flag"} = {}
       THEN Join(s, r)
       ELSE LET total == TotalOf(Live, NoSample)
                coupled == conInitial \/ Says("late")
            IN /\ life[s] = "new"
               /\ life' = [life EXCEPT ![s] = "live"]
               /\ cwnd' = [cwnd EXCEPT ![s] = IW]
               /\ rtt' = [rtt EXCEPT ![s] = r]
               /\ IF Says("c8") \/ Live = {} \/ ~coupled \/ total + IW < ConSsthresh
                  THEN /\ initial' = [initial EXCEPT ![s] = coupled]
                       /\ alpha' = IF Live = {} \/ ~coupled THEN alpha ELSE PrintedRescale(alpha, total, total + IW)
                       /\ ssthresh' = [ssthresh EXCEPT ![s] = OwnSsthresh]
                       /\ UNCHANGED conInitial
                  ELSE /\ Exit(Coupled \cup {s}, cwnd')
                       /\ UNCHANGED alpha
               /\ UNCHANGED before
    /\ firstMin' = IF firstMin = NoSample THEN r ELSE firstMin
    /\ ratio' = [t \in Subflows |-> IF t \in Live \cup {s} THEN <<rtt'[t], SmallestOf(rtt', Live \cup {s})>> ELSE ratio[t]]

PCoupledAck(s, n) ==
    /\ s \in Coupled
    /\ ~PrintedExceeds
    /\ Says("c15") \/ cwnd[s] <= ssthresh[s]
    /\ cwnd' = [cwnd EXCEPT ![s] = Max(Min(cwnd[s] + Min(PrintedStep(s, n), Cap), WindowMax), 0)]
    /\ UNCHANGED <<life, ssthresh, initial, rtt, before, conInitial, alpha, firstMin, ratio>>

PThresholdAck(s, n) ==
    /\ ~Says("c15")
    /\ ThresholdAck(s, n)
    /\ UNCHANGED <<firstMin, ratio>>

PExitAck(s) ==
    /\ s \in Coupled
    /\ PrintedExceeds
    /\ Exit(IF Says("exit") THEN Live ELSE Coupled, cwnd)
    /\ UNCHANGED <<life, cwnd, rtt, before, alpha, firstMin, ratio>>

POrdinaryAck(s, n) ==
    /\ IF Says("c13")
       THEN /\ s \in Live \ Coupled
            /\ cwnd' = [cwnd EXCEPT ![s] = Min(cwnd[s] + n * Segment, WindowMax)]
            /\ UNCHANGED <<life, ssthresh, initial, rtt, before, conInitial, alpha>>
       ELSE OrdinaryAck(s, n)
    /\ UNCHANGED <<firstMin, ratio>>

PLoss(s) ==
    /\ IF Literal \cap {"c12", "flag"} # {}
       THEN /\ "loss" \in Events
            /\ s \in Live
            /\ ssthresh' = [ssthresh EXCEPT ![s] = Halved(s)]
            /\ cwnd' = [cwnd EXCEPT ![s] = Halved(s)]
            /\ initial' = [initial EXCEPT ![s] = @ /\ Says("c12")]
            /\ UNCHANGED <<life, rtt, before, conInitial, alpha>>
       ELSE Loss(s)
    /\ UNCHANGED <<firstMin, ratio>>

PLeave(s) ==
    /\ IF Says("close")
       THEN /\ "leave" \in Events
            /\ s \in Live
            /\ life' = [life EXCEPT ![s] = "gone"]
            /\ cwnd' = [cwnd EXCEPT ![s] = 0]
            /\ ssthresh' = [ssthresh EXCEPT ![s] = NoSubflow]
            /\ initial' = [initial EXCEPT ![s] = FALSE]
            /\ rtt' = [rtt EXCEPT ![s] = NoSample]
            /\ UNCHANGED <<before, conInitial, alpha>>
       ELSE Leave(s)
    /\ UNCHANGED <<firstMin, ratio>>

\* A sample r of a path whose RTT was rtt[s]: with TCCC's line 15 the smoothed value is rtt[s] again.
PRttSample(s, r) ==
    /\ ~Says("c5")
    /\ RttSample(s, r)
    /\ UNCHANGED <<firstMin, ratio>>

POver == (\A s \in Subflows : life[s] = "gone") /\ UNCHANGED printedVars

PNext ==
    \/ \E s \in Subflows :
         \/ \E r \in FirstRtts : PJoin(s, r)
         \/ \E n \in Acked : PCoupledAck(s, n)
         \/ \E n \in Acked : PThresholdAck(s, n)
         \/ PExitAck(s)
         \/ \E n \in Acked : POrdinaryAck(s, n)
         \/ PLoss(s)
         \/ PLeave(s)
         \/ \E r \in Rtts : PRttSample(s, r)
    \/ POver

PSpec == /\ PInit /\ [][PNext]_printedVars
         /\ \A s \in Subflows : WF_printedVars((\E n \in Acked : PCoupledAck(s, n) \/ PThresholdAck(s, n)) \/ PExitAck(s))

\* The logarithm that a join divides by is not 0.
JoinDefined ==
    [][ Joins # {} /\ conInitial /\ Coupled # {} => TotalOf(Live, NoSample) # ConSsthresh ]_printedVars

\* A path whose RTT may change can be seen to have another one (c5: the printed smoothing is an identity).
RttFollows == \A s \in Subflows : (life[s] = "live" /\ rtt[s] = 1) => ENABLED (\E r \in Rtts \ {1} : PRttSample(s, r))
=============================================================================
