----------------------- MODULE CoupledSlowStartSteps -----------------------
(***************************************************************************)
(* What each action of CoupledSlowStart sets, what it leaves alone, and    *)
(* when it may happen, in other words than the action's: from the papers'  *)
(* text and equations, by sums and bounds.  `make specs-mutants` judges    *)
(* with these properties; nothing here uses the machine's own operators    *)
(* but Growth, Rescale and Avoidance, which its model defines.             *)
(*                                                                         *)
(* The judges take one step from every pair of situations that a subflow   *)
(* may be in (JudgeInit), so that a run is short and every branch of every *)
(* action is taken.                                                        *)
(***************************************************************************)
EXTENDS MCCoupledSlowStart

\* True of the states that a judge begins in.
OneStep == TLCGet("level") < 1

(* Whom the properties speak of. *)

Open  == {s \in Subflows : life[s] = "live"}
Going == {s \in Open : initial[s]}   \* coupled
Timed(r, S) == {s \in S : r[s] # NoSample}
ShortestOf(r, S) == IF Timed(r, S) = {} THEN NoSample
                    ELSE CHOOSE q \in Rtts : (\E s \in Timed(r, S) : r[s] = q) /\ (\A s \in Timed(r, S) : r[s] >= q)
\* Who is not known to share its bottleneck with no other.
Sharing == {s \in Open : before[s][3] # Apart}
Shortest == ShortestOf(rtt, Sharing)

\* TCCC III.B: the expected rate, con_ssth / min R, is exceeded by the sum of w_k / R_k.
TooFast ==
    Shortest * Sum([s \in Subflows |-> IF s \in Timed(rtt, Sharing) THEN cwnd[s] * (RateUnit \div rtt[s]) ELSE 0], Subflows)
      > ConSsthresh * RateUnit

SameFor(t) == /\ life'[t] = life[t] /\ cwnd'[t] = cwnd[t] /\ ssthresh'[t] = ssthresh[t]
              /\ initial'[t] = initial[t] /\ rtt'[t] = rtt[t] /\ before'[t] = before[t]
OthersSame(s) == \A t \in Subflows \ {s} : SameFor(t)
ConnectionSame == conInitial' = conInitial /\ alpha' = alpha

(* When each may happen. Whoever is coupled gets one of three kinds of ACK, by the rate and its own threshold. *)

MayHappen ==
    OneStep => \A s \in Subflows :
        LET open == life[s] = "live"
            coupled == open /\ initial[s]
        IN
        /\ \A r \in FirstRtts : (ENABLED Join(s, r)) = (life[s] = "new")
        /\ \A n \in Acked :
             /\ (ENABLED (CoupledAck(s, n) /\ (cwnd'[s] > cwnd[s] \/ cwnd[s] = WindowMax)))
                = (coupled /\ ~TooFast /\ cwnd[s] <= ssthresh[s])
             /\ (ENABLED ThresholdAck(s, n)) = (coupled /\ ~TooFast /\ cwnd[s] > ssthresh[s])
             /\ (ENABLED OrdinaryAck(s, n)) = (open /\ ~coupled)
        /\ (ENABLED (ExitAck(s) /\ ~conInitial')) = (coupled /\ TooFast)
        /\ (ENABLED Loss(s)) = (open /\ "loss" \in Events)
        /\ (ENABLED Timeout(s)) = (open /\ "timeout" \in Events)
        /\ (ENABLED Undo(s)) = (open /\ before[s][1] # 0)
        /\ (ENABLED Separate(s)) = (open /\ before[s][3] # Apart /\ "verdict" \in Events)
        /\ (ENABLED Leave(s)) = (open /\ "leave" \in Events)
        /\ \A r \in Rtts : (ENABLED (RttSample(s, r) /\ rtt' # rtt)) =
                            (open /\ rtt[s] # r /\ (rtt[s] = NoSample \/ "rtt" \in Events))
        /\ (ENABLED Idle(s)) = (open /\ cwnd[s] > IW /\ "idle" \in Events)

\* A subflow that has not joined, or that closed, is no longer seen: it has nothing that a sum or a minimum could count.
NothingOfTheClosed ==
    \A s \in Subflows : life[s] # "live" =>
        cwnd[s] = 0 /\ ssthresh[s] = NoSubflow /\ ~initial[s] /\ rtt[s] = NoSample /\ before[s] = Nothing

\* What every sum of rates is measured by: the round trip of the open subflow that has the shortest one.
RttMinIsTheShortest == RttMin = Shortest

\* Judges of states alone take no step, so that TLC does not stop at one that it cannot work out.
Still == UNCHANGED vars

(* What several actions have in common. *)

\* s leaves coupled slow start alone; the connection leaves with the last one.
AloneLeaves(s) ==
    /\ ~initial'[s]
    /\ conInitial' = (\E t \in Going : t # s)
    /\ alpha' = alpha

\* The connection leaves as a whole: who was coupled (S) has its window as its threshold, everybody else keeps its own, and
\* who lost before and takes it back later comes too late.
WholeLeaves(S) ==
    /\ ~conInitial'
    /\ alpha' = alpha
    /\ \A t \in Subflows :
         /\ ~initial'[t]
         /\ t \in S => ssthresh'[t] = cwnd'[t]
         /\ t \notin S => ssthresh'[t] = ssthresh[t]
         /\ before'[t][1] = before[t][1] /\ before'[t][2] = before[t][2]
         /\ before[t][3] = Uncoupled => before'[t][3] = LeftSince
         /\ before[t][3] # Uncoupled => before'[t][3] = before[t][3]

\* An ordinary ACK: all that is acknowledged is added up to the threshold, and what is left of it counts in congestion
\* avoidance (C-13).
GrowsOrdinarily(s, n) ==
    LET reached == IF cwnd[s] >= ssthresh[s] THEN cwnd[s] ELSE ssthresh[s]
        over == IF cwnd[s] >= ssthresh[s] THEN n * Segment ELSE cwnd[s] + n * Segment - ssthresh[s]
        all == cwnd[s] + n * Segment
    IN IF all <= ssthresh[s] THEN cwnd'[s] = (IF all > WindowMax THEN WindowMax ELSE all)
       ELSE \E added \in Avoidance(reached, over) :
              cwnd'[s] = (IF reached + added > WindowMax THEN WindowMax ELSE reached + added)

\* Half of the window, rounded up, or the floor.
IsHalf(w, of) == 2 * w \in {of, of + 1} \/ (w = MinSsthresh /\ 2 * MinSsthresh > of)
\* x is the larger of a and three quarters of w, rounded down.
IsRaised(x, a, w) == x >= a /\ 4 * (x + 1) > 3 * w /\ (x = a \/ 4 * x <= 3 * w)

\* A reduction keeps what an undo would give back, while undos happen.
Remembers(s) ==
    IF "undo" \in Events
    THEN /\ before'[s][1] = cwnd[s]
         /\ IsRaised(before'[s][2], ssthresh[s], cwnd[s])
         /\ before'[s][3] = (IF initial[s] THEN Uncoupled ELSE IF before[s][3] = Apart THEN Apart ELSE 0)
    ELSE before'[s] = before[s]

\* A window as it counts at a join or a close: as it is, or as a window at the shortest RTT (option join_weighted).
Counts(c, w, r, least) == IF JoinWeighted /\ r # NoSample THEN c * r <= w * least /\ (c + 1) * r > w * least ELSE c = w
CountOf(w, r, least) == CHOOSE c \in 0 .. 2 * WindowMax : Counts(c, w, r, least)
CountAll(S, least) == Sum([s \in Subflows |-> IF s \in S THEN CountOf(cwnd[s], rtt[s], least) ELSE 0], Subflows)

\* At the new pace the new total takes as long to con_ssth as the old one did at the old (TCCC eq. 4; rounded up).
KeepsTime(total, after) == alpha' * LnTo(total) >= alpha * LnTo(after) /\ (alpha' - 1) * LnTo(total) < alpha * LnTo(after)

(* What each action does. *)

\* CSS Algorithm 2, TCCC lines 7-11. The newcomer of a join that fills con_ssth has its window as its threshold, as the others.
JoinDoes ==
    [][ \A s \in Subflows, r \in FirstRtts : Join(s, r) =>
          LET least == ShortestOf(rtt', Sharing \cup {s})
              total == CountAll(Sharing, least)
              after == total + CountOf(IW, r, least)
          IN /\ life'[s] = "live" /\ cwnd'[s] = IW /\ rtt'[s] = r
             /\ \A t \in Subflows \ {s} : life'[t] = life[t] /\ cwnd'[t] = cwnd[t] /\ rtt'[t] = rtt[t]
             /\ IF Going # {} /\ after >= ConSsthresh
                THEN WholeLeaves(Going \cup {s})
                ELSE /\ OthersSame(s) /\ before'[s] = before[s] /\ ssthresh'[s] = OwnSsthresh
                     /\ IF Sharing = {} THEN initial'[s] = conInitial /\ ConnectionSame
                        ELSE IF Going = {} THEN ~initial'[s] /\ ~conInitial' /\ alpha' = alpha
                        ELSE initial'[s] /\ conInitial' = conInitial /\ KeepsTime(IF total = 0 THEN 1 ELSE total, after) ]_vars

\* Growth by exactly alpha^(R_r/min R), or by the cap where that is less; of this window alone.
CoupledAckDoes ==
    [][ \A s \in Subflows, n \in Acked : CoupledAck(s, n) =>
          /\ OthersSame(s) /\ ConnectionSame
          /\ SameFor(s) \/ (cwnd'[s] > cwnd[s] /\ ssthresh'[s] = ssthresh[s] /\ initial'[s] /\ before'[s] = before[s]
                            /\ rtt'[s] = rtt[s] /\ life'[s] = life[s])
          /\ \E step \in Growth(alpha, rtt[s], Shortest, n) :
               \/ cwnd'[s] = WindowMax /\ WindowMax - cwnd[s] <= step /\ WindowMax - cwnd[s] <= Cap
               \/ cwnd'[s] < WindowMax /\ step <= Cap /\ cwnd'[s] = cwnd[s] + step
               \/ cwnd'[s] < WindowMax /\ step > Cap /\ cwnd'[s] = cwnd[s] + Cap ]_vars

\* In the same time: where an RTT is twice the shortest, one RTT's growth is that of two (1 + g)^2 = 1 + 2 g + g^2.
GrowsAsPower ==
    [][ \A s \in Subflows, n \in Acked : CoupledAck(s, n) /\ Shortest # NoSample /\ rtt[s] = 2 * Shortest /\ cwnd'[s] < WindowMax =>
          LET g == ExpMinusOne(alpha)
              units == ((2 * g + (g * g) \div 1000) * n * Segment) \div 1000
          IN IF units > Cap THEN cwnd'[s] = cwnd[s] + Cap
             ELSE cwnd'[s] - cwnd[s] \in (units - 1) .. (units + 1) ]_vars

ThresholdAckDoes ==
    [][ \A s \in Subflows, n \in Acked : ThresholdAck(s, n) =>
          /\ OthersSame(s) /\ AloneLeaves(s) /\ GrowsOrdinarily(s, n)
          /\ life'[s] = life[s] /\ ssthresh'[s] = ssthresh[s] /\ rtt'[s] = rtt[s] /\ before'[s] = before[s] ]_vars

ExitAckDoes ==
    [][ \A s \in Subflows : ExitAck(s) => life' = life /\ cwnd' = cwnd /\ rtt' = rtt /\ WholeLeaves(Going) ]_vars

\* The exit test is made on it, too (CSS line 8: on an ACK of any subflow).
OrdinaryAckDoes ==
    [][ \A s \in Subflows, n \in Acked : OrdinaryAck(s, n) =>
          /\ GrowsOrdinarily(s, n)
          /\ \A t \in Subflows : life'[t] = life[t] /\ rtt'[t] = rtt[t] /\ (t # s => cwnd'[t] = cwnd[t])
          /\ IF conInitial /\ TooFast THEN WholeLeaves(Going)
             ELSE ConnectionSame /\ ssthresh' = ssthresh /\ initial' = initial /\ before' = before ]_vars

\* A loss leaves half, which is the threshold; a timeout a segment, and half as the threshold. Both uncouple this subflow alone.
LossDoes ==
    [][ \A s \in Subflows : Loss(s) =>
          /\ OthersSame(s) /\ life'[s] = life[s] /\ rtt'[s] = rtt[s]
          /\ IsHalf(cwnd'[s], cwnd[s]) /\ ssthresh'[s] = cwnd'[s]
          /\ AloneLeaves(s) /\ Remembers(s) ]_vars
TimeoutDoes ==
    [][ \A s \in Subflows : Timeout(s) =>
          /\ OthersSame(s) /\ life'[s] = life[s] /\ rtt'[s] = rtt[s]
          /\ cwnd'[s] = Segment /\ IsHalf(ssthresh'[s], cwnd[s])
          /\ AloneLeaves(s) /\ Remembers(s) ]_vars

\* The window and the threshold that there were come back (larger ones stay), and the coupling. If the others left meanwhile,
\* the subflow leaves as they did.
UndoDoes ==
    [][ \A s \in Subflows : Undo(s) =>
          LET w == before[s][1]  threshold == before[s][2]  left == before[s][3] IN
          /\ OthersSame(s) /\ life'[s] = life[s] /\ rtt'[s] = rtt[s] /\ alpha' = alpha
          /\ before'[s] = (IF left = Apart THEN <<0, 0, Apart>> ELSE Nothing)
          /\ cwnd'[s] >= w /\ cwnd'[s] >= cwnd[s] /\ cwnd'[s] \in {w, cwnd[s]}
          /\ IF left = Uncoupled THEN initial'[s] /\ conInitial'
             ELSE initial'[s] = initial[s] /\ conInitial' = conInitial
          /\ IF left = LeftSince THEN ssthresh'[s] = cwnd'[s]
             ELSE /\ ssthresh'[s] >= ssthresh[s] /\ ssthresh'[s] >= threshold
                  /\ ssthresh'[s] \in {ssthresh[s], threshold} ]_vars

\* Without one of those that share, the others' growth is the mirror of a join, and nobody grows faster than alone.
GivesBack(s) ==
    LET total == CountAll(Sharing, Shortest)
        after == CountAll(Sharing \ {s}, Shortest)
    IN IF ~conInitial \/ s \notin Sharing THEN alpha' = alpha
       ELSE IF after = 0 THEN alpha' = AlphaStart
       ELSE IF total >= ConSsthresh THEN alpha' = alpha
       ELSE KeepsTime(total, after) \/ (alpha' = AlphaStart /\ AlphaStart * LnTo(total) <= alpha * LnTo(after))

\* TCCC IV.D: what shares with nobody leaves alone, as it is, for good; it counts no more for the others.
SeparateDoes ==
    [][ \A s \in Subflows : Separate(s) =>
          /\ OthersSame(s) /\ life'[s] = life[s] /\ cwnd'[s] = cwnd[s] /\ ssthresh'[s] = ssthresh[s] /\ rtt'[s] = rtt[s]
          /\ ~initial'[s]
          /\ conInitial' = (IF initial[s] THEN \E t \in Going : t # s ELSE conInitial)
          /\ before'[s] = <<before[s][1], before[s][2], Apart>>
          /\ GivesBack(s) ]_vars

LeaveDoes ==
    [][ \A s \in Subflows : Leave(s) =>
          OthersSame(s) /\ conInitial' = conInitial /\ life'[s] = "gone" /\ GivesBack(s) ]_vars

RttSampleDoes ==
    [][ \A s \in Subflows, r \in Rtts : RttSample(s, r) =>
          /\ OthersSame(s) /\ ConnectionSame /\ rtt'[s] = r
          /\ life'[s] = life[s] /\ cwnd'[s] = cwnd[s] /\ ssthresh'[s] = ssthresh[s] /\ initial'[s] = initial[s]
          /\ before'[s] = before[s] ]_vars

\* Half of the window, not below IW, and a threshold of three quarters at least (RFC 2861).
IdleDoes ==
    [][ \A s \in Subflows : Idle(s) =>
          /\ OthersSame(s) /\ ConnectionSame
          /\ life'[s] = life[s] /\ rtt'[s] = rtt[s] /\ initial'[s] = initial[s] /\ before'[s] = before[s]
          /\ cwnd'[s] >= IW /\ 2 * (cwnd'[s] + 1) > cwnd[s] /\ (cwnd'[s] = IW \/ 2 * cwnd'[s] <= cwnd[s])
          /\ IsRaised(ssthresh'[s], ssthresh[s], cwnd[s]) ]_vars

\* Who has closed stays closed, and no step but these is taken.
LivesOnce ==
    [][ \A s \in Subflows : /\ life[s] = "gone" => SameFor(s)
                            /\ life[s] = "live" => life'[s] # "new"
                            /\ life[s] = "new" => life'[s] # "gone" ]_vars

---------------------------------------------------------------------------
(* The judges' beginning. *)

\* Any function will do in which no two different arguments look the same.
JudgeAvoidance(w, left) == {1 + ((3 * w + left) % 7)}

Situation(w, threshold, i, r, b) == [life |-> "live", cwnd |-> w, ssthresh |-> threshold, initial |-> i, rtt |-> r, before |-> b]
Away(l) == [life |-> l, cwnd |-> 0, ssthresh |-> NoSubflow, initial |-> FALSE, rtt |-> NoSample, before |-> Nothing]
Usual ==
    {Situation(20, 35, TRUE, 1, Nothing),
     Situation(17, 35, TRUE, 2, Nothing),
     Situation(39, 60, TRUE, 1, Nothing),            \* with one that joins, or the first of these, one unit short of con_ssth
     Situation(40, 35, TRUE, 2, Nothing),            \* has passed its own threshold; with one that joins, con_ssth exactly
     Situation(30, 20, FALSE, 2, <<50, 37, 2>>)}     \* lost, then the connection left
Unusual ==
    {Situation(35, 35, TRUE, 1, <<40, 60, 0>>),      \* at its own threshold
     Situation(52, 60, TRUE, 1, Nothing),            \* fast, with a threshold that an idle time raised
     Situation(86, 90, TRUE, 2, Nothing),            \* next to the largest window
     Situation(15, 20, FALSE, 1, <<40, 35, 1>>),     \* lost, and may be coupled again
     Situation(10, 25, FALSE, 2, <<50, 20, 0>>),     \* timed out
     Situation(25, 20, FALSE, 1, Nothing),
     Situation(21, 25, FALSE, 2, Nothing),         \* half of it is less than IW
     Situation(9, 35, FALSE, NoSample, <<8, 30, 0>>),
     Situation(89, 35, FALSE, 1, Nothing),
     Situation(55, 35, FALSE, 1, <<0, 0, 3>>),        \* shares with no other: fast, and of a short round trip, for itself alone
     Situation(24, 60, FALSE, 2, <<50, 40, 3>>),      \* the same after a loss
     Away("gone")}
\* Without an RTT sample a subflow has no rate.
Unsampled == IF NoSample \in FirstRtts THEN {Situation(30, 35, TRUE, NoSample, Nothing)} ELSE {}
\* A weight rounds this window away.
Smallest == IF JoinWeighted THEN {Situation(1, 35, TRUE, 2, Nothing)} ELSE {}
Situations == Usual \cup Unsampled \cup Smallest \cup (IF "loss" \in Events THEN Unusual ELSE {}) \cup {Away("new")}

JudgeInit ==
    \E f \in [Subflows -> Situations], c \in BOOLEAN, a \in {AlphaStart, 150} :
        /\ life = [s \in Subflows |-> f[s].life]
        /\ cwnd = [s \in Subflows |-> f[s].cwnd]
        /\ ssthresh = [s \in Subflows |-> f[s].ssthresh]
        /\ initial = [s \in Subflows |-> f[s].initial]
        /\ rtt = [s \in Subflows |-> f[s].rtt]
        /\ before = [s \in Subflows |-> f[s].before]
        /\ conInitial = c /\ ((\E s \in Subflows : f[s].initial) => c)
        /\ alpha = a
=============================================================================
