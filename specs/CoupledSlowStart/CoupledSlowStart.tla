-------------------------- MODULE CoupledSlowStart --------------------------
(***************************************************************************)
(* Coupled slow start of one MPTCP connection, as rewindow runs it: CSS    *)
(* (2017), Algorithms 1 to 3, and TCCC, Algorithm 1, with the resolutions  *)
(* of what print leaves open.  The code is                                 *)
(* core-c/src/control/coupled_slow_start.h, used by css.c and tccc.c;      *)
(* what every controller shares is core-c/src/shadow/shadow.c.             *)
(*                                                                         *)
(* How to read this.  A state is an assignment of values to the VARIABLES. *)
(* An action, such as Join, says what may happen next: its lines without a *)
(* prime are conditions on the state before, x' is the value of x after.   *)
(* TLC walks through every state that some order of actions reaches, and   *)
(* looks in each for a violation of the properties at the end.             *)
(*                                                                         *)
(* Windows are integers; a segment has Segment units.  Values that the     *)
(* code computes with logarithms and fixed point enter as operators that   *)
(* the model defines.  Each operator gives the set of allowed results, so  *)
(* that a trace of real windows can be compared with the same machine, by  *)
(* intervals.                                                              *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Subflows,     \* their names; each joins once at most
    Segment,      \* units of a window in one segment
    IW,           \* window of a subflow that joins (RFC 6928), units
    ConSsthresh,  \* con_ssth of both papers, units
    OwnSsthresh,  \* the threshold that each subflow begins with (CSS Algorithm 1 line 18; C-15), units
    MinSsthresh,  \* floor of ssthresh, units
    Cap,          \* L: the most that one ACK adds, units (C-2: 1 segment in TCCC, 2 in CSS)
    WindowMax,    \* RW_CWND_MAX_Q16: no window grows beyond
    AlphaStart,   \* alpha0, in the model's measure of alpha
    AlphaOne,     \* alpha = 1 in that measure: no growth
    Rtts,         \* possible round trips, in any unit
    FirstRtts,    \* round trips that a handshake may measure; NoSample: it may measure none
    Acked,        \* segments that one ACK may acknowledge
    JoinWeighted, \* option join_weighted: windows at a join count as rates (C-9)
    Events,       \* which of {"loss", "timeout", "leave", "rtt", "idle", "undo", "verdict"} happen
    RateSlack,    \* tolerance of the sum of rates, which the model rounds; 0 where it is exact
    Rate(_, _, _),       \* (window, RTT, smallest RTT): its rate, as a window at the smallest RTT, in 1/RateUnit units
    RateUnit,
    Growth(_, _, _, _),  \* (alpha, RTT, smallest RTT, segments): units that an ACK may add, before the cap
    Rescale(_, _, _),    \* (alpha, total before, total after): alphas that keep the time to con_ssth
    Avoidance(_, _)      \* (window, units acknowledged): units that congestion avoidance may add

VARIABLES
    life,       \* "new", "live" or "gone": before its join, after its close (rw_path.live)
    cwnd,       \* its window                                               (rw_path.cwnd_q16)
    ssthresh,   \* its threshold, NoSubflow before it joins                 (rw_path.ssthresh_q16)
    initial,    \* ini_SS_r: is it in the connection's initial slow start   (rw_path.initial)
    rtt,        \* its smoothed RTT, NoSample before the first              (word PATH_RTT_NS)
    before,     \* values that an undo restores: window, threshold, coupling (rw_shadow_path.prior_*, word PATH_LEFT),
                \* and whether it has been found to share its bottleneck with no other (the same word)
    conInitial, \* ini_SS: is the connection in initial slow start          (WORD_INITIAL_SS)
    alpha       \* growth of a window in the smallest RTT                   (WORD_ALPHA_Q32)

vars == <<life, cwnd, ssthresh, initial, rtt, before, conInitial, alpha>>

NoSubflow == 0
NoSample  == 0
Nothing   == <<0, 0, 0>>
\* Values of the third: the loss took the subflow out of coupled slow start; the connection has left since then; or, without
\* a loss and for good, the subflow shares its bottleneck with no other.
Uncoupled == 1
LeftSince == 2
Apart     == 3

---------------------------------------------------------------------------
(* Definitions for the actions. *)

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET s == CHOOSE s \in S : TRUE IN f[s] + Sum(f, S \ {s})

Live    == {s \in Subflows : life[s] = "live"}
Coupled == {s \in Live : initial[s]}
\* css_takes_part: whose windows and RTTs coupled slow start looks at.
Counted == {s \in Live : before[s][3] # Apart}
Sampled == {s \in Counted : rtt[s] # NoSample}

\* css_rtt_min_ns: the current minimum over subflows, not the smallest ever seen (C-4).
SmallestOf(r, S) ==
    LET smallest == {m \in {r[s] : s \in S} : \A s \in S : m <= r[s]}
    IN IF smallest = {} THEN NoSample ELSE CHOOSE m \in smallest : TRUE
RttMin == SmallestOf(rtt, Sampled)

\* css_rate_q27 against con << 11: sum w_k / R_k > con_ssth / min R. Before any sample nothing exceeds.
RateSum == Sum([s \in Sampled |-> Rate(cwnd[s], rtt[s], RttMin)], Sampled)
RateExceeds    == RateSum + RateSlack > ConSsthresh * RateUnit
RateNotExceeds == RateSum - RateSlack <= ConSsthresh * RateUnit

\* css_weighted_q16: a window as it counts at a join or a leave.
Weighted(w, r, least) == IF JoinWeighted /\ r # NoSample THEN (w * least) \div r ELSE w
TotalOf(S, least) == Sum([s \in Subflows |-> Weighted(cwnd[s], rtt[s], least)], S)

\* css_exit: the window of each subflow of S becomes its threshold. An undo can no longer couple a subflow again.
Exit(S, windows) ==
    /\ before' = [s \in Subflows |-> IF before[s][3] = Uncoupled THEN [before[s] EXCEPT ![3] = LeftSince] ELSE before[s]]
    /\ conInitial' = FALSE
    /\ ssthresh' = [s \in Subflows |-> IF s \in S THEN windows[s] ELSE ssthresh[s]]
    /\ initial' = [s \in Subflows |-> FALSE]

\* css_leave_alone: only this subflow leaves; the connection leaves when it was the last coupled one.
LeavesAlone(s) ==
    /\ initial' = [initial EXCEPT ![s] = FALSE]
    /\ conInitial' = (Coupled \ {s} # {})

\* css_leave: alpha without s. A subflow that was not counted leaves it as it is.
WithoutMember(s) ==
    LET after == TotalOf(Counted \ {s}, RttMin)
        total == after + Weighted(cwnd[s], rtt[s], RttMin)
    IN IF ~conInitial \/ before[s][3] = Apart THEN UNCHANGED alpha
       ELSE IF after = 0 THEN alpha' = AlphaStart
       ELSE IF total >= ConSsthresh THEN UNCHANGED alpha
       ELSE alpha' \in {Min(AlphaStart, a) : a \in Rescale(alpha, total, after)}

\* The values that an undo restores (rw_window_kept_ssthresh): the threshold, or three quarters of the window if that is more;
\* and whether the subflow was coupled (css_left_by_loss).
Remember(s) ==
    before' = IF "undo" \in Events
              THEN [before EXCEPT ![s] = <<cwnd[s], Max(ssthresh[s], (3 * cwnd[s]) \div 4),
                                           IF before[s][3] = Apart THEN Apart
                                           ELSE IF s \in Coupled THEN Uncoupled ELSE 0>>]
              ELSE before

Halved(s) == Max(cwnd[s] - cwnd[s] \div 2, MinSsthresh)

\* Windows that an ordinary ACK of n segments may leave: slow start up to the threshold, then congestion avoidance with
\* what is left of the ACK (C-13; rw_after_slow_start).
OrdinaryWindows(s, n) ==
    LET fast == Min(n * Segment, Max(ssthresh[s] - cwnd[s], 0))
        left == n * Segment - fast
    IN {Min(cwnd[s] + fast + slow, WindowMax) :
            slow \in IF left = 0 THEN {0} ELSE Avoidance(cwnd[s] + fast, left)}

---------------------------------------------------------------------------
Init ==
    /\ life = [s \in Subflows |-> "new"]
    /\ cwnd = [s \in Subflows |-> 0]
    /\ ssthresh = [s \in Subflows |-> NoSubflow]
    /\ initial = [s \in Subflows |-> FALSE]
    /\ rtt = [s \in Subflows |-> NoSample]
    /\ before = [s \in Subflows |-> Nothing]
    /\ conInitial = TRUE           \* CSS Algorithm 1 line 1, TCCC Algorithm 1 line 1; css_open
    /\ alpha = AlphaStart

(* A subflow joins, with the RTT of its handshake or without one.                            *)
(* CSS Algorithm 2; TCCC Algorithm 1 lines 7-11; css_join.                                   *)
(* Its threshold is the static one (CSS Algorithm 1 line 18; css_begin).                     *)
(* Not in print: total + IW >= con_ssth leaves coupled slow start at once (C-8), and a        *)
(* subflow that joins when no other is coupled any more is not coupled either.               *)
Join(s, r) ==
    /\ life[s] = "new"
    /\ life' = [life EXCEPT ![s] = "live"]
    /\ cwnd' = [cwnd EXCEPT ![s] = IW]
    /\ rtt' = [rtt EXCEPT ![s] = r]
    /\ LET least == SmallestOf(rtt', {t \in Counted \cup {s} : rtt'[t] # NoSample})
           total == TotalOf(Counted, least)
           after == total + Weighted(IW, r, least)
       IN IF Counted = {}
            THEN /\ initial' = [initial EXCEPT ![s] = conInitial]
                 /\ ssthresh' = [ssthresh EXCEPT ![s] = OwnSsthresh]
                 /\ UNCHANGED <<before, conInitial, alpha>>
          ELSE IF Coupled = {}
            THEN /\ conInitial' = FALSE
                 /\ ssthresh' = [ssthresh EXCEPT ![s] = OwnSsthresh]
                 /\ UNCHANGED <<initial, before, alpha>>
          ELSE IF after >= ConSsthresh
            THEN /\ Exit(Coupled \cup {s}, cwnd')
                 /\ UNCHANGED alpha
            ELSE /\ alpha' \in Rescale(alpha, Max(total, 1), after)
                 /\ initial' = [initial EXCEPT ![s] = TRUE]
                 /\ ssthresh' = [ssthresh EXCEPT ![s] = OwnSsthresh]
                 /\ UNCHANGED <<before, conInitial>>

(* An ACK of n segments on a coupled subflow that makes its window grow.                     *)
(* CSS Algorithm 1 lines 8-18 and Algorithm 3; TCCC Algorithm 1 lines 13-20; css_ack.        *)
(* Both tests come before the growth, with this ACK's minimum RTT (C-3).                     *)
CoupledAck(s, n) ==
    /\ s \in Coupled
    /\ RateNotExceeds
    /\ cwnd[s] <= ssthresh[s]
    /\ \E step \in Growth(alpha, rtt[s], RttMin, n) :
         cwnd' = [cwnd EXCEPT ![s] = Min(cwnd[s] + Min(step, Cap), WindowMax)]
    /\ UNCHANGED <<life, ssthresh, initial, rtt, before, conInitial, alpha>>

(* An ACK on a coupled subflow whose window has passed its own threshold: the subflow leaves  *)
(* alone, and this ACK is an ordinary one. CSS Algorithm 1 lines 18-19; css_ack. TCCC prints  *)
(* no such line (C-15): the window of a long path counts for little in the sum of rates.     *)
ThresholdAck(s, n) ==
    /\ s \in Coupled
    /\ RateNotExceeds
    /\ cwnd[s] > ssthresh[s]
    /\ \E w \in OrdinaryWindows(s, n) : cwnd' = [cwnd EXCEPT ![s] = w]
    /\ LeavesAlone(s)
    /\ UNCHANGED <<life, ssthresh, rtt, before, alpha>>

(* The ACK on a coupled subflow that finds the expected rate exceeded: css_exit, from         *)
(* css_ack. It makes no window grow.                                                         *)
ExitAck(s) ==
    /\ s \in Coupled
    /\ RateExceeds
    /\ Exit(Coupled, cwnd)
    /\ UNCHANGED <<life, cwnd, rtt, alpha>>

(* An ACK on a subflow that is not coupled: ordinary slow start and congestion avoidance      *)
(* (css_control_ack, tccc_ack). The exit test is made on every subflow's ACK (CSS Algorithm   *)
(* 1 line 8, TCCC Algorithm 1 line 13; css_ack): on this one too, for those that are        *)
(* coupled.                                                                                  *)
OrdinaryAck(s, n) ==
    /\ s \in Live \ Coupled
    /\ \E w \in OrdinaryWindows(s, n) : cwnd' = [cwnd EXCEPT ![s] = w]
    /\ \/ conInitial /\ RateExceeds /\ Exit(Coupled, cwnd)
       \/ (conInitial => RateNotExceeds) /\ UNCHANGED <<ssthresh, initial, before, conInitial>>
    /\ UNCHANGED <<life, rtt, alpha>>

(* A loss found by duplicate ACKs, or a window's first ECE.                                  *)
(* CSS Algorithm 1 lines 5-7; TCCC prints no rule for this phase (C-12); css_halve, tccc_loss,   *)
(* rw_shadow_reduce: the window is the new threshold at once.                                *)
Loss(s) ==
    /\ "loss" \in Events
    /\ s \in Live
    /\ ssthresh' = [ssthresh EXCEPT ![s] = Halved(s)]
    /\ cwnd' = [cwnd EXCEPT ![s] = Halved(s)]
    /\ LeavesAlone(s)
    /\ Remember(s)
    /\ UNCHANGED <<life, rtt, alpha>>

(* A retransmission timeout. Not in print; as a loss, and the window is one segment          *)
(* (css_halve, rw_shadow_timeout).                                                     *)
Timeout(s) ==
    /\ "timeout" \in Events
    /\ s \in Live
    /\ ssthresh' = [ssthresh EXCEPT ![s] = Halved(s)]
    /\ cwnd' = [cwnd EXCEPT ![s] = Segment]
    /\ LeavesAlone(s)
    /\ Remember(s)
    /\ UNCHANGED <<life, rtt, alpha>>

(* The loss proves spurious (Eifel, DSACK, F-RTO): window and threshold are restored, and     *)
(* the coupling with the threshold that goes with it. If the connection has left meanwhile,   *)
(* the subflow leaves as the others did. Not in print; rw_shadow_undo, css_undo.             *)
Undo(s) ==
    /\ s \in Live
    /\ before[s][1] # 0
    /\ cwnd' = [cwnd EXCEPT ![s] = Max(cwnd[s], before[s][1])]
    /\ ssthresh' = [ssthresh EXCEPT ![s] = IF before[s][3] = LeftSince THEN cwnd'[s] ELSE Max(ssthresh[s], before[s][2])]
    /\ initial' = [initial EXCEPT ![s] = @ \/ before[s][3] = Uncoupled]
    /\ conInitial' = (conInitial \/ before[s][3] = Uncoupled)
    /\ before' = [before EXCEPT ![s] = IF before[s][3] = Apart THEN <<0, 0, Apart>> ELSE Nothing]
    /\ UNCHANGED <<life, rtt, alpha>>

(* A detector's final verdict that the subflow shares its bottleneck with no other: it leaves *)
(* alone, with its threshold, and no undo couples it again. For the others it is as if it had *)
(* closed. TCCC IV.D, tccc+ only (T-24); plus_regrouped.                                     *)
Separate(s) ==
    /\ "verdict" \in Events
    /\ s \in Counted
    /\ IF s \in Coupled THEN LeavesAlone(s) ELSE UNCHANGED <<initial, conInitial>>
    /\ WithoutMember(s)
    /\ before' = [before EXCEPT ![s][3] = Apart]
    /\ UNCHANGED <<life, cwnd, ssthresh, rtt>>

(* A subflow closes. Not in print: the mirror of a join, not above alpha0; css_leave.        *)
Leave(s) ==
    /\ "leave" \in Events
    /\ s \in Live
    /\ life' = [life EXCEPT ![s] = "gone"]
    /\ cwnd' = [cwnd EXCEPT ![s] = 0]
    /\ ssthresh' = [ssthresh EXCEPT ![s] = NoSubflow]
    /\ initial' = [initial EXCEPT ![s] = FALSE]
    /\ rtt' = [rtt EXCEPT ![s] = NoSample]
    /\ before' = [before EXCEPT ![s] = Nothing]
    /\ UNCHANGED conInitial
    /\ WithoutMember(s)

(* An ACK brings a sample of the RTT; r is what smoothing made of it (C-4, C-5).               *)
(* TCCC Algorithm 1 line 15; css_rtt.                                                        *)
RttSample(s, r) ==
    /\ s \in Live
    /\ rtt[s] = NoSample \/ "rtt" \in Events
    /\ r # rtt[s]
    /\ rtt' = [rtt EXCEPT ![s] = r]
    /\ UNCHANGED <<life, cwnd, ssthresh, initial, before, conInitial, alpha>>

(* The sender was idle for a retransmission timeout: its window halves, not below IW         *)
(* (RFC 2861). Not in print; shadow.c, restart_after_idle. alpha does not follow.            *)
Idle(s) ==
    /\ "idle" \in Events
    /\ s \in Live
    /\ cwnd[s] > IW
    /\ cwnd' = [cwnd EXCEPT ![s] = Max(cwnd[s] \div 2, IW)]
    /\ ssthresh' = [ssthresh EXCEPT ![s] = Max(@, (3 * cwnd[s]) \div 4)]
    /\ UNCHANGED <<life, initial, rtt, before, conInitial, alpha>>

(* All subflows have closed: the connection is over. *)
Over ==
    /\ \A s \in Subflows : life[s] = "gone"
    /\ UNCHANGED vars

Next ==
    \/ \E s \in Subflows :
         \/ \E r \in FirstRtts : Join(s, r)
         \/ \E n \in Acked : CoupledAck(s, n)
         \/ \E n \in Acked : ThresholdAck(s, n)
         \/ ExitAck(s)
         \/ \E n \in Acked : OrdinaryAck(s, n)
         \/ Loss(s)
         \/ Timeout(s)
         \/ Undo(s)
         \/ Separate(s)
         \/ Leave(s)
         \/ \E r \in Rtts : RttSample(s, r)
         \/ Idle(s)
    \/ Over

(***************************************************************************)
(* Fairness: steps that must happen sooner or later.  Data is sent on a    *)
(* coupled subflow that stays open, and its ACKs arrive; some ACK has an   *)
(* RTT sample.  Losses, joins and closes need not happen.                  *)
(***************************************************************************)
Fairness ==
    \A s \in Subflows :
        /\ WF_vars((\E n \in Acked : CoupledAck(s, n) \/ ThresholdAck(s, n)) \/ ExitAck(s))
        /\ WF_vars(rtt[s] = NoSample /\ \E r \in Rtts : RttSample(s, r))

Spec == Init /\ [][Next]_vars /\ Fairness

---------------------------------------------------------------------------
(* Safety: true in every state. *)

TypeOK ==
    /\ life \in [Subflows -> {"new", "live", "gone"}]
    /\ cwnd \in [Subflows -> 0 .. WindowMax]
    /\ ssthresh \in [Subflows -> 0 .. Max(WindowMax, OwnSsthresh)]
    /\ initial \in [Subflows -> BOOLEAN]
    /\ rtt \in [Subflows -> Rtts \cup FirstRtts \cup {NoSample}]
    /\ conInitial \in BOOLEAN
    /\ alpha \in Int

\* A window is one segment at least: the smallest that can be sent.
WindowHeld == \A s \in Live : cwnd[s] >= Segment

\* ssthresh never falls below its floor (RFC 5681: two segments).
FloorHeld == \A s \in Live : ssthresh[s] >= MinSsthresh

\* alpha is above 1 and not above alpha0 while the connection is in initial slow start: windows grow, none faster than alone.
AlphaInRange == Coupled # {} => AlphaOne < alpha /\ alpha <= AlphaStart

\* A subflow is in initial slow start only while the connection is.
InitialTogether == \A s \in Subflows : initial[s] => conInitial /\ s \in Live

\* A coupled subflow has its initial threshold, or the one that an idle time set.
CoupledHasOwnThreshold == \A s \in Coupled : ssthresh[s] >= OwnSsthresh

\* ... and no more than one step of one ACK above it: no path is so long that its subflow stays coupled for ever (C-15).
OwnThresholdHeld == \A s \in Coupled : cwnd[s] <= ssthresh[s] + Cap

\* Only one step of one ACK can stand above the expected rate (for constant and equal RTTs).
OvershootBounded == Coupled # {} => TotalOf(Counted, RttMin) <= ConSsthresh + Cap

(* Steps: true of every step from a state to the next. *)

Joins  == {s \in Subflows : life[s] = "new" /\ life'[s] = "live"}
Stays  == {s \in Subflows : life[s] = "live" /\ life'[s] = "live"}
Exits  == conInitial /\ ~conInitial'
Couples(s) == initial[s] /\ initial'[s]
\* The rate, and whether it is above the expected one, defined again, so that a mistake in the machine's definition shows.
Least == IF \E s \in Counted : rtt[s] # NoSample
         THEN CHOOSE m \in Rtts : /\ \E s \in Counted : rtt[s] = m
                                  /\ \A s \in Counted : rtt[s] # NoSample => m <= rtt[s]
         ELSE NoSample
Above == Sum([s \in Subflows |-> IF life[s] = "live" /\ before[s][3] # Apart /\ rtt[s] # NoSample THEN Rate(cwnd[s], rtt[s], Least) ELSE 0],
             Subflows) > ConSsthresh * RateUnit
Filled(s) == \* a join that leaves no room below con_ssth
    LET least == SmallestOf(rtt', {t \in Counted \cup {s} : rtt'[t] # NoSample})
    IN TotalOf(Counted, least) + Weighted(IW, rtt'[s], least) >= ConSsthresh
\* The last coupled subflow left alone: by a loss or timeout, above its threshold, or by a verdict that it shares with no other.
LastAlone == \E s \in Stays :
    /\ Coupled = {s}
    /\ \/ ssthresh'[s] = Halved(s) /\ cwnd'[s] <= ssthresh'[s]
       \/ ssthresh'[s] = ssthresh[s] /\ cwnd[s] > ssthresh[s]
       \/ "verdict" \in Events /\ cwnd'[s] = cwnd[s] /\ ssthresh'[s] = ssthresh[s]

\* The subflow whose loss was undone.
Undone == {s \in Stays : before[s][1] # 0 /\ before'[s][1] = 0}
\* The subflow that was found to share its bottleneck with no other.
Parted == {s \in Stays : before[s][3] # Apart /\ before'[s][3] = Apart}

\* Initial slow start happens once, for the connection and for each subflow; an undone loss does not end it.
NoReentry == [][ /\ ~conInitial => ~conInitial' \/ \E s \in Undone : initial'[s]
                 /\ \A s \in Stays : ~initial[s] /\ initial'[s] => s \in Undone /\ before[s][3] = Uncoupled ]_vars

\* An undone loss has no effect: the subflow is coupled again, or has its window as threshold if the others have left.
UndoIsWhole ==
    [][ \A s \in Undone :
          /\ before[s][3] = Uncoupled => initial'[s] /\ ssthresh'[s] >= OwnSsthresh
          /\ before[s][3] = LeftSince => ssthresh'[s] = cwnd'[s]
          /\ cwnd'[s] >= before[s][1] ]_vars

\* Who shares with no other never counts again for the others, nor couples its slow start.
ApartForGood == [][ \A s \in Stays : before[s][3] = Apart => before'[s][3] = Apart /\ initial'[s] = initial[s] ]_vars
ApartIsUncoupled == \A s \in Subflows : before[s][3] = Apart => ~initial[s]

\* A connection that has left as a whole stays out: a later undo does not bring it back.
ExitIsFinal == [][ Exits /\ ~LastAlone /\ Coupled # {} => \A s \in Subflows : before'[s][3] # Uncoupled ]_vars

\* Once no live subflow is coupled, a subflow that joins is not coupled either.
CouplingEnds == [][ Counted # {} /\ Coupled = {} /\ Undone = {} => Coupled' = {} ]_vars

\* L bounds the growth of one ACK.
AckCapped == [][ \A s \in Stays : Couples(s) => cwnd'[s] - cwnd[s] <= Cap ]_vars

\* Coupled windows never shrink, except after idle times.
CoupledNeverShrinks == [][ \A s \in Stays : Couples(s) /\ "idle" \notin Events => cwnd'[s] >= cwnd[s] ]_vars

\* A coupled window grows by alpha^(R_r/min R) in its RTT, and no more.
GrowsByAlpha ==
    [][ \A s \in Stays : Couples(s) =>
          \E n \in Acked : \E most \in Growth(alpha, rtt[s], RttMin, n) : cwnd'[s] - cwnd[s] <= most ]_vars

\* No ACK, of whatever subflow, finds the rate above the expected one and leaves a subflow coupled: the exit is not missed.
\* (A loss of a window below the floor raises it to the floor; an undo gives a window back.)
GrowsWhileBelow ==
    [][ \A s \in Stays : cwnd'[s] > cwnd[s] /\ Above =>
          s \in Undone \/ (cwnd'[s] = MinSsthresh /\ ssthresh'[s] = MinSsthresh) \/ Coupled' = {} ]_vars

\* No ACK makes a coupled window grow from above its own threshold and leaves it coupled.
GrowsToThreshold == [][ \A s \in Stays : Couples(s) /\ cwnd'[s] > cwnd[s] => cwnd[s] <= ssthresh[s] ]_vars

\* A subflow leaves alone because its window fell, because it has passed its threshold, or by a verdict.
AloneJustified ==
    [][ \A s \in Stays : initial[s] /\ ~initial'[s] /\ conInitial' =>
          \/ ssthresh'[s] = Halved(s) /\ cwnd'[s] <= ssthresh'[s]
          \/ cwnd[s] > ssthresh[s] /\ ssthresh'[s] = ssthresh[s]
          \/ "verdict" \in Events /\ cwnd'[s] = cwnd[s] /\ ssthresh'[s] = ssthresh[s] ]_vars

\* The connection leaves by its rate, by a join that leaves no room, with the last coupled subflow, or when no subflow is live.
ExitJustified ==
    [][ Exits => Above \/ (\E s \in Joins : Filled(s)) \/ LastAlone \/ Coupled = {} ]_vars

\* Leaving keeps every coupled window, as its threshold.
ExitFreezes ==
    [][ Exits /\ ~LastAlone => \A s \in Coupled : cwnd'[s] = cwnd[s] /\ ssthresh'[s] = cwnd[s] ]_vars

\* The threshold of a subflow that is not coupled is its own: another one's leaving, join or loss does not touch it.
ThresholdsSpared ==
    [][ \A s \in Stays : ~initial[s] /\ ssthresh'[s] # ssthresh[s] =>
          \A t \in Stays \ {s} : ssthresh'[t] = ssthresh[t] /\ initial'[t] = initial[t] ]_vars

\* A subflow that leaves alone leaves the others as they are; only a verdict, which takes it out of their sums, changes alpha.
LossIsPrivate ==
    [][ \A s \in Stays : initial[s] /\ ~initial'[s] /\ conInitial' =>
          /\ alpha' = alpha \/ s \in Parted
          /\ \A t \in Subflows \ {s} : initial'[t] = initial[t] /\ cwnd'[t] = cwnd[t] /\ ssthresh'[t] = ssthresh[t] ]_vars

\* A subflow whose window falls is no longer coupled, and does not grow by alpha.
LossUncouples == [][ \A s \in Stays : cwnd'[s] < cwnd[s] /\ "idle" \notin Events => ~initial'[s] ]_vars

\* A subflow begins with IW and its static threshold, and joins the coupling when there is one and room in it.
JoinsAtIW == [][ \A s \in Joins : /\ cwnd'[s] = IW
                                  /\ initial'[s] \/ ~Exits => ssthresh'[s] = OwnSsthresh
                                  /\ conInitial' /\ (Counted = {} \/ Coupled # {}) => initial'[s] ]_vars

\* alpha changes when a subflow joins, closes or is found to share with no other, and at no other time; a join lowers it, the
\* others raise it.
AlphaMoves == [][ /\ alpha' # alpha => Live' # Live \/ Parted # {}
                  /\ Joins # {} => alpha' <= alpha
                  /\ Joins = {} => alpha' >= alpha ]_vars

\* The first subflow, and one that joins after all others closed, grows as a TCP would.
FirstIsAlone == [][ Joins # {} /\ Live = {} => alpha' = AlphaStart ]_vars

\* A join couples if the total stays below con_ssth; otherwise all subflows leave at once.
JoinsWhileRoom == [][ \A s \in Joins : initial'[s] => Counted = {} \/ ~Filled(s) ]_vars

\* Above its threshold a window does not grow by the acknowledged segments.
NoSlowStartAboveThreshold ==
    [][ \A s \in Stays : ~initial'[s] /\ cwnd[s] >= ssthresh[s] /\ before'[s] = before[s] =>
          cwnd'[s] - cwnd[s] < Segment ]_vars

(* Liveness: true of every whole behaviour. *)

\* Coupled slow start ends, whatever is lost, joins, closes or changes its RTT.
CouplingIsLeft == (Coupled # {}) ~> (Coupled = {})
=============================================================================
