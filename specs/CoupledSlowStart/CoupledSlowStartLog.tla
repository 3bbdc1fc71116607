------------------------ MODULE CoupledSlowStartLog ------------------------
(***************************************************************************)
(* Is a log of what the C code did a behaviour of CoupledSlowStart?        *)
(*                                                                         *)
(* `rewindow specs trace` writes the module TraceCoupledSlowStart, which   *)
(* holds the log (rewindow/conformance/coupled_slow_start.py). For each    *)
(* step of the log, Follow sets every variable to what was logged; Allowed *)
(* then asks the specification's own actions whether that is a step of     *)
(* theirs. A step that is none is printed, and its piece ends there.       *)
(*                                                                         *)
(* A long log is cut into pieces. Each is a behaviour of its own, from the *)
(* state in which it starts; the first starts in Init, and each ends in    *)
(* the state in which the next one starts (Handed).                        *)
(*                                                                         *)
(* The operators that the specification leaves to its model are, for each  *)
(* step, an interval in the entry of that step, worked out from the exact  *)
(* formula on the state before.                                            *)
(***************************************************************************)
EXTENDS CoupledSlowStart, TraceCoupledSlowStart, Sequences, TLC

(* The generated module defines                                            *)
(*   Pieces      a sequence of [first, start, steps, wide, next]           *)
(*   Explaining  each piece is one step: print what the specification      *)
(*               allows in its place                                       *)
(*   InKernel    a real kernel took the steps, not a replay                *)

VARIABLES
    piece,  \* which one
    at,     \* how many of its steps have been taken
    end     \* which end of each interval, when explaining

(* An entry of the log: what happened, to whom, and all that changed. *)
Chunk == 250
Length(p) == LET c == Pieces[p].steps IN IF c = <<>> THEN 0 ELSE Chunk * (Len(c) - 1) + Len(c[Len(c)])
Entry == Pieces[piece].steps[(at \div Chunk) + 1][(at % Chunk) + 1]

Kind  == Entry[1]
Whose == Entry[2]
Acks  == Entry[3]   \* segments acknowledged
Low   == Entry[10]  \* interval of the operator that this step needs; Low < 0: the specification's own formula
High  == Entry[11]
RateLow  == Entry[12]
RateHigh == Entry[13]
Wide  == Entry[14]  \* 0, or where all subflows' values are, because more than one changed

\* The value that was logged, if it is in the interval; the end that is nearer, if not.
Pick(found) == IF Explaining THEN (IF end = 0 THEN Low ELSE High) ELSE Min(Max(found, Low), High)

---------------------------------------------------------------------------
(* What the code computes in fixed point, instead of the model's. *)

LogRate(w, r, least) == w
LogRateExceeds    == RateHigh > ConSsthresh
LogRateNotExceeds == RateLow <= ConSsthresh
LogGrowth(a, r, least, n) == {Pick(cwnd'[Whose] - cwnd[Whose])}
LogAvoidance(w, left) == {Pick(cwnd'[Whose] - w)}
LogRescale(a, total, after) == {Pick(alpha')}
LogHalved(s) == Max(IF Low < 0 THEN cwnd[s] - cwnd[s] \div 2 ELSE Pick(ssthresh'[s]), MinSsthresh)

\* Linux keeps three quarters of a window in whole segments (rw_window_kept_ssthresh).
ThreeQuarters(w) == (w \div (2 * Segment) + w \div (4 * Segment)) * Segment
Raised(s) == Max(ssthresh[s], ThreeQuarters(cwnd[s]))
Taken(s) == <<cwnd[s], Raised(s), IF before[s][3] = Apart THEN Apart ELSE IF s \in Coupled THEN Uncoupled ELSE 0>>
LogRemember(s) == before' = [before EXCEPT ![s] = Taken(s)]

\* An idle sender's window is halved for each timeout that passed, in whole segments, and not below IW or its value before
\* (restart_after_idle of shadow.c, rw_window_after_idle). The log does not have the number of timeouts.
LogIdle(s) ==
    /\ s \in Live
    /\ LET least == Min(IW, cwnd[s])
           w == IF Explaining THEN (IF end = 0 THEN least ELSE cwnd[s]) ELSE cwnd'[s]
       IN /\ least <= w /\ w <= cwnd[s]
          /\ w # cwnd[s] => w % Segment = 0
          /\ cwnd' = [cwnd EXCEPT ![s] = w]
    /\ ssthresh' = [ssthresh EXCEPT ![s] = Raised(s)]
    /\ UNCHANGED <<life, initial, rtt, before, conInitial, alpha>>

---------------------------------------------------------------------------
(* The actions that an entry of each kind may be. *)

\* Not in the specification: a recovery begins or ends, which changes nothing in mode=paper; a second timeout before
\* the first was recovered from, which makes the window one segment again; that a kernel has a window of what is in flight and
\* one segment more after that (kernel/tracing.py tells it as a step of its own); and a sender that began with more than IW,
\* which shows when its first ACK comes (shadow.c, begin_larger).
Machinery(s) ==
    \/ UNCHANGED vars
    \/ /\ s \in Live
       /\ cwnd' = [cwnd EXCEPT ![s] = Segment]
       /\ UNCHANGED <<life, ssthresh, initial, rtt, before, conInitial, alpha>>
    \/ /\ s \in Live
       /\ InKernel /\ ~Explaining
       /\ cwnd[s] = Segment
       /\ cwnd'[s] > Segment /\ cwnd'[s] % Segment = 0
       /\ cwnd' = [cwnd EXCEPT ![s] = cwnd'[s]]
       /\ UNCHANGED <<life, ssthresh, initial, rtt, before, conInitial, alpha>>
    \/ /\ s \in Live
       /\ ~Explaining
       /\ cwnd[s] = IW /\ ssthresh[s] = OwnSsthresh
       /\ cwnd'[s] > IW /\ cwnd'[s] % Segment = 0
       /\ cwnd' = [cwnd EXCEPT ![s] = cwnd'[s]]
       /\ UNCHANGED <<life, ssthresh, initial, rtt, before, conInitial, alpha>>

Allowed ==
    CASE Kind = "join" -> Join(Whose, Entry[7])
      [] Kind = "ack" -> CoupledAck(Whose, Acks) \/ ThresholdAck(Whose, Acks) \/ ExitAck(Whose) \/ OrdinaryAck(Whose, Acks)
      [] Kind = "loss" \/ Kind = "ece" -> Loss(Whose)
      [] Kind = "timeout" -> Timeout(Whose)
      [] Kind = "undo" -> Undo(Whose)
      [] Kind = "leave" -> Leave(Whose)
      [] Kind = "rtt" -> RttSample(Whose, Entry[7]) \/ UNCHANGED vars
      [] Kind = "idle" -> Idle(Whose)
      [] Kind = "machinery" -> Machinery(Whose)
      [] Kind = "verdict" -> Separate(Whose) \/ (before[Whose][3] = Apart /\ UNCHANGED vars)
      [] Kind = "sets" -> UNCHANGED vars
      [] OTHER -> FALSE

---------------------------------------------------------------------------
StateOf(v) ==
    /\ life = v.life /\ cwnd = v.cwnd /\ ssthresh = v.ssthresh /\ initial = v.initial /\ rtt = v.rtt
    /\ before = v.before /\ conInitial = v.conInitial /\ alpha = v.alpha

Report(what) == PrintT(<<what, piece, at>>)

LogInit ==
    /\ piece \in 1..Len(Pieces)
    /\ at = 0
    /\ end \in IF Explaining THEN {0, 1} ELSE {0}
    /\ StateOf(Pieces[piece].start)
    /\ IF Pieces[piece].first => Init THEN TRUE ELSE Report("start") /\ FALSE

\* Who leaves with the connection has its window as its threshold; who passes its own threshold keeps that.
LeavesAsAWhole == conInitial /\ ~Entry[8] /\ Coupled # {} /\ (Whose \in Coupled => Entry[5] = cwnd[Whose])

\* The undo memory is the one variable that the log does not tell.
Memory ==
    CASE Kind \in {"loss", "ece", "timeout"} -> [before EXCEPT ![Whose] = Taken(Whose)]
      [] Kind = "undo" /\ before[Whose][3] = Apart -> [before EXCEPT ![Whose] = <<0, 0, Apart>>]
      [] Kind \in {"undo", "leave"} -> [before EXCEPT ![Whose] = Nothing]
      [] Kind = "verdict" -> [before EXCEPT ![Whose][3] = Apart]
      [] Kind \in {"ack", "join"} /\ LeavesAsAWhole ->
            [s \in Subflows |-> IF before[s][3] = Uncoupled THEN [before[s] EXCEPT ![3] = LeftSince] ELSE before[s]]
      [] OTHER -> before

Follow ==
    /\ before' = Memory
    /\ conInitial' = Entry[8]
    /\ alpha' = Entry[9]
    /\ IF Wide = 0
       THEN /\ life' = IF Kind = "join" THEN [life EXCEPT ![Whose] = "live"]
                       ELSE IF Kind = "leave" THEN [life EXCEPT ![Whose] = "gone"] ELSE life
            /\ cwnd' = [cwnd EXCEPT ![Whose] = Entry[4]]
            /\ ssthresh' = [ssthresh EXCEPT ![Whose] = Entry[5]]
            /\ initial' = [initial EXCEPT ![Whose] = Entry[6]]
            /\ rtt' = [rtt EXCEPT ![Whose] = Entry[7]]
       ELSE LET v == Pieces[piece].wide[Wide]
            IN life' = v.life /\ cwnd' = v.cwnd /\ ssthresh' = v.ssthresh /\ initial' = v.initial /\ rtt' = v.rtt

\* The state in which the next piece starts, where subflows that are gone are left out and the others have new numbers.
Handed ==
    LET next == Pieces[piece].next  of == next.number
    IN /\ \A s \in Subflows : (of[s] # 0) = (life'[s] = "live")
       /\ \A s, t \in Subflows : of[s] = of[t] /\ of[s] # 0 => s = t
       /\ \A t \in Subflows : next.start.life[t] \in {"live", "new"} /\ (next.start.life[t] = "live" <=> \E s \in Subflows : of[s] = t)
       /\ \A s \in Subflows : of[s] # 0 =>
            /\ next.start.cwnd[of[s]] = cwnd'[s] /\ next.start.ssthresh[of[s]] = ssthresh'[s]
            /\ next.start.initial[of[s]] = initial'[s] /\ next.start.rtt[of[s]] = rtt'[s]
            /\ next.start.before[of[s]] = before'[s]
       /\ next.start.conInitial = conInitial' /\ next.start.alpha = alpha'

Match ==
    /\ at < Length(piece)
    /\ at' = at + 1
    /\ UNCHANGED <<piece, end>>
    /\ Follow
    /\ IF Allowed THEN TRUE ELSE Report("refused") /\ FALSE
    /\ IF at' = Length(piece) /\ Pieces[piece].next # <<>>
       THEN IF Handed THEN TRUE ELSE Report("broken") /\ FALSE
       ELSE TRUE

Explain ==
    /\ at < Length(piece)
    /\ at' = at + 1
    /\ UNCHANGED <<piece, end>>
    /\ Allowed
    /\ PrintT(<<"allowed", piece, cwnd', ssthresh', initial', conInitial', alpha'>>)

LogNext == IF Explaining THEN Explain ELSE Match

LogSpec == LogInit /\ [][LogNext]_<<vars, piece, at, end>>
=============================================================================
