---------------------- MODULE AggressiveAvoidanceSteps ----------------------
(***************************************************************************)
(* What each action of AggressiveAvoidance sets, what it leaves alone, and *)
(* when it may happen, in other words than the action's: the equations of  *)
(* the paper by bounds, and what stays as it was.  `make specs-mutants`    *)
(* judges with these properties.  They write out whom they speak of        *)
(* (life[s] = "live"), so that a mistake in Live or RttMin is seen, too.   *)
(*                                                                         *)
(* The judges take one step from every pair of situations that a subflow   *)
(* may be in (JudgeInit), so that a run is short and every branch of every *)
(* action is taken.                                                        *)
(***************************************************************************)
EXTENDS MCAggressiveAvoidance

\* True of the states that a judge begins in.
OneStep == TLCGet("level") < 1

\* A subflow that has not joined, or that closed, has nothing that a sum or a comparison of the others could see.
NothingOfTheClosed ==
    \A s \in Subflows : life[s] # "live" => cwnd[s] = 0 /\ ssthresh[s] = NoSubflow /\ ~grown[s] /\ peak[s] = 0

\* What may happen: an ACK to whoever has a segment to send; a loss, a timeout or a close to each open subflow; a join to
\* each that has not been there. And to nobody else.
MayHappen ==
    OneStep => \A s \in Subflows :
        /\ \A n \in Acked : (ENABLED (Ack(s, n) /\ (cwnd'[s] > cwnd[s] \/ cwnd[s] = WindowMax)))
                             = (life[s] = "live" /\ cwnd[s] >= Segment)
        /\ (ENABLED Loss(s)) = ("loss" \in Events /\ life[s] = "live")
        /\ (ENABLED Timeout(s)) = ("timeout" \in Events /\ life[s] = "live")
        /\ (ENABLED Join(s)) = ("join" \in Events /\ life[s] = "new")
        /\ (ENABLED Leave(s)) = ("leave" \in Events /\ life[s] = "live")

(* Steps. *)

AsItWas(s) == life'[s] = life[s] /\ cwnd'[s] = cwnd[s] /\ ssthresh'[s] = ssthresh[s] /\ grown'[s] = grown[s] /\ peak'[s] = peak[s]

\* The sums of the paper over open subflows, and the smallest RTT, written once more:
\* S = RateSum/RttUnit, Q = WeightSum/RttUnit^2.
Open == {s \in Subflows : life[s] = "live"}
Rate(s) == RttUnit \div rtt[s]
RateSum == Sum([s \in Subflows |-> Rate(s) * cwnd[s]], Open)
WeightSum == Sum([s \in Subflows |-> Rate(s) * Rate(s) * cwnd[s]], Open)
Shortest == CHOOSE r \in Rtts : (\E s \in Open : rtt[s] = r) /\ (\A s \in Open : rtt[s] >= r)

\* What happens to a subflow changes that subflow alone, and nothing changes an RTT.
StepsOfOne ==
    [][ /\ rtt' = rtt
        /\ \A s \in Subflows : /\ \A n \in Acked : Ack(s, n) => \A t \in Subflows \ {s} : AsItWas(t)
                               /\ Loss(s) \/ Timeout(s) \/ Join(s) \/ Leave(s) => \A t \in Subflows \ {s} : AsItWas(t)
        /\ \E s \in Subflows : \A t \in Subflows \ {s} : AsItWas(t) ]_vars

\* An ACK changes the window, which it makes larger, and that it has grown.
AckGrows ==
    [][ \A s \in Subflows, n \in Acked : Ack(s, n) =>
          /\ life'[s] = life[s] /\ ssthresh'[s] = ssthresh[s] /\ peak'[s] = peak[s] /\ grown'[s]
          /\ cwnd'[s] > cwnd[s] \/ cwnd[s] = WindowMax ]_vars

\* Up to the threshold each segment that is acknowledged adds one: a window that stays below has them all, and none stops
\* short of the threshold.
SlowStartAddsAll ==
    [][ \A s \in Subflows, n \in Acked : Ack(s, n) /\ ~InAvoidance(s) =>
          /\ cwnd'[s] < ssthresh[s] => cwnd'[s] = Min(cwnd[s] + n * Segment, WindowMax)
          /\ n * Segment >= ssthresh[s] - cwnd[s] => cwnd'[s] >= Min(ssthresh[s], WindowMax) ]_vars

\* What an ACK adds in congestion avoidance, and for how many whole segments (those that slow start did not use).
Added(s) == cwnd'[s] - (IF InAvoidance(s) THEN cwnd[s] ELSE ssthresh[s])
Counted(s, n, m) ==
    LET over == cwnd[s] + n * Segment - (IF InAvoidance(s) THEN cwnd[s] ELSE ssthresh[s])
    IN m >= 0 /\ m * Segment <= over /\ (m + 1) * Segment > over
\* "parts" of a whole are added: rounded down, but something always; and less where the largest window is reached.
Adds(s, whole, parts) ==
    \/ cwnd'[s] = WindowMax /\ Added(s) * parts <= Max(whole, parts)
    \/ cwnd'[s] < WindowMax /\ Added(s) >= 1
       /\ (Added(s) * parts <= whole \/ Added(s) = 1)
       /\ (Added(s) + 1) * parts > whole

\* Equation 6: m segments add m / (R_r min R sum w_k/R_k^2) of one, also where RTTs are not equal. With aca_safe no more
\* than m / w_r.
AddsEquation6 ==
    [][ \A s \in Subflows, n \in Acked : Ack(s, n) /\ cwnd[s] + n * Segment >= ssthresh[s] =>
          \E m \in 0 .. n :
            /\ Counted(s, n, m)
            /\ IF m = 0 THEN Added(s) = 0
               ELSE IF Safe /\ rtt[s] * Shortest * WeightSum < cwnd[s] * RttUnit * RttUnit
               THEN Adds(s, m * Segment * Segment, cwnd[s])
               ELSE Adds(s, m * Segment * Segment * RttUnit * RttUnit, rtt[s] * Shortest * WeightSum) ]_vars

\* A loss or a timeout ends an interval: if the window grew in it, its size is what tells the loss rate from now on.
ReductionEndsInterval ==
    [][ \A s \in Subflows : Loss(s) \/ Timeout(s) =>
          /\ life'[s] = life[s] /\ ~grown'[s]
          /\ grown[s] => peak'[s] = cwnd[s]
          /\ ~grown[s] => peak'[s] = peak[s] ]_vars

\* Half of the window, rounded up, or the floor.
IsHalf(w, of) == 2 * w \in {of, of + 1} \/ (w = MinSsthresh /\ 2 * MinSsthresh > of)
\* What the loss leaves when it takes at least `parts` of a `whole`, rounded down; or the floor.
IsLeft(w, of, whole, parts) ==
    \/ (of - w) * parts <= whole /\ whole < (of - w + 1) * parts
    \/ w = MinSsthresh /\ (of - MinSsthresh) * parts <= whole

\* Loss rates are alike: of two windows at the end of their intervals, none is larger than the other by more than LossRatio allows.
AllAlike ==
    LET peaks == {peak'[s] : s \in Open}
        top == CHOOSE p \in peaks : \A q \in peaks : q <= p
        low == CHOOSE p \in peaks : \A q \in peaks : q >= p
    IN low > 0 /\ LossRatio * low * low >= top * top

\* What a loss leaves is the new threshold at once, so there is no slow start after it.
\* Equation 8 where loss rates are alike: D_r = min R S^2 / (2 R_r Q), also where RTTs are not equal. Half where not
\* (Algorithm 2 line 12). With aca_safe no less than half.
LossTakesItsShare ==
    [][ \A s \in Subflows : Loss(s) =>
          /\ cwnd'[s] = ssthresh'[s]
          /\ IF Decrease = "half" \/ (Decrease = "auto" /\ ~AllAlike) THEN IsHalf(cwnd'[s], cwnd[s])
             ELSE LET whole == Shortest * RateSum * RateSum  parts == 2 * rtt[s] * WeightSum
                  IN IF Safe /\ whole < (cwnd[s] \div 2) * parts THEN IsHalf(cwnd'[s], cwnd[s])
                     ELSE IsLeft(cwnd'[s], cwnd[s], whole, parts) ]_vars

\* A timeout leaves one segment, and slow start to half of what there was.
TimeoutBeginsAgain ==
    [][ \A s \in Subflows : Timeout(s) => cwnd'[s] = Segment /\ IsHalf(ssthresh'[s], cwnd[s]) ]_vars

\* A subflow that joins after the exit begins in slow start, below its static threshold; one that closes is gone for good.
JoinsAndCloses ==
    [][ \A s \in Subflows : /\ life[s] = "new" => life'[s] # "gone"
                            /\ life[s] = "live" => life'[s] # "new"
                            /\ life[s] = "gone" => AsItWas(s)
                            /\ Join(s) => life'[s] = "live" /\ cwnd'[s] = IW /\ ssthresh'[s] = OwnSsthresh
                            /\ Leave(s) => life'[s] = "gone" ]_vars

---------------------------------------------------------------------------
(* The judges' beginning: whether a situation can be reached does not matter. *)

Situation(w, threshold, g, p) == [life |-> "live", cwnd |-> w, ssthresh |-> threshold, grown |-> g, peak |-> p]
Away(l) == [life |-> l, cwnd |-> 0, ssthresh |-> NoSubflow, grown |-> FALSE, peak |-> 0]
Usual ==
    {Situation(36, 24, TRUE, 0),      \* has lost nothing yet
     Situation(61, 24, FALSE, 73),
     Situation(12, 40, FALSE, 36)}    \* after a timeout: an ACK of many segments goes across the threshold
Unusual ==
    {Situation(70, 24, FALSE, 0),     \* loses before anything was acknowledged
     Situation(60, 60, TRUE, 15),
     Situation(97, 24, FALSE, 26),
     Situation(15, 24, TRUE, 36),     \* grows to the threshold exactly, or across it
     Situation(36, 40, TRUE, 72),     \* less than a segment below its threshold
     Situation(36, OwnSsthresh, TRUE, 0),  \* has joined
     Situation(11, 24, FALSE, 36),    \* cannot send
     Situation(148, 24, FALSE, 144)}  \* next to the largest window
Situations ==
    Usual \cup (IF Decrease = "auto" THEN Unusual ELSE {})
          \cup (IF "join" \in Events \/ Events = {} THEN {Away("new"), Away("gone")} ELSE {})

JudgeInit ==
    \E f \in [Subflows -> Situations] :
        /\ life = [s \in Subflows |-> f[s].life]
        /\ cwnd = [s \in Subflows |-> f[s].cwnd]
        /\ ssthresh = [s \in Subflows |-> f[s].ssthresh]
        /\ grown = [s \in Subflows |-> f[s].grown]
        /\ peak = [s \in Subflows |-> f[s].peak]
        /\ rtt \in [Subflows -> Rtts]
=============================================================================
