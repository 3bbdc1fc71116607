------------------------ MODULE SharedBottleneckLog ------------------------
(***************************************************************************)
(* Is a log of what the C code did a behaviour of SharedBottleneck?        *)
(*                                                                         *)
(* `rewindow specs trace` writes the module TraceSharedBottleneck, which   *)
(* holds the log (rewindow/conformance/shared_bottleneck.py). For each     *)
(* entry, Acts asks the specification's own action for what the step leads *)
(* to, hidden variables included; Agrees then compares all that the C code *)
(* showed of its state. An entry that is no step, or shows another state,  *)
(* is printed with what the specification says, and its piece ends there.  *)
(*                                                                         *)
(* The specification has no clock: a half of a window is over whenever it  *)
(* likes. Here it is over when the log's times say so (Over), to the       *)
(* nanosecond, and Tick takes the specification's own Fade, CloseAlone and *)
(* CloseSet for it, before the entry that could have seen it open. So what *)
(* is followed is a behaviour of the specification, and one in which each  *)
(* window is as long as in print.                                          *)
(*                                                                         *)
(* A long log is cut into pieces. The state that TLC prints at the end of  *)
(* one, all of it, is what the next one starts in.                         *)
(***************************************************************************)
EXTENDS SharedBottleneck, TraceSharedBottleneck, Integers, Sequences, TLC

(* The generated module defines                                            *)
(*   Pieces  a sequence of [first, start, entries, shown]                  *)
(* Subflow n is the path in place n - 1 of the C code.                     *)

VARIABLES
    piece,   \* which one
    at,      \* how many of its entries have been taken
    ticks,   \* how many steps of time
    now,     \* when the last entry was
    ece,     \* of each subflow: its last ECE; Never
    event,   \* of each subflow: its last event; told only of those in `recent`
    since,   \* of each decision that waits: when it was asked for. Of set i: i; of subflow r: SetsMost + r
    due      \* and when it is due

clock == <<now, ece, event, since, due>>

LogBottleneck == [r \in Subflows |-> "A"]
\* What happened in the network is not known, and not asked: every event is one without a cause.
LogSpent(what) == budget' = budget

---------------------------------------------------------------------------
(* Times: <<t div 2^30, t mod 2^30>> of nanoseconds, since TLC's integers have 32 bits. *)

Base == 1073741824
Sum(a, b) == IF a[2] + b[2] < Base THEN <<a[1] + b[1], a[2] + b[2]>> ELSE <<a[1] + b[1] + 1, a[2] + b[2] - Base>>
Earlier(a, b) == a[1] < b[1] \/ (a[1] = b[1] /\ a[2] < b[2])
Half(t) == <<t[1] \div 2, (t[1] % 2) * (Base \div 2) + t[2] \div 2>>
Never == <<>>

---------------------------------------------------------------------------
(* An entry of the log. *)

Chunk == 250
Length(p) == LET c == Pieces[p].entries IN IF c = <<>> THEN 0 ELSE Chunk * (Len(c) - 1) + Len(c[Len(c)])
Entry == Pieces[piece].entries[(at \div Chunk) + 1][(at % Chunk) + 1]

Kind  == Entry[1]
Whose == Entry[2]
Now   == Entry[3]
Srtt(r) == Entry[4][r]   \* <<0, 0>>: none yet, or no such subflow. Told of events only
\* What the C code showed after it: of each subflow <<live, its set or 0, state, who asked or 0, who was seen>>, then of
\* each set <<who asked or 0, who was seen>>.
Shown == Pieces[piece].shown[Entry[5]]

OfDetector == Kind # "sets"
\* An echo within a round trip of the one before is no event: RFC 3168's receivers repeat it.
Repeated == Kind = "detector_ece" /\ ece[Whose] # Never /\ Earlier(Now, Sum(ece[Whose], Srtt(Whose)))
IsEvent == Kind = "detector_loss" \/ (Kind = "detector_ece" /\ ~ Repeated)

SetsMost == 4
Decisions == 1..(SetsMost + Cardinality(Subflows))
Waits(d) == IF d <= SetsMost THEN ofset[d].waits ELSE alone[d - SetsMost].waits
Judged == IF Kind = "judge_subflow" THEN SetsMost + Whose ELSE IF Kind = "judge_set" THEN Whose ELSE 0

\* Time does not go back; no decision is passed over; one that is taken is taken when it is due, the earliest first.
Timely ==
    OfDetector =>
        /\ ~ Earlier(Now, now)
        /\ \A d \in Decisions : Waits(d) => ~ Earlier(due[d], Now)
        /\ Judged # 0 => (Waits(Judged) /\ due[Judged] = Now)

---------------------------------------------------------------------------
(* Halves of windows that are over when the entry comes: <<action, decision or subflow, subflow>>. *)

Over(t, r) == Earlier(Sum(t, Half(Srtt(r))), Now)
Faded == IF IsEvent THEN {<<"fade", r, r>> : r \in {r \in recent : Over(event[r], r)}} ELSE {}
Closed ==
    IF IsEvent
    THEN {<<"alone", s, Whose>> : s \in {s \in Subflows : Whose \in alone[s].open /\ Over(since[SetsMost + s], Whose)}} \cup
         {<<"set", i, Whose>> : i \in {i \in Sets : Whose \in ofset[i].open /\ Over(since[i], Whose)}}
    ELSE IF Kind = "judge_subflow" THEN {<<"alone", Whose, r>> : r \in alone[Whose].open}
    ELSE IF Kind = "judge_set" THEN {<<"set", Whose, r>> : r \in ofset[Whose].open}
    ELSE {}
Halves == Faded \cup Closed

Tick ==
    LET h == CHOOSE h \in Halves : TRUE
    IN /\ CASE h[1] = "fade" -> Fade(h[2])
            [] h[1] = "alone" -> CloseAlone(h[2], h[3])
            [] h[1] = "set" -> CloseSet(h[2], h[3])
       /\ ticks' = ticks + 1
       /\ UNCHANGED <<piece, at, clock>>

---------------------------------------------------------------------------
(* The actions that an entry of each kind may be. *)

Acts ==
    CASE Kind = "detector_join" -> Join(Whose)
      [] Kind = "detector_leave" -> Leave(Whose)
      [] Kind = "detector_ece" -> IF Repeated THEN Whose \in live /\ UNCHANGED vars ELSE Ece(Whose)
      [] Kind = "detector_loss" -> Loss(Whose)
      [] Kind = "judge_subflow" -> JudgeAlone(Whose)
      [] Kind = "judge_set" -> JudgeSet(Whose)
      [] Kind = "sets" -> UNCHANGED vars    \* what the controller was told
      [] OTHER -> FALSE

Stage == [monitor |-> 0, judgement |-> 1, final |-> 2]
SetOf(r) == IF SetsOf(r) = {} THEN 0 ELSE CHOOSE i \in SetsOf(r) : TRUE
Asks(j) == IF j.waits THEN <<j.trigger, j.seen>> ELSE <<0, {}>>
\* All that the C code shows, as the specification has it.
Specified ==
    <<[r \in Subflows |-> <<r \in live, SetOf(r), Stage[state[r]]>> \o Asks(alone[r])], [i \in Sets |-> Asks(ofset[i])]>>
Agrees(specified) ==
    IF OfDetector THEN Shown = specified
    ELSE \A r \in Subflows : Shown[1][r][1] => \A k \in {2, 3} : Shown[1][r][k] = specified[1][r][k]

Begun(d) == Waits(d)' /\ ~ Waits(d)
Largest(ts) == CHOOSE t \in ts : \A u \in ts : ~ Earlier(t, u)
Told ==
    /\ now' = IF OfDetector THEN Now ELSE now
    /\ ece' = IF Kind = "detector_ece" THEN [ece EXCEPT ![Whose] = Now]
              ELSE IF Kind = "detector_join" THEN [ece EXCEPT ![Whose] = Never] ELSE ece
    /\ event' = IF IsEvent THEN [event EXCEPT ![Whose] = Now] ELSE event
    /\ IF IsEvent
       THEN /\ since' = [d \in Decisions |-> IF Begun(d) THEN Now ELSE since[d]]
            /\ due' = [d \in Decisions |-> IF Begun(d) THEN Sum(Now, Largest({Half(Srtt(r)) : r \in live})) ELSE due[d]]
       ELSE UNCHANGED <<since, due>>

---------------------------------------------------------------------------
(* The whole state as one value, without strings; what the next piece starts in. *)

Judgement(j) == <<j.waits, j.trigger, j.seen, j.open>>
Whole ==
    <<live, [r \in Subflows |-> Stage[state[r]]], members, recent, [r \in Subflows |-> Judgement(alone[r])],
      [i \in Sets |-> Judgement(ofset[i])], passed, used, now, ece, event, since, due>>

Held(j) == [waits |-> j[1], trigger |-> j[2], seen |-> j[3], open |-> j[4]]
StageOf(n) == CASE n = 0 -> "monitor" [] n = 1 -> "judgement" [] n = 2 -> "final"
StateOf(v) ==
    /\ live = v[1] /\ state = [r \in Subflows |-> StageOf(v[2][r])] /\ members = v[3] /\ recent = v[4]
    /\ alone = [r \in Subflows |-> Held(v[5][r])] /\ ofset = [i \in Sets |-> Held(v[6][i])]
    /\ passed = v[7] /\ used = v[8] /\ now = v[9] /\ ece = v[10] /\ event = v[11] /\ since = v[12] /\ due = v[13]
    /\ hit = {} /\ budget = [join |-> 0, close |-> 0, noise |-> 0]

Report(what) == PrintT(<<what, piece, at, ticks, Whole>>)

LogInit ==
    /\ piece \in 1..Len(Pieces)
    /\ at = 0 /\ ticks = 0
    /\ StateOf(Pieces[piece].start)
    /\ IF TypeOK /\ (Pieces[piece].first => Init) THEN TRUE ELSE Report("start") /\ FALSE

Match ==
    /\ IF ENABLED Acts THEN TRUE ELSE Report("refused") /\ FALSE
    /\ Acts
    /\ IF Agrees(Specified') THEN TRUE ELSE PrintT(<<"differs", piece, at, ticks, Specified'>>) /\ FALSE
    /\ Told
    /\ at' = at + 1
    /\ UNCHANGED <<piece, ticks>>

LogNext ==
    IF at = Length(piece) THEN Report("followed") /\ FALSE
    ELSE IF ~ Timely THEN Report("untimely") /\ FALSE
    ELSE IF Halves # {} THEN Tick
    ELSE Match

LogSpec == LogInit /\ [][LogNext]_<<vars, piece, at, ticks, clock>>
=============================================================================
