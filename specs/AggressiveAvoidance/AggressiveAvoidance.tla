------------------------ MODULE AggressiveAvoidance ------------------------
(***************************************************************************)
(* Congestion avoidance of TCCC as rewindow runs it: Aggressive Congestion *)
(* Avoidance (TCCC, III.C, Algorithm 2, equations 6 and 8), after the      *)
(* connection left coupled slow start.  The code is                        *)
(* core-c/src/control/aggressive_avoidance.h, tccc.c, and rw_shadow_reduce *)
(* in core-c/src/shadow/shadow.c.                                          *)
(*                                                                         *)
(*   an ACK   w_r += acked / (R_r min R sum w_k/R_k^2)                     *)
(*   a loss   same loss rate: w_r -= min R (sum w_k/R_k)^2                 *)
(*                                   / (2 R_r sum w_k/R_k^2)               *)
(*            otherwise:      w_r -= w_r / 2                               *)
(*                                                                         *)
(* Windows are integers, so many to a segment (Segment).  RTTs are small   *)
(* integers that divide RttUnit, so that the sums are exact:               *)
(* S = sum w_k/R_k = A/RttUnit, Q = sum w_k/R_k^2 = B/RttUnit^2.           *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Subflows,      \* their names
    Segment,       \* units of a window in one segment
    IW,            \* window of a subflow that joins, units
    Starts,        \* windows that the exit from slow start may leave
    OwnSsthresh,   \* the threshold that each subflow begins with (CSS Algorithm 1 line 18), units
    MinSsthresh,   \* option min_ssthresh, units; not in print
    WindowMax,     \* RW_CWND_MAX_Q16
    Rtts, RttUnit, \* round trips that there are, and a multiple of all
    Acked,         \* segments that one ACK may acknowledge
    Decrease,      \* option aca_md: "auto", "eq8" or "half"
    Safe,          \* option aca_safe
    LossRatio,     \* option same_loss_ratio: loss rates within this factor are the same
    Events         \* which of {"loss", "timeout", "join", "leave"} happen

VARIABLES
    life,     \* "new", "live" or "gone"                                    (rw_path.live)
    cwnd,     \* its window                                                 (rw_path.cwnd_q16)
    ssthresh, \* its threshold, NoSubflow before it joins                   (rw_path.ssthresh_q16)
    rtt,      \* its smoothed RTT                                           (rw_path.srtt_ns)
    grown,    \* has its window grown since its last reduction              (rw_path.flight_max_q16 # 0)
    peak      \* its window at the end of its last interval between losses, 0 before (rw_path.flight_peak_q16)

vars == <<life, cwnd, ssthresh, rtt, grown, peak>>

NoSubflow == 0

---------------------------------------------------------------------------
(* What the actions are made of. *)

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET s == CHOOSE s \in S : TRUE IN f[s] + Sum(f, S \ {s})

Live == {s \in Subflows : life[s] = "live"}
RttMin == CHOOSE m \in {rtt[s] : s \in Live} : \A s \in Live : m <= rtt[s]

\* rw_sum_paths: the sums every coupled rule is made of.
A == Sum([s \in Subflows |-> cwnd[s] * (RttUnit \div rtt[s])], Live)
B == Sum([s \in Subflows |-> cwnd[s] * (RttUnit \div rtt[s]) * (RttUnit \div rtt[s])], Live)

\* aca_step_q40, units for n segments: n Segment / (R_r min R Q), and the same for Reno, n Segment / w.
\* What is less than a unit is carried to the next ACK in the code (cwnd_rem_q40), so that every ACK counts: 1 at least.
RenoStep(s, n) == Max((n * Segment * Segment) \div cwnd[s], 1)
AcaStep(s, n) == Max((n * Segment * Segment * RttUnit * RttUnit) \div (rtt[s] * RttMin * B), 1)
Step(s, n) == IF Safe THEN Min(AcaStep(s, n), RenoStep(s, n)) ELSE AcaStep(s, n)

\* aca_same_loss_rate: p = 2/m^2 with m the largest window of the last interval, once every subflow has had one.
SameLossRate(p) ==
    /\ \A s \in Live : p[s] # 0
    /\ \A s, t \in Live : p[s] * p[s] <= LossRatio * p[t] * p[t]

\* aca_decrease_q16: equation 8, D_r = min R S^2 / (2 R_r Q), or half.
Half(s) == cwnd[s] \div 2
Eq8(s) == (RttMin * A * A) \div (2 * rtt[s] * B)
Cut(s, p) ==
    IF Decrease = "eq8" \/ (Decrease = "auto" /\ SameLossRate(p))
    THEN IF Safe THEN Max(Eq8(s), Half(s)) ELSE Eq8(s)
    ELSE Half(s)

\* end_interval: a reduction ends an interval in which the window grew.
PeakNow(s) == [peak EXCEPT ![s] = IF grown[s] THEN cwnd[s] ELSE @]

---------------------------------------------------------------------------
\* The exit from coupled slow start left each subflow at its threshold (css_exit).
Init ==
    /\ life \in [Subflows -> IF "join" \in Events THEN {"new", "live"} ELSE {"live"}]
    /\ cwnd \in [Subflows -> Starts \cup {0}]
    /\ \A s \in Subflows : (cwnd[s] = 0) <=> (life[s] = "new")
    /\ \E s \in Subflows : life[s] = "live"
    /\ ssthresh = cwnd
    /\ rtt \in [Subflows -> Rtts]
    /\ grown = [s \in Subflows |-> FALSE]
    /\ peak = [s \in Subflows |-> 0]

(* An ACK of n segments. TCCC Algorithm 2 lines 2-6; tccc_ack: slow start up to the threshold, and what is left of *)
(* the ACK counts in congestion avoidance.                                                                          *)
Ack(s, n) ==
    /\ s \in Live
    /\ cwnd[s] >= Segment  \* a window below one segment sends nothing
    /\ LET fast == Min(n * Segment, Max(ssthresh[s] - cwnd[s], 0))
           left == (n * Segment - fast) \div Segment
           slow == IF left = 0 THEN 0 ELSE Step(s, left)
       IN /\ cwnd' = [cwnd EXCEPT ![s] = Min(cwnd[s] + fast + slow, WindowMax)]
          /\ grown' = [grown EXCEPT ![s] = TRUE]
    /\ UNCHANGED <<life, ssthresh, rtt, peak>>

(* A loss found by duplicate ACKs, or a window's first ECE. TCCC Algorithm 2 lines 8-13; tccc_loss.                 *)
(* Not in print: the floor, without which equation 8 takes all and more, and that the result is the new threshold.  *)
Loss(s) ==
    /\ "loss" \in Events
    /\ s \in Live
    /\ peak' = PeakNow(s)
    /\ ssthresh' = [ssthresh EXCEPT ![s] = Max(cwnd[s] - Cut(s, peak'), MinSsthresh)]
    /\ cwnd' = [cwnd EXCEPT ![s] = Max(cwnd[s] - Cut(s, peak'), MinSsthresh)]
    /\ grown' = [grown EXCEPT ![s] = FALSE]
    /\ UNCHANGED <<life, rtt>>

