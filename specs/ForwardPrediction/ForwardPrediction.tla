------------------------- MODULE ForwardPrediction -------------------------
(***************************************************************************)
(* SB-FPS: which subflow of a connection sends next, and which data (SB-CC *)
(* paper III.B, eq. 6-9, Algorithm 3; core-c/src/scheduler/sbfps.c,        *)
(* forward.h, sending.h).                                                  *)
(*                                                                         *)
(* What a slow subflow sends now arrives after what faster ones will send  *)
(* in the meantime. So it leaves a gap of M segments to them, and what it  *)
(* sends is due when it arrives:                                           *)
(*                                                                         *)
(*   M   = sum of M_r over the subflows r that are faster than j           *)
(*   M_r = rounds/2 (2 w_r + rounds/m_r - 1), rounds = (R_j/2) / R_r       *)
(*   m_r = max(W/(a w_r), 1) in a set behind one bottleneck, else 1;       *)
(*         W/a = (sum w_k/R_k)^2 / max(w_k/R_k^2), beta = 1                *)
(*                                                                         *)
(* Data is counted in segments 1, 2, ... Windows are those of congestion   *)
(* avoidance: in slow start the C code predicts by doubling instead, which *)
(* changes how large M is and nothing else here.                           *)
(*                                                                         *)
(* Printed lists in which points the paper is taken literally; {} is the   *)
(* machine as we run it.                                                   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Subflows,   \* 1..n
    Rtts,       \* the smoothed round trips that may be measured: a set of functions from subflows to times
    Windows,    \* cwnd at the start, segments, of each
    WindowMax,
    Group,      \* the final set of subflows behind one bottleneck that each is in; 0: none
    Backup,     \* subflows to be used when no other can (RFC 8684)
    Data,       \* how many segments the application writes
    Buffer,     \* size of the send buffer, segments
    ReceiveWindow,
    Troubles,   \* how many timeouts, closes, fast retransmits and changed round trips there are
    GivesUp,    \* TRUE: TCP below may give up what a subflow carries, and the subflow goes on
    Printed

ASSUME /\ Subflows \subseteq 1..8 /\ Rtts \subseteq [Subflows -> 1..64] /\ Windows \in [Subflows -> 1..16]
       /\ Group \in [Subflows -> 0..4] /\ Backup \subseteq Subflows /\ Backup # Subflows
       /\ Data \in 1..20 /\ Buffer \in 1..20 /\ ReceiveWindow \in 1..20 /\ Troubles \in 0..4 /\ GivesUp \in BOOLEAN
       /\ Printed \subseteq {"own", "ties", "no_max", "no_cap", "by_sequence"}

VARIABLES
    rtt,      \* srtt of each
    cwnd,
    written,  \* the application has written segments 1..written
    flight,   \* of each subflow: the segments that it carries and that are not acknowledged
    carried,  \* of each segment: the subflows that were given it (rw_span.sent_on)
    acked,    \* segments that have arrived
    lost,     \* subflows in loss state: after a timeout, until it is repaired
    closed,
    troubles  \* how many are left

vars == <<rtt, cwnd, written, flight, carried, acked, lost, closed, troubles>>

Segments == 1..Data

Init ==
    /\ rtt \in Rtts /\ cwnd = Windows /\ written = 0
    /\ flight = [r \in Subflows |-> {}] /\ carried = [s \in Segments |-> {}]
    /\ acked = {} /\ lost = {} /\ closed = {} /\ troubles = Troubles

Least(S) == CHOOSE x \in S : \A y \in S : x <= y
Greatest(S) == CHOOSE x \in S : \A y \in S : y <= x
Smaller(a, b) == IF a < b THEN a ELSE b
Larger(a, b) == IF a > b THEN a ELSE b

-----------------------------------------------------------------------------
(* The prediction, in exact fractions <<numerator, denominator>>. *)

gcd[a \in Nat, b \in Nat] == IF b = 0 THEN a ELSE gcd[b, a % b]
DividedBy(g, n, d) == <<n \div g, d \div g>>
Fraction(n, d) == DividedBy(gcd[n, d], n, d)
Plus(x, y) == Fraction(x[1] * y[2] + y[1] * x[2], x[2] * y[2])
AtMost(x, y) == x[1] * y[2] <= y[1] * x[2]
Lcm(a, b) == a * (b \div gcd[a, b])

\* Over the subflows of S; f may be defined on these alone.
Last == Greatest(Subflows)
Sum(f, S) == LET to[k \in 0..Last] == IF k = 0 THEN <<0, 1>> ELSE Plus(to[k - 1], IF k \in S THEN f[k] ELSE <<0, 1>>)
             IN to[Last]
Total(f, S) == LET to[k \in 0..Last] == IF k = 0 THEN 0 ELSE to[k - 1] + IF k \in S THEN f[k] ELSE 0
               IN to[Last]

(* t: round trips, w: windows, open: subflows that are established, use: those in use. *)

\* Round trips of a set as parts of a common unit: their least common multiple.
Members(open, r) == {k \in open : Group[k] = Group[r]}
Unit(t, S) == LET to[k \in 0..Last] == IF k = 0 THEN 1 ELSE Lcm(to[k - 1], IF k \in S THEN t[k] ELSE 1)
              IN to[Last]
Rates(t, w, S, unit) == [k \in S |-> w[k] * (unit \div t[k])]
Best(t, rates, S, unit) == Greatest({rates[k] * (unit \div t[k]) : k \in S})

\* growth_q62: 1/m_r, segments by which w_r grows in a round trip. A set of one is none. Eq. 7 has the bound of 1,
\* Algorithm 3 line 6 has not.
One == <<1, 1>>
Bounded(g) == IF AtMost(g, One) \/ "no_max" \in Printed THEN g ELSE One
Share(own, best, sum) == Fraction(own * best, sum * sum)
GrowthAt(t, w, r, S, unit, rates) == Bounded(Share(w[r], Best(t, rates, S, unit), Total(rates, S)))
GrowthIn(t, w, r, S, unit) == GrowthAt(t, w, r, S, unit, Rates(t, w, S, unit))
GrowthOf(t, w, r, S) == IF Cardinality(S) < 2 THEN One ELSE GrowthIn(t, w, r, S, Unit(t, S))
Growth(t, w, open, r) == IF Group[r] = 0 \/ r \notin open THEN One ELSE GrowthOf(t, w, r, Members(open, r))

\* Eq. 8 and 9: rounds (2 w - 1)/2 + rounds^2 growth/2.
Predicted(t, w, j, r, growth) ==
    Plus(Fraction(t[j] * (2 * w[r] - 1), 4 * t[r]),
         Fraction(t[j] * t[j] * growth[1], 8 * t[r] * t[r] * growth[2]))

\* The text: "whose RTT is less than RTT_j". Algorithm 3 line 3 has r <= j, and line 10 counts those of the same
\* round trip that come first in the order.
Strictly(t, use, j) == {r \in use : t[r] < t[j]}
Faster(t, use, j) ==
    Strictly(t, use, j)
    \cup (IF "own" \in Printed THEN {j} ELSE {})
    \cup (IF Printed \cap {"own", "ties"} # {} THEN {r \in use : t[r] = t[j] /\ r < j} ELSE {})

\* rw_forward_sum: M is rounded down once.
Floor(x) == x[1] \div x[2]
Forward(v, j, faster) ==
    Floor(Sum([r \in faster |-> Predicted(v.t, v.w, j, r, Growth(v.t, v.w, v.open, r))], faster))

(* Values that depend only on round trips, windows and live subflows; TLC evaluates them once (TLCEval).      *)
Views == [t: Rtts, w: [Subflows -> 1..WindowMax],
          open: IF Troubles = 0 THEN {Subflows} ELSE SUBSET Subflows,
          use: IF Troubles = 0 THEN {Subflows \ Backup} ELSE SUBSET Subflows]
ForwardIn(v, j) == Forward(v, j, Faster(v.t, v.use, j))
GrowthsIn(v, r) == Growth(v.t, v.w, v.open, r)
Forwards == TLCEval([v \in Views |-> [j \in Subflows |-> ForwardIn(v, j)]])
Growths == TLCEval([v \in Views |-> [r \in Subflows |-> GrowthsIn(v, r)]])
\* A configuration with few states evaluates only the values that these need (ForwardFor <- ForwardIn).
ForwardFor(v, j) == Forwards[v][j]
GrowthFor(v, r) == Growths[v][r]

\* rw_subflows_in_use: those that can send, also with a full window; backups only when no other can.
Able == Subflows \ (lost \cup closed)
InUse == IF Able \ Backup # {} THEN Able \ Backup ELSE Able
View == [t |-> rtt, w |-> cwnd, open |-> Subflows \ closed, use |-> InUse]

\* And M is at most the send buffer.
Gap(j) == IF "no_cap" \in Printed THEN ForwardFor(View, j) ELSE Smaller(ForwardFor(View, j), Buffer)

-----------------------------------------------------------------------------
(* The decision: rw_forward_pick, rw_take. *)

Carriers(s) == {r \in Subflows : s \in flight[r]}
\* Written, and no subflow in use carries it: data of a subflow in loss state goes to the others too.
Queue == {s \in 1..written : s \notin acked /\ Carriers(s) \subseteq lost}

\* The oldest segment that is not acknowledged; one past the last when all are.
Oldest == 1 + Cardinality({s \in Segments : 1..s \subseteq acked})
WindowEnd == Oldest + ReceiveWindow                 \* the first segment that the receiver has no room for
Space(j) == Larger(cwnd[j] - Cardinality(flight[j]), 0)

\* rw_may_carry: a segment goes on a subflow again only after it went on all others.
MayCarry(j, s) == j \notin carried[s] \/ InUse \subseteq carried[s]

\* The data for j: from the first segment after the gap on, in one piece, as far as the windows allow.
\* {}: there is none, and j waits.
Behind(queue, gap) ==
    IF "by_sequence" \in Printed THEN {s \in 1..written : s >= Least(queue) + gap /\ s \notin acked}
    ELSE {s \in queue : Cardinality({q \in queue : q < s}) >= gap}
InOnePiece(first, free) == {s \in free : first..s \subseteq free}
From(j, first, behind, end) ==
    IF ~ MayCarry(j, first) THEN {}
    ELSE InOnePiece(first, {s \in behind : /\ carried[s] = carried[first] \/ "by_sequence" \in Printed
                                           /\ s < end /\ s < first + Space(j)})
FromFirst(j, behind) == IF behind = {} THEN {} ELSE From(j, Least(behind), behind, WindowEnd)
TakenOf(j, queue) == IF queue = {} THEN {} ELSE FromFirst(j, Behind(queue, Gap(j)))
Taken(j) == IF Space(j) = 0 THEN {} ELSE TakenOf(j, Queue)

Ready == {j \in InUse : Taken(j) # {}}
Sooner(i, j) == rtt[i] < rtt[j] \/ (rtt[i] = rtt[j] /\ i <= j)

\* The fastest subflow that can take data.
Give(j, segments) ==
    /\ flight' = [flight EXCEPT ![j] = @ \cup segments]
    /\ carried' = [s \in Segments |-> IF s \in segments THEN carried[s] \cup {j} ELSE carried[s]]
Sender(j) == j \in Ready /\ \A i \in Ready : Sooner(j, i)
Send ==
    /\ \E j \in Subflows : Sender(j) /\ Give(j, Taken(j))
    /\ UNCHANGED <<rtt, cwnd, written, acked, lost, closed, troubles>>

-----------------------------------------------------------------------------
(* Events around the scheduler. *)

\* The application writes while the send buffer has room.
Write ==
    /\ written < Data /\ written < Oldest - 1 + Buffer
    /\ written' = written + 1
    /\ UNCHANGED <<rtt, cwnd, flight, carried, acked, lost, closed, troubles>>

\* The oldest segment of r is acknowledged; the window grows, or not yet.
Ack(r) ==
    /\ r \notin lost
    /\ \E s \in flight[r] :
       /\ \A q \in flight[r] : s <= q
       /\ flight' = [flight EXCEPT ![r] = @ \ {s}]
       /\ acked' = acked \cup {s}
    /\ \E grown \in {0, 1} : cwnd' = [cwnd EXCEPT ![r] = IF @ < WindowMax THEN @ + grown ELSE @]
    /\ UNCHANGED <<rtt, written, carried, lost, closed, troubles>>

Trouble == troubles > 0 /\ troubles' = troubles - 1

\* A fast retransmit: the subflow repairs it itself.
Halve(r) ==
    /\ Trouble /\ r \in Able /\ flight[r] # {} /\ cwnd[r] > 1
    /\ cwnd' = [cwnd EXCEPT ![r] = @ \div 2]
    /\ UNCHANGED <<rtt, written, flight, carried, acked, lost, closed>>

\* A retransmission timeout: until it is repaired the subflow is not in use, and what it carries may go elsewhere too.
Timeout(r) ==
    /\ Trouble /\ r \in Able /\ flight[r] # {}
    /\ lost' = lost \cup {r}
    /\ cwnd' = [cwnd EXCEPT ![r] = 1]
    /\ UNCHANGED <<rtt, written, flight, carried, acked, closed>>

\* TCP below retransmits until everything on the subflow has arrived: it is one byte stream.
Repair(r) ==
    /\ r \in lost
    /\ lost' = lost \ {r}
    /\ acked' = acked \cup flight[r]
    /\ flight' = [flight EXCEPT ![r] = {}]
    /\ UNCHANGED <<rtt, cwnd, written, carried, closed, troubles>>

\* The subflow ends, if another one remains; its data goes to others.
Close(r) ==
    /\ Trouble /\ r \notin closed /\ Cardinality(closed) + 1 < Cardinality(Subflows)
    /\ closed' = closed \cup {r} /\ lost' = lost \ {r}
    /\ flight' = [flight EXCEPT ![r] = {}]
    /\ UNCHANGED <<rtt, cwnd, written, carried, acked>>

\* The subflow's TCP gives up its data, and the subflow lives on: it may get the same data again.
Abandon(r) ==
    /\ GivesUp /\ Trouble /\ r \in Able /\ flight[r] # {}
    /\ flight' = [flight EXCEPT ![r] = {}]
    /\ UNCHANGED <<rtt, cwnd, written, carried, acked, lost, closed>>

Measure ==
    /\ Trouble
    /\ rtt' \in Rtts \ {rtt}
    /\ UNCHANGED <<cwnd, written, flight, carried, acked, lost, closed>>

\* All data has arrived: the only state in which the connection may stop.
AtRest == acked = Segments /\ (\A r \in Subflows : flight[r] = {}) /\ lost = {} /\ UNCHANGED vars

Next ==
    \/ Send \/ Write \/ Measure \/ AtRest
    \/ \E r \in Subflows : Ack(r) \/ Halve(r) \/ Timeout(r) \/ Repair(r) \/ Close(r) \/ Abandon(r)

(* Fairness: the application keeps writing, the scheduler is called after each change, segments arrive, and a subflow    *)
(* in loss state is repaired or closed. Troubles need not happen; their number is limited.                               *)
Fairness ==
    /\ ([]<>(Ready = {})) \/ ([]<><<Send>>_vars)    \* WF_vars(Send), said so that TLC need not find out when Send is enabled
    /\ WF_vars(Write)
    /\ \A r \in Subflows : WF_vars(Ack(r)) /\ WF_vars(Repair(r))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* What must hold. *)

TypeOK ==
    /\ rtt \in Rtts /\ cwnd \in [Subflows -> 1..WindowMax] /\ written \in 0..Data
    /\ flight \in [Subflows -> SUBSET (1..written)] /\ acked \subseteq 1..written
    /\ written < Oldest + Buffer /\ lost \cap closed = {} /\ \A r \in closed : flight[r] = {}
    /\ troubles \in 0..Troubles

\* Every segment is scheduled once: two subflows that can send never carry the same one.
Once == \A s \in Segments : Cardinality(Carriers(s) \ lost) <= 1
\* Without trouble, no segment is given twice.
OnceEver == troubles = Troubles => \A s \in Segments : Cardinality(carried[s]) <= 1

(* The right prediction, derived from the subflows' behaviour and not from the sum in eq. 8: a subflow sends a window in  *)
(* each round trip. All segments that a faster one sends in round trips that begin before j's segment arrives, half a     *)
(* round trip of j from now, arrive before that segment.                                                                  *)

Usable(r) == r \notin lost /\ r \notin closed
Used(r) == Usable(r) /\ (r \in Backup => \A s \in Subflows : s \in Backup \/ ~ Usable(s))
Ahead(j) == {r \in Subflows : Used(r) /\ rtt[r] < rtt[j]}
Partners(r) == {k \in Subflows : k \notin closed /\ Group[k] = Group[r]}
Couples(r) == r \notin closed /\ Group[r] # 0 /\ Cardinality(Partners(r)) > 1

\* Eq. 7 without fractions, over the product of all round trips: growth = above / below of a segment in a round trip.
RECURSIVE Product(_), AddUp(_, _)
Product(S) == IF S = {} THEN 1 ELSE LET r == CHOOSE r \in S : TRUE IN rtt[r] * Product(S \ {r})
AddUp(f, S) == IF S = {} THEN 0 ELSE LET r == CHOOSE r \in S : TRUE IN f[r] + AddUp(f, S \ {r})
Part(S, r) == Product(S \ {r})
Below(r) == IF ~ Couples(r) THEN 1
            ELSE LET S == Partners(r) sum == AddUp([k \in S |-> cwnd[k] * Part(S, k)], S) IN sum * sum
Above(r) == IF ~ Couples(r) THEN 1
            ELSE LET S == Partners(r)
                     best == CHOOSE b \in {cwnd[k] * Part(S, k) * Part(S, k) : k \in S} :
                                 \A k \in S : cwnd[k] * Part(S, k) * Part(S, k) <= b
                 IN IF cwnd[r] * best > Below(r) THEN Below(r) ELSE cwnd[r] * best

\* Round trips between two steps of the window; whole: every one of them is a whole number, and so is their number until
\* j's segment arrives. Only then is a sum of whole segments what is sent.
Between(r) == Below(r) \div Above(r)
Whole(j, r) == /\ rtt[j] % (2 * rtt[r]) = 0 /\ Below(r) % Above(r) = 0
               /\ (rtt[j] \div (2 * rtt[r])) % Between(r) = 0
Sent(j, r) == {x \in (0..rtt[j]) \X (1..cwnd[r] + rtt[j]) : 2 * x[1] * rtt[r] < rtt[j] /\ x[2] <= cwnd[r] + (x[1] \div Between(r))}
GrowsAsEqSeven == \A r \in Subflows : Used(r) => LET g == GrowthFor(View, r) IN g[1] * Below(r) = Above(r) * g[2]
\* Eq. 8 in parts of 8 rtt[r]^2 below, over which all of the sums are brought together.
Parts(r) == 8 * rtt[r] * rtt[r] * Below(r)
EqEight(j, r) == 2 * rtt[j] * rtt[r] * (2 * cwnd[r] - 1) * Below(r) + rtt[j] * rtt[j] * Above(r)
RECURSIVE Together(_, _)
Together(j, S) == IF S = {} THEN <<0, 1>>
                  ELSE LET r == CHOOSE r \in S : TRUE  rest == Together(j, S \ {r})
                       IN <<EqEight(j, r) * rest[2] + rest[1] * Parts(r), Parts(r) * rest[2]>>
Arrive(j) == IF \A r \in Ahead(j) : Whole(j, r)
             THEN AddUp([r \in Ahead(j) |-> Cardinality(Sent(j, r))], Ahead(j))
             ELSE LET sum == Together(j, Ahead(j)) IN sum[1] \div sum[2]
PredictsWhatArrives ==
    \A j \in Subflows : Used(j) => LET arrive == Arrive(j) IN Gap(j) = (IF arrive < Buffer THEN arrive ELSE Buffer)

\* What is given to j in a step, what of the queue is passed over, and who could fill that gap.
Given(j) == flight'[j] \ flight[j]
Gives(j) == flight'[j] # flight[j] /\ Given(j) # {}
BeforeAll(segments, queue) == {s \in queue : \A g \in segments : s < g}
Skipped(j) == BeforeAll(Given(j), Queue)
Fillers(j) == {r \in Subflows \ (lost \cup closed) : rtt[r] < rtt[j]}

\* A gap is left only by a subflow that has faster ones to fill it.
GapsOnlyOnSlower == [][\A j \in Subflows : Gives(j) => Skipped(j) = {} \/ Fillers(j) # {}]_vars
\* And it is what these are predicted to send (Arrive, below: what they send, counted).
GapIsPredicted ==
    [][\A j \in Subflows : Gives(j) => Cardinality(Skipped(j)) = Arrive(j)]_vars
\* A slower subflow is given data only when no faster one can take any: its window is full, or what is left is not for it.
FastestFirst ==
    [][\A j \in Subflows : Gives(j) =>
           \A i \in Fillers(j) : \/ Cardinality(flight[i]) >= cwnd[i]
                                 \/ Fillers(i) # {}
                                 \/ i \in carried[Least(Queue)]]_vars

WithinWindows ==
    [][\A j \in Subflows : Gives(j) => /\ Cardinality(flight'[j]) <= cwnd[j]
                                       /\ \A s \in Given(j) : s < Oldest + ReceiveWindow]_vars

\* Nothing is given to a subflow in loss state or closed; to a backup only when no other can send.
OnlyToThoseInUse ==
    [][\A j \in Subflows : Gives(j) => /\ j \notin lost \cup closed
                                       /\ j \in Backup => Subflows \subseteq Backup \cup lost \cup closed]_vars

CappedAtBuffer == \A j \in InUse : Gap(j) <= Buffer

\* No subflow of a set is predicted to send more than if it were alone: more than a segment in a round trip.
AtMostAlone == \A r \in InUse : AtMost(GrowthFor(View, r), One)

\* Over whole rounds a lone subflow sends w, w + 1, ... segments: what eq. 9 sums up.
Rounds(w, k) == LET to[i \in 0..k] == IF i = 0 THEN 0 ELSE to[i - 1] + w + i - 1
                IN to[k]
SumsRounds ==
    \A j, r \in InUse : rtt[r] < rtt[j] /\ rtt[j] % (2 * rtt[r]) = 0
                       => Predicted(rtt, cwnd, j, r, One) = <<Rounds(cwnd[r], rtt[j] \div (2 * rtt[r])), 1>>

(* Which data is given to which subflow. *)

Missing == {s \in Segments : s \notin acked}
Room == IF Missing = {} THEN Data + 1 + ReceiveWindow ELSE (CHOOSE s \in Missing : \A q \in Missing : s <= q) + ReceiveWindow
Waits == {s \in Missing : s <= written /\ \A r \in Subflows : s \in flight[r] => r \in lost}
\* The first segment that so many others are left before.
AfterGap(j) == LET waits == Waits  arrive == Arrive(j)  gap == IF arrive < Buffer THEN arrive ELSE Buffer
               IN {s \in waits : Cardinality({q \in waits : q < s}) = gap}
\* Data goes to a subflow a second time only when every one in use has had it.
Again(j, s) == j \in carried[s] => \A r \in Subflows : Used(r) => r \in carried[s]
CanTake(j) == Used(j) /\ Cardinality(flight[j]) < cwnd[j] /\ \E s \in AfterGap(j) : s < Room /\ Again(j, s)
Before(i, j) == rtt[i] < rtt[j] \/ (rtt[i] = rtt[j] /\ i < j)

GivesAsPredicted ==
    [][\A j \in Subflows : Gives(j) =>
           /\ CanTake(j) /\ \A i \in Subflows : CanTake(i) => ~ Before(i, j)
           /\ Given(j) \cap AfterGap(j) # {} /\ Given(j) \subseteq Waits
           /\ \A s \in Waits : (\E g \in Given(j) : g <= s) /\ (\E g \in Given(j) : s <= g) => s \in Given(j)
           /\ \A s \in Segments : (\E g \in Given(j) : g <= s) /\ (\E g \in Given(j) : s <= g) => s \in Given(j)
           /\ \A g, s \in Given(j) : carried[g] = carried[s]
           /\ \A s \in Given(j) : s < Room /\ Again(j, s)
           /\ \E g \in Given(j) : \* no more could be given
                  \/ Cardinality(flight'[j]) = cwnd[j] \/ g + 1 \notin Waits \/ g + 1 = Room
                  \/ (g + 1 \notin Given(j) /\ carried[g + 1] # carried[g])
           /\ \A s \in Segments : carried'[s] = (IF s \in Given(j) THEN carried[s] \cup {j} ELSE carried[s])
           /\ \A r \in Subflows : r # j => flight'[r] = flight[r]
           /\ flight[j] \subseteq flight'[j]
           /\ UNCHANGED <<rtt, cwnd, written, acked, lost, closed, troubles>>]_vars

(* The other steps, by the variables that each changes. *)

Emptied(r) == flight'[r] = {} /\ \A q \in Subflows : q # r => flight'[q] = flight[q]
OnlyTroubled == troubles' + 1 = troubles
Oldest1(r) == {s \in flight[r] : \A q \in flight[r] : s <= q}
Arrives(r) ==
    /\ Usable(r) \/ r \in closed
    /\ \E s \in Oldest1(r) : flight'[r] = flight[r] \ {s} /\ acked' = acked \cup {s}
    /\ \A q \in Subflows : q # r => flight'[q] = flight[q] /\ cwnd'[q] = cwnd[q]
    /\ cwnd'[r] \in {cwnd[r], cwnd[r] + 1} /\ cwnd'[r] <= WindowMax
    /\ UNCHANGED <<rtt, written, carried, lost, closed, troubles>>
Repaired(r) ==
    /\ r \in lost /\ lost' = lost \ {r} /\ Emptied(r)
    /\ \A s \in Segments : s \in acked' <=> s \in acked \/ s \in flight[r]
    /\ UNCHANGED <<rtt, cwnd, written, carried, closed, troubles>>
TimedOut(r) ==
    /\ Usable(r) /\ flight[r] # {} /\ lost' = lost \cup {r} /\ OnlyTroubled
    /\ \A q \in Subflows : cwnd'[q] = IF q = r THEN 1 ELSE cwnd[q]
    /\ UNCHANGED <<rtt, written, flight, carried, acked, closed>>
Halved(r) ==
    /\ Usable(r) /\ flight[r] # {} /\ OnlyTroubled
    /\ \A q \in Subflows : IF q = r THEN 2 * cwnd'[q] \in {cwnd[q], cwnd[q] - 1} ELSE cwnd'[q] = cwnd[q]
    /\ UNCHANGED <<rtt, written, flight, carried, acked, lost, closed>>
Closed(r) ==
    /\ r \notin closed /\ closed' = closed \cup {r} /\ closed' # Subflows /\ r \notin lost' /\ lost' \cup {r} = lost \cup {r}
    /\ Emptied(r) /\ OnlyTroubled
    /\ UNCHANGED <<rtt, cwnd, written, carried, acked>>
GivenUp(r) ==
    /\ GivesUp /\ Usable(r) /\ flight[r] # {} /\ Emptied(r) /\ OnlyTroubled
    /\ UNCHANGED <<rtt, cwnd, written, carried, acked, lost, closed>>
Measured == rtt' # rtt /\ rtt' \in Rtts /\ OnlyTroubled /\ UNCHANGED <<cwnd, written, flight, carried, acked, lost, closed>>
Written ==
    /\ written' = written + 1 /\ written' <= Data /\ written' + ReceiveWindow < Room + Buffer
    /\ UNCHANGED <<rtt, cwnd, flight, carried, acked, lost, closed, troubles>>
EachStepIsOne ==
    [][\/ \E j \in Subflows : Gives(j)
       \/ Written \/ Measured
       \/ \E r \in Subflows : Arrives(r) \/ Repaired(r) \/ TimedOut(r) \/ Halved(r) \/ Closed(r) \/ GivenUp(r)]_vars

Possible ==
    /\ (\E j \in Subflows : CanTake(j)) => \E j \in Subflows : Sender(j)    \* all that Send asks for
    /\ written < Data /\ written + 1 + ReceiveWindow < Room + Buffer => ENABLED Write
    /\ \A r \in Subflows : flight[r] # {} /\ r \notin lost =>
           /\ ENABLED (Ack(r) /\ cwnd' = cwnd) /\ (cwnd[r] < WindowMax => ENABLED (Ack(r) /\ cwnd'[r] > cwnd[r]))
    /\ \A r \in lost : ENABLED Repair(r)
    /\ troubles > 0 => /\ \A q \in Rtts : q # rtt => ENABLED (Measure /\ rtt' = q)
                       /\ \A r \in Subflows : flight[r] # {} /\ Usable(r) =>
                              ENABLED Timeout(r) /\ (GivesUp => ENABLED Abandon(r)) /\ (cwnd[r] > 1 => ENABLED Halve(r))
                       /\ \A r \in Subflows : (\E q \in Subflows : q # r /\ q \notin closed) /\ r \notin closed => ENABLED Close(r)

\* No starvation: all data arrives. A gap is filled, or no longer left.
EverythingArrives == <>(acked = Segments)
\* The same without liveness: if no data is in flight and none can be written, some subflow can send.
NeverStuck ==
    (acked # Segments /\ lost = {} /\ (\A r \in Subflows : flight[r] = {})) => (Ready # {} \/ (written < Data /\ written < Oldest - 1 + Buffer))

(* Desirable properties that the algorithm does not have: pinned as violated. *)

\* A slow subflow is used at some time; this fails where M is never below the size of the send buffer.
SlowestIsUsed == <>(\E s \in Segments : \E j \in carried[s] : \A r \in Subflows : rtt[r] <= rtt[j])
=============================================================================