(* A retransmission timeout: not the partial event that equation 8 models. Not in print; css_halve.                *)
Timeout(s) ==
    /\ "timeout" \in Events
    /\ s \in Live
    /\ peak' = PeakNow(s)
    /\ ssthresh' = [ssthresh EXCEPT ![s] = Max(cwnd[s] - Half(s), MinSsthresh)]
    /\ cwnd' = [cwnd EXCEPT ![s] = Segment]
    /\ grown' = [grown EXCEPT ![s] = FALSE]
    /\ UNCHANGED <<life, rtt>>

(* A subflow joins after the exit: ordinary slow start up to the static threshold (css_begin); the sums change,     *)
(* nothing else. rw_shadow_join.                                                                                    *)
Join(s) ==
    /\ "join" \in Events
    /\ life[s] = "new"
    /\ life' = [life EXCEPT ![s] = "live"]
    /\ cwnd' = [cwnd EXCEPT ![s] = IW]
    /\ ssthresh' = [ssthresh EXCEPT ![s] = OwnSsthresh]
    /\ UNCHANGED <<rtt, grown, peak>>

(* A subflow closes. rw_shadow_leave. *)
Leave(s) ==
    /\ "leave" \in Events
    /\ s \in Live
    /\ life' = [life EXCEPT ![s] = "gone"]
    /\ cwnd' = [cwnd EXCEPT ![s] = 0]
    /\ ssthresh' = [ssthresh EXCEPT ![s] = NoSubflow]
    /\ grown' = [grown EXCEPT ![s] = FALSE]
    /\ peak' = [peak EXCEPT ![s] = 0]
    /\ UNCHANGED rtt

(* All subflows have closed: the connection is over. *)
Over ==
    /\ \A s \in Subflows : life[s] = "gone"
    /\ UNCHANGED vars

Next ==
    \/ \E s \in Subflows :
         \/ \E n \in Acked : Ack(s, n)
         \/ Loss(s)
         \/ Timeout(s)
         \/ Join(s)
         \/ Leave(s)
    \/ Over

\* Fairness: a subflow that stays open, and has a window to send with, is sent data, and its ACKs come.
Fairness == \A s \in Subflows : WF_vars(\E n \in Acked : Ack(s, n))

Spec == Init /\ [][Next]_vars /\ Fairness

---------------------------------------------------------------------------
(* Safety: true in every state. *)

TypeOK ==
    /\ life \in [Subflows -> {"new", "live", "gone"}]
    /\ cwnd \in [Subflows -> 0 .. WindowMax]
    /\ ssthresh \in [Subflows -> 0 .. WindowMax]
    /\ rtt \in [Subflows -> Rtts]
    /\ grown \in [Subflows -> BOOLEAN]
    /\ peak \in [Subflows -> 0 .. WindowMax]

\* A window is one segment at least: what cannot send gets no ACK, and without ACKs it stays so.
WindowHeld == \A s \in Live : cwnd[s] >= Segment

FloorHeld == \A s \in Live : ssthresh[s] >= MinSsthresh

(* Steps. *)

Stays == {s \in Subflows : life[s] = "live" /\ life'[s] = "live"}
Reduced(s) == s \in Stays /\ grown[s] /\ ~grown'[s]
InAvoidance(s) == cwnd[s] >= ssthresh[s]

\* Only the subflow that an ACK or a loss is of changes.
OneAtATime == [][ Cardinality({s \in Subflows : cwnd'[s] # cwnd[s]}) <= 1 ]_vars

\* A loss takes something from every window above the floor.
LossTakes == [][ \A s \in Stays : Reduced(s) => cwnd'[s] < cwnd[s] \/ cwnd[s] <= MinSsthresh ]_vars

\* After a loss there is no slow start: the threshold is not above the window, but after a timeout.
NoSlowStartAfterLoss == [][ \A s \in Stays : Reduced(s) => ssthresh'[s] <= cwnd'[s] \/ cwnd'[s] = Segment ]_vars

\* Slow start ends at the threshold: beyond it one ACK adds no more than avoidance does.
ThresholdStopsSlowStart ==
    [][ \A s \in Stays : cwnd[s] < ssthresh[s] /\ cwnd'[s] > ssthresh[s] =>
          \E n \in Acked : cwnd'[s] - ssthresh[s] <= AcaStep(s, n) /\ n * Segment > ssthresh[s] - cwnd[s] ]_vars

\* Where loss rates differ, or are not known of all, a loss halves as TCP's does (Algorithm 2 line 12).
HalvesWhereUnlike ==
    [][ \A s \in Stays : /\ cwnd'[s] < cwnd[s] /\ cwnd'[s] # Segment /\ Decrease = "auto"
                         /\ \E t \in Live : \/ peak'[t] = 0
                                            \/ \E u \in Live : peak'[t] * peak'[t] > LossRatio * peak'[u] * peak'[u]
                         => cwnd'[s] = Max(cwnd[s] - cwnd[s] \div 2, MinSsthresh) ]_vars

\* Where RTTs are equal, a loss takes half of what all have: the connection as a whole reacts as one TCP (equation 1).
OneLossHalvesAll ==
    [][ \A s \in Stays : /\ Reduced(s) /\ cwnd'[s] # Segment
                         /\ \A t \in Live : peak'[t] # 0 /\ rtt[t] = rtt[s]
                         /\ \A t, u \in Live : peak'[t] * peak'[t] <= LossRatio * peak'[u] * peak'[u]
                         => cwnd'[s] = Max(cwnd[s] - Sum(cwnd, Live) \div 2, MinSsthresh) ]_vars

\* With aca_safe, an ACK adds no more than a TCP's on that path would, and a loss takes no less.
NoFasterThanReno ==
    [][ \A s \in Stays : InAvoidance(s) /\ cwnd'[s] > cwnd[s] => \E n \in Acked : cwnd'[s] - cwnd[s] <= RenoStep(s, n) ]_vars
NoMilderThanReno ==
    [][ \A s \in Stays : Reduced(s) /\ cwnd'[s] # Segment =>
          cwnd'[s] <= Max(cwnd[s] - cwnd[s] \div 2, MinSsthresh) ]_vars

\* All subflows together gain at most a segment in a round trip where RTTs are equal: w_k/W each (equation 3).
GainsAsOneTcp ==
    [][ \A s \in Stays : InAvoidance(s) /\ cwnd'[s] > cwnd[s] /\ (\A t \in Live : rtt[t] = rtt[s]) =>
          \E n \in Acked : (cwnd'[s] - cwnd[s] - 1) * Sum(cwnd, Live) <= n * Segment * Segment ]_vars

\* The loss rate that is told from a subflow is that of a whole interval: its window when a loss ended its growth.
PeakIsTop == [][ \A s \in Stays : peak'[s] # peak[s] => grown[s] /\ peak'[s] = cwnd[s] ]_vars

\* A subflow that joins begins as a TCP with a static threshold does.
JoinsAtIW ==
    [][ \A s \in Subflows : life[s] = "new" /\ life'[s] = "live" => cwnd'[s] = IW /\ ssthresh'[s] = OwnSsthresh ]_vars

(* Liveness: true of every whole behaviour. *)

\* Once no window falls any more, every open subflow rises above the floor.
Recovers ==
    <>[][ \A s \in Stays : cwnd'[s] >= cwnd[s] ]_vars =>
        \A s \in Subflows : (s \in Live /\ cwnd[s] <= MinSsthresh) ~> (s \notin Live \/ cwnd[s] > MinSsthresh)
=============================================================================
