-------------------------- MODULE SharedBottleneck --------------------------
(***************************************************************************)
(* SB-CC's detector: which subflows of a connection meet in one queue      *)
(* (SB-CC paper III.A.1, Algorithm 1, Fig. 2 and 3; core-c/src/bottleneck/ *)
(* sbcc.c).                                                                *)
(*                                                                         *)
(*   monitor    an ECE on r: each other monitored subflow that has an      *)
(*              event (ECE or loss) in its observation window joins r in   *)
(*              a preliminary set                                          *)
(*   judgement  the next ECE on a member: if every other member has an     *)
(*              event in its window, and nobody outside, the set is final; *)
(*              otherwise all go back to monitor                           *)
(*   final      every further ECE on a member asks the same again; only    *)
(*              now are the members' windows coupled                       *)
(*                                                                         *)
(* How time is told without a clock. The observation window of a subflow   *)
(* is half a round trip to each side of the ECE that asks. `recent` holds  *)
(* the subflows whose last event is still within their past half; a        *)
(* subflow leaves it whenever its half round trip is over (Fade). When a   *)
(* decision begins, the future half of every other subflow is open; they   *)
(* close one by one (Close), in any order, since the round trips are any;  *)
(* when the last has closed the decision is due:                           *)
(* t + max srtt/2. An "ECE" is the first of a run of ECEs: RFC 3168's      *)
(* receivers repeat the echo for a whole round trip.                       *)
(*                                                                         *)
(* The network. Each subflow runs through one bottleneck. After Congest(b) *)
(* every live subflow of b gets an event, within the observation windows,  *)
(* as the paper assumes. Noise is every event with another cause: a queue  *)
(* elsewhere, a loss by radio. It may come at any time, and ends at some   *)
(* time (NoiseMax).                                                        *)
(*                                                                         *)
(* Printed lists in which points the paper's text is taken literally; {}   *)
(* is the machine as we run it.                                            *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Subflows,    \* 1..n
    Bottleneck,  \* the bottleneck of each
    Sets,        \* numbers that a set may have; RW_MAX_PATHS / 2 in the C code, since a set has two members
    First,       \* the subflows that are there from the start
    JoinMax,     \* how many join later (a subflow that closed may join again)
    CloseMax,    \* how many close
    NoiseMax,    \* how many events have no cause in a bottleneck
    Apart,       \* TRUE: congestions of two bottlenecks are further apart than the windows
    Missing,     \* TRUE: in every congestion one subflow may get neither mark nor loss
    Outsiders,   \* "any" (Algorithm 1 line 15, as we run it) or "monitored" (the text of III.A.1)
    Printed

None == 0
ASSUME /\ Subflows \subseteq 1..8 /\ First \subseteq Subflows /\ Bottleneck \in [Subflows -> {"A", "B", "C"}]
       /\ Sets \subseteq 1..4 /\ JoinMax \in 0..3 /\ CloseMax \in 0..3 /\ NoiseMax \in 0..9
       /\ Outsiders \in {"any", "monitored"}
       /\ Printed \subseteq {"all_subflows", "same_ece", "two_states", "set_stays", "closed_stays", "lone_member",
                             "one_number", "at_once"}

VARIABLES
    live,     \* subflows that are established
    state,    \* of each: "monitor", "judgement" or "final" (rw_detected_path.state)
    members,  \* of each set (rw_detected_path.set, seen from the set)
    recent,   \* subflows with an event in the past half of their window
    alone,    \* the decision that waits on a monitored subflow's ECE (sbcc_path.alone)
    ofset,    \* the decision that waits on a set (sbcc.set)
    hit,      \* subflows that the present congestion has still to reach
    budget,   \* how many joins, closes and noises are left
    passed,   \* sets that have been verified since they were made; not in the code
    used      \* subflows whose recent event has already made a set; not in the code

vars == <<live, state, members, recent, alone, ofset, hit, budget, passed, used>>

\* No decision waits; and one that begins on `trigger`.
Nothing == [waits |-> FALSE, trigger |-> None, seen |-> {}, open |-> {}]
Beginning(trigger, past, others) == [waits |-> TRUE, trigger |-> trigger, seen |-> past, open |-> others]

Init ==
    /\ live = First
    /\ state = [r \in Subflows |-> "monitor"]
    /\ members = [i \in Sets |-> {}]
    /\ recent = {} /\ hit = {} /\ passed = {} /\ used = {}
    /\ alone = [r \in Subflows |-> Nothing]
    /\ ofset = [i \in Sets |-> Nothing]
    /\ budget = [join |-> JoinMax, close |-> CloseMax, noise |-> NoiseMax]

SetsOf(r) == {i \in Sets : r \in members[i]}
Through(b) == {r \in live : Bottleneck[r] = b}
Waiting == (\E r \in Subflows : alone[r].waits) \/ (\E i \in Sets : ofset[i].waits)

\* Windows are coupled only in final (algorithms.md S4); the Input of Algorithm 1 names only two states.
Coupled(r) == state[r] = "final" \/ ("two_states" \in Printed /\ state[r] = "judgement")

-----------------------------------------------------------------------------
(* The network. *)

\* A queue exceeds its threshold. Its first sign is a mark: the threshold is below the limit at which it drops.
Congest(b) ==
    /\ Through(b) # {} /\ hit \cap Through(b) = {} /\ recent \cap Through(b) = {}
    /\ Apart => hit = {} /\ recent = {} /\ ~ Waiting
    /\ \E missed \in SUBSET Through(b) :
         /\ missed = {} \/ (Missing /\ Cardinality(missed) = 1)
         /\ Through(b) # missed
         /\ hit' = hit \cup (Through(b) \ missed)
    /\ UNCHANGED <<live, state, members, recent, alone, ofset, budget, passed, used>>

\* One of those joins, closes or noises that are left. (In a log of what happened there is no such bound.)
Spent(what) == budget[what] > 0 /\ budget' = [budget EXCEPT ![what] = @ - 1]

\* The congestion that reaches r now, or noise.
Cause(r) ==
    \/ r \in hit /\ hit' = hit \ {r} /\ budget' = budget
    \/ r \notin hit /\ Spent("noise") /\ hit' = hit

\* While a congestion is on its way to others of the bottleneck, no window that is to see it closes.
Arriving(r) == hit \cap Through(Bottleneck[r]) # {}

-----------------------------------------------------------------------------
(* Events: sbcc_congestion. Every waiting decision first notes the event (note), then the event may begin one. *)

Noted(j, r) == IF j.waits /\ j.trigger # r /\ r \in j.open THEN [j EXCEPT !.seen = @ \cup {r}] ELSE j
NotedAlone(r) == [s \in Subflows |-> Noted(alone[s], r)]
NotedSets(r) == [i \in Sets |-> Noted(ofset[i], r)]

\* begin(): events in the others' past halves are seen at once; the future halves of all are open.
Asked(r) == Beginning(r, (recent \cap live) \ {r}, IF "at_once" \in Printed THEN {} ELSE live \ {r})

\* A run of ECEs begins on r.
Ece(r) ==
    /\ r \in live
    /\ Cause(r)
    /\ recent' = recent \cup {r} /\ used' = used \ {r}
    /\ alone' = IF state[r] = "monitor" /\ ~ alone[r].waits THEN [NotedAlone(r) EXCEPT ![r] = Asked(r)]
                ELSE NotedAlone(r)
    /\ ofset' = [i \in Sets |-> IF r \in members[i] /\ state[r] # "monitor" /\ ~ ofset[i].waits
                                THEN Asked(r) ELSE NotedSets(r)[i]]
    /\ UNCHANGED <<live, state, members, passed>>

\* A loss on r: seen, but nothing begins with it (trigger_loss=off).
Loss(r) ==
    /\ r \in live
    /\ r \in hit => recent \cap (Through(Bottleneck[r]) \ hit) # {}    \* another subflow was marked before
    /\ Cause(r)
    /\ recent' = recent \cup {r} /\ used' = used \ {r}
    /\ alone' = NotedAlone(r)
    /\ ofset' = NotedSets(r)
    /\ UNCHANGED <<live, state, members, passed>>

(* Time passes. *)

Fade(r) ==
    /\ r \in recent /\ ~ Arriving(r)
    /\ recent' = recent \ {r} /\ used' = used \ {r}
    /\ UNCHANGED <<live, state, members, alone, ofset, hit, budget, passed>>

CloseAlone(s, r) ==
    /\ r \in alone[s].open /\ ~ Arriving(r)
    /\ alone' = [alone EXCEPT ![s].open = @ \ {r}]
    /\ UNCHANGED <<live, state, members, recent, ofset, hit, budget, passed, used>>

CloseSet(i, r) ==
    /\ r \in ofset[i].open /\ ~ Arriving(r)
    /\ ofset' = [ofset EXCEPT ![i].open = @ \ {r}]
    /\ UNCHANGED <<live, state, members, recent, alone, hit, budget, passed, used>>

-----------------------------------------------------------------------------
(* Decisions: sbcc_decide. *)

\* The lowest number that no set has. Literally, i moves on only when a set is verified (Algorithm 1 line 18).
Free == {i \in Sets : IF "one_number" \in Printed THEN i \notin passed ELSE members[i] = {}}
IsNumber(i) == i \in Free /\ \A k \in Free : i <= k

\* Algorithm 1 lines 5-12, judge_alone. Line 6 loops over all subflows, the text over those in monitor (S3).
Joining(r) == {s \in alone[r].seen : s \in live /\ (state[s] = "monitor" \/ "all_subflows" \in Printed)}

JudgeAlone(r) ==
    LET found == Joining(r)
        all == found \cup {r}
    IN
    /\ alone[r].waits /\ alone[r].open = {}
    /\ IF found = {} \/ Free = {}
       THEN /\ alone' = [alone EXCEPT ![r] = Nothing]
            /\ UNCHANGED <<state, members, ofset, passed, used>>
       ELSE \E i \in Sets :
            /\ IsNumber(i)
            /\ members' = [members EXCEPT ![i] = IF "one_number" \in Printed THEN @ \cup all ELSE all]
            /\ state' = [s \in Subflows |-> IF s \notin all THEN state[s]
                                            ELSE IF "same_ece" \in Printed THEN "final" ELSE "judgement"]
            /\ passed' = IF "same_ece" \in Printed THEN passed \cup {i} ELSE passed \ {i}
            /\ alone' = [s \in Subflows |-> IF s \in all THEN Nothing ELSE alone[s]]
            /\ ofset' = [ofset EXCEPT ![i] = Nothing]
            /\ used' = used \cup (all \cap recent)
    /\ UNCHANGED <<live, recent, hit, budget>>

\* Lines 14-22, judge_set: every other member was seen, and no outsider.
Outside(i) == {s \in live \ members[i] : Outsiders = "any" \/ state[s] = "monitor"}
Holds(i) ==
    LET j == ofset[i] IN
    /\ \A s \in members[i] \ {j.trigger} : s \in j.seen
    /\ \A s \in Outside(i) : s \notin j.seen

Dissolved(i) == [s \in Subflows |-> IF s \in members[i] THEN "monitor" ELSE state[s]]

JudgeSet(i) ==
    /\ ofset[i].waits /\ ofset[i].open = {}
    /\ ofset' = [ofset EXCEPT ![i] = Nothing]
    /\ IF Holds(i)
       THEN /\ state' = [s \in Subflows |-> IF s \in members[i] THEN "final" ELSE state[s]]
            /\ passed' = passed \cup {i}
            /\ UNCHANGED members
       ELSE /\ state' = Dissolved(i)
            /\ members' = IF "set_stays" \in Printed THEN members ELSE [members EXCEPT ![i] = {}]
            /\ passed' = passed \ {i}
    /\ UNCHANGED <<live, recent, alone, hit, budget, used>>

-----------------------------------------------------------------------------
(* Subflows come and go: sbcc_join, sbcc_leave. *)

Join(r) ==
    /\ r \notin live
    /\ Spent("join")
    /\ live' = live \cup {r}
    /\ UNCHANGED <<state, members, recent, alone, ofset, hit, passed, used>>

\* The decision of a closed subflow is dropped; other decisions no longer ask about the subflow.
Forgotten(j, r) == IF j.trigger = r THEN Nothing ELSE [j EXCEPT !.seen = @ \ {r}, !.open = @ \ {r}]

Leave(r) ==
    LET left(i) == members[i] \ {r}
        ends(i) == r \in members[i] /\ Cardinality(members[i]) <= 2 /\ Printed \cap {"closed_stays", "lone_member"} = {}
    IN
    /\ r \in live
    /\ Spent("close")
    /\ live' = live \ {r}
    /\ recent' = recent \ {r} /\ hit' = hit \ {r} /\ used' = used \ {r}
    /\ alone' = [s \in Subflows |-> IF s = r THEN Nothing ELSE Forgotten(alone[s], r)]
    /\ ofset' = [i \in Sets |-> IF ends(i) THEN Nothing ELSE Forgotten(ofset[i], r)]
    /\ members' = IF "closed_stays" \in Printed THEN members
                  ELSE [i \in Sets |-> IF ends(i) THEN {} ELSE left(i)]
    /\ state' = [s \in Subflows |-> IF s = r \/ \E i \in Sets : ends(i) /\ s \in members[i] THEN "monitor" ELSE state[s]]
    /\ passed' = {i \in passed : ~ ends(i)}

Next ==
    \/ \E b \in {"A", "B", "C"} : Congest(b)
    \/ \E r \in Subflows : Ece(r) \/ Loss(r) \/ Fade(r) \/ JudgeAlone(r) \/ Join(r) \/ Leave(r)
    \/ \E r, s \in Subflows : CloseAlone(s, r)
    \/ \E i \in Sets : JudgeSet(i) \/ \E r \in Subflows : CloseSet(i, r)

(* Fairness: half round trips end (Fade, Close), the code takes due decisions, a congestion reaches its subflows, a      *)
(* bottleneck in use is congested again and again, and some events of a subflow are marks. Joins, closes and noise       *)
(* need not happen.                                                                                                      *)
Fairness ==
    /\ \A r \in Subflows : /\ WF_vars(Fade(r)) /\ WF_vars(JudgeAlone(r))
                           /\ WF_vars(r \in hit /\ (Ece(r) \/ Loss(r)))
                           /\ WF_vars(\E s \in Subflows : CloseAlone(r, s))
    /\ \A i \in Sets : WF_vars(JudgeSet(i)) /\ WF_vars(\E s \in Subflows : CloseSet(i, s))
    /\ \A b \in {Bottleneck[r] : r \in Subflows} : SF_vars(Congest(b))
Marked == \A r \in Subflows : SF_vars(r \in hit /\ Ece(r))

Spec == Init /\ [][Next]_vars /\ Fairness /\ Marked
SpecLossesOnly == Init /\ [][Next]_vars /\ Fairness    \* some subflows' packets are dropped and never marked

-----------------------------------------------------------------------------
(* What must hold. *)

TypeOK ==
    /\ live \subseteq Subflows /\ recent \subseteq live /\ hit \subseteq live /\ used \subseteq recent
    /\ state \in [Subflows -> {"monitor", "judgement", "final"}]
    /\ members \in [Sets -> SUBSET Subflows] /\ passed \subseteq Sets
    /\ \A what \in DOMAIN budget : budget[what] \in Nat
    /\ \A r \in Subflows : alone[r].waits => alone[r].trigger = r /\ r \in live
    /\ \A i \in Sets : ofset[i].waits => ofset[i].trigger \in members[i]

\* A subflow is in one set at most.
Disjoint == \A i, k \in Sets : i # k => members[i] \cap members[k] = {}

\* The set table and the states agree: a subflow is in a set if and only if it is past monitor, and members have equal states.
TableAgrees ==
    /\ \A r \in Subflows : (SetsOf(r) = {}) = (state[r] = "monitor")
    /\ \A i \in Sets : \A r, s \in members[i] : state[r] = state[s]

TwoMembers == \A i \in Sets : Cardinality(members[i]) # 1

ClosedInNone == \A r \in Subflows \ live : SetsOf(r) = {} /\ ~ Coupled(r) /\ ~ alone[r].waits

\* Only a verified set is coupled, and it has at least two members.
CoupledVerified ==
    \A r \in Subflows : Coupled(r) => \E i \in passed : r \in members[i] /\ Cardinality(members[i] \cap live) >= 2

\* Two stages: a subflow is in judgement before it is final.
TwoStages == [][\A r \in Subflows : state'[r] = "final" => state[r] # "monitor"]_vars

\* A set ends with a failed verification: a member had no event, or an outsider had one.
Decided(i) == ofset[i].waits /\ ~ ofset'[i].waits /\ live' = live
FailedGoes ==
    [][\A i \in Sets : (Decided(i) /\ ~ (members[i] \subseteq ofset[i].seen \cup {ofset[i].trigger}))
                       => members'[i] = {}]_vars
\* Nothing else ends a set, except a member that closes: no set loses or gains a member.
SetsWhole ==
    [][\A i \in Sets : members[i] # {} /\ members'[i] # members[i] /\ live' = live
                       => members'[i] = {} /\ Decided(i)]_vars

-----------------------------------------------------------------------------
(* The effect of each step, by the variables that change: an event, a half that ends, a decision, a join, a close; and    *)
(* when each step must be possible. The formulas follow III.A.1 and Fig. 2, not the actions above.                        *)

Forgot(j) == j = [waits |-> FALSE, trigger |-> None, seen |-> {}, open |-> {}]
Idle(j) == ~ j.waits
Ends(j, k) == j.waits /\ ~ k.waits
\* No congestion is on its way to the queue of r.
Quiet(r) == \A q \in hit : q \notin live \/ Bottleneck[q] # Bottleneck[r]
Left(what) == budget'[what] + 1 = budget[what] /\ \A other \in DOMAIN budget : other # what => budget'[other] = budget[other]

\* A waiting decision sees an event of a subflow whose window is open; nothing else about the decision changes.
Sees(j, k, r) ==
    IF j.waits /\ r \in j.open /\ r # j.trigger
    THEN k.waits /\ k.trigger = j.trigger /\ k.open = j.open /\ k.seen = j.seen \cup {r}
    ELSE k = j
\* A decision that begins has seen the subflows with an event in the past half; all others may still have one.
Begins(k, r) ==
    /\ k.waits /\ k.trigger = r /\ r \notin k.seen /\ r \notin k.open
    /\ \A s \in live : s # r => s \in k.open /\ (s \in k.seen <=> s \in recent)
    /\ k.seen \cup k.open \subseteq live

Eventful == live' = live /\ (hit \ hit' # {} \/ budget'.noise # budget.noise)
\* A mark begins the decision that r may ask for; a loss is only seen, and a queue marks before it drops.
MayAsk(r) == (state[r] = "monitor" /\ Idle(alone[r])) \/ \E i \in Sets : r \in members[i] /\ state[r] # "monitor" /\ Idle(ofset[i])
MarkSeen(r) ==
    /\ \A s \in Subflows : IF s = r /\ state[r] = "monitor" /\ Idle(alone[r]) THEN Begins(alone'[s], r)
                           ELSE Sees(alone[s], alone'[s], r)
    /\ \A i \in Sets : IF r \in members[i] /\ state[r] # "monitor" /\ Idle(ofset[i]) THEN Begins(ofset'[i], r)
                       ELSE Sees(ofset[i], ofset'[i], r)
OnlySeen(r) ==
    /\ \A s \in Subflows : Sees(alone[s], alone'[s], r)
    /\ \A i \in Sets : Sees(ofset[i], ofset'[i], r)
EventOf(r) ==
    /\ IF r \in hit THEN hit' = hit \ {r} /\ budget' = budget ELSE hit' = hit /\ Left("noise")
    /\ recent' = recent \cup {r} /\ used' = used \ {r}
    /\ MarkSeen(r) \/ (OnlySeen(r) /\ (r \in hit => \E q \in recent : Bottleneck[q] = Bottleneck[r] /\ q \notin hit))
    /\ UNCHANGED <<live, state, members, passed>>
EventsAreSeen == [][Eventful => \E r \in live : EventOf(r)]_vars
\* A mark begins a decision wherever it may.
MarksAsk == [][\A r \in Subflows : Ece(r) => MarkSeen(r)]_vars

\* A congestion reaches all live subflows of one queue (but one, where one may be missed), and no queue twice at once.
Congested ==
    \E b \in {Bottleneck[r] : r \in live} :
        LET at == {r \in live : Bottleneck[r] = b} IN
        /\ at \cap (hit \cup recent) = {}
        /\ hit \subseteq hit' /\ hit' \ hit \subseteq at
        /\ Cardinality(at \ hit') <= (IF Missing THEN 1 ELSE 0)
CongestionsReachAll ==
    [][hit' \ hit # {} => /\ Congested
                          /\ Apart => hit \cup recent = {} /\ (\A r \in Subflows : Idle(alone[r])) /\ (\A i \in Sets : Idle(ofset[i]))
                          /\ UNCHANGED <<live, state, members, recent, alone, ofset, budget, passed, used>>]_vars

\* Half a round trip ends for one subflow at a time, and not while a congestion is on its way to its queue.
PastFades ==
    [][live' = live /\ recent \ recent' # {} =>
           \E r \in recent : /\ recent' = recent \ {r} /\ used' = used \ {r} /\ Quiet(r)
                             /\ UNCHANGED <<live, state, members, alone, ofset, hit, budget, passed>>]_vars
Narrows(j, k) == \E r \in j.open : /\ k.waits /\ k.trigger = j.trigger /\ k.seen = j.seen
                                   /\ k.open = j.open \ {r} /\ Quiet(r)
Narrowed(j, k) == live' = live /\ j.waits /\ k.waits /\ k.open # j.open
WindowsClose ==
    [][/\ \A s \in Subflows : Narrowed(alone[s], alone'[s]) =>
              /\ Narrows(alone[s], alone'[s]) /\ \A r \in Subflows : r # s => alone'[r] = alone[r]
              /\ UNCHANGED <<live, state, members, recent, ofset, hit, budget, passed, used>>
       /\ \A i \in Sets : Narrowed(ofset[i], ofset'[i]) =>
              /\ Narrows(ofset[i], ofset'[i]) /\ \A k \in Sets : k # i => ofset'[k] = ofset[k]
              /\ UNCHANGED <<live, state, members, recent, alone, hit, budget, passed, used>>]_vars

\* The first stage: r and the monitored subflows that it saw become the set of the lowest free number, in judgement.
Gathered(r) == {r} \cup {s \in live : s \in alone[r].seen /\ state[s] = "monitor"}
Unused == {i \in Sets : members[i] = {}}
Gathers(r, all) ==
    \E i \in Unused :
        /\ \A k \in Unused : i <= k
        /\ members'[i] = all /\ \A k \in Sets : k # i => members'[k] = members[k] /\ ofset'[k] = ofset[k]
        /\ \A s \in Subflows : IF s \in all THEN state'[s] = "judgement" /\ Forgot(alone'[s])
                               ELSE state'[s] = state[s] /\ alone'[s] = alone[s]
        /\ Forgot(ofset'[i]) /\ passed' = passed \ {i}
        /\ \A s \in Subflows : s \in used' <=> s \in used \/ (s \in all /\ s \in recent)
FirstStage ==
    [][live' = live /\ (\E s \in Subflows : Ends(alone[s], alone'[s])) =>
           \E r \in Subflows :
               /\ Ends(alone[r], alone'[r]) /\ alone[r].open = {} /\ UNCHANGED <<recent, hit, budget>>
               /\ IF Cardinality(Gathered(r)) > 1 /\ Unused # {} THEN Gathers(r, Gathered(r))
                  ELSE /\ Forgot(alone'[r]) /\ \A s \in Subflows : s # r => alone'[s] = alone[s]
                       /\ UNCHANGED <<state, members, ofset, passed, used>>]_vars

\* The second: it holds when no member was silent and no outsider had an event. Who counts as outsider is chosen.
Silent(i) == {s \in members[i] : s # ofset[i].trigger /\ s \notin ofset[i].seen}
Strangers(i) == {s \in ofset[i].seen : s \in live /\ s \notin members[i] /\ (Outsiders = "any" \/ state[s] = "monitor")}
SecondStage ==
    [][\A i \in Sets : live' = live /\ Ends(ofset[i], ofset'[i]) =>
           LET holds == Silent(i) = {} /\ Strangers(i) = {} IN
           /\ ofset[i].open = {} /\ Forgot(ofset'[i])
           /\ \A s \in Subflows : state'[s] = IF s \notin members[i] THEN state[s] ELSE IF holds THEN "final" ELSE "monitor"
           /\ members'[i] = (IF holds THEN members[i] ELSE {})
           /\ i \in passed' <=> holds
           /\ \A k \in Sets : k # i => members'[k] = members[k] /\ ofset'[k] = ofset[k] /\ (k \in passed' <=> k \in passed)
           /\ UNCHANGED <<recent, alone, hit, budget, used>>]_vars

\* No decision asks about a closed subflow, or has seen it; its own decision is dropped; its partner alone is no set.
Without(j, k, r) ==
    IF j.waits /\ j.trigger # r
    THEN k.waits /\ k.trigger = j.trigger /\ k.seen = j.seen \ {r} /\ k.open = j.open \ {r}
    ELSE Forgot(k)
Comes(r) == /\ r \notin live /\ live' = live \cup {r} /\ Left("join")
            /\ UNCHANGED <<state, members, recent, alone, ofset, hit, passed, used>>
Goes(r) ==
    /\ r \in live /\ live' = live \ {r} /\ Left("close")
    /\ recent' = recent \ {r} /\ hit' = hit \ {r} /\ used' = used \ {r}
    /\ \A s \in Subflows : IF s = r THEN Forgot(alone'[s]) ELSE Without(alone[s], alone'[s], r)
    /\ \A i \in Sets :
           LET ended == Cardinality(members[i]) = 2 /\ r \in members[i] IN
           /\ members'[i] = (IF ended THEN {} ELSE members[i] \ {r})
           /\ IF ended THEN Forgot(ofset'[i]) ELSE Without(ofset[i], ofset'[i], r)
           /\ i \in passed' <=> i \in passed /\ ~ ended
           /\ \A s \in members[i] : s # r => state'[s] = IF ended THEN "monitor" ELSE state[s]
    /\ state'[r] = "monitor" /\ \A s \in Subflows : s # r /\ state[s] = "monitor" => state'[s] = "monitor"
ComesAndGoes == [][live' # live => \E r \in Subflows : Comes(r) \/ Goes(r)]_vars

\* Nothing else changes any of it.
OnlyForACause ==
    [][LET ended == (\E s \in Subflows : Ends(alone[s], alone'[s])) \/ (\E i \in Sets : Ends(ofset[i], ofset'[i])) IN
       /\ (state' # state \/ members' # members \/ passed' # passed) => ended \/ live' # live
       /\ (\E s \in Subflows : Idle(alone[s]) /\ alone'[s].waits) \/ (\E i \in Sets : Idle(ofset[i]) /\ ofset'[i].waits) => Eventful
       /\ (\E s \in Subflows : alone'[s].seen \ alone[s].seen # {}) \/ (\E i \in Sets : ofset'[i].seen \ ofset[i].seen # {}) => Eventful
       /\ (recent' \ recent # {} \/ (used' # used /\ recent' = recent /\ ~ ended)) => Eventful
       /\ budget' # budget => Eventful \/ live' # live]_vars

\* What must be possible: a mark wherever one is under way or noise is left, a loss where a mark came before it, the
\* end of a half that nothing is under way to, a decision whose windows are over, a join, a close, a congestion.
Possible ==
    /\ \A r \in live : r \in hit \/ budget.noise > 0 => ENABLED Ece(r)
    /\ \A r \in live : (IF r \in hit THEN \E q \in recent : Bottleneck[q] = Bottleneck[r] /\ q \notin hit ELSE budget.noise > 0)
                       => ENABLED Loss(r)
    /\ \A r \in recent : Quiet(r) => ENABLED (Fade(r) /\ recent' # recent)
    /\ \A s \in Subflows : \A r \in alone[s].open : Quiet(r) => ENABLED (CloseAlone(s, r) /\ alone'[s] # alone[s])
    /\ \A i \in Sets : \A r \in ofset[i].open : Quiet(r) => ENABLED (CloseSet(i, r) /\ ofset'[i] # ofset[i])
    /\ \A r \in Subflows : alone[r].open = {} /\ alone[r].waits => ENABLED (JudgeAlone(r) /\ ~ alone'[r].waits)
    /\ \A i \in Sets : ofset[i].open = {} /\ ofset[i].waits => ENABLED (JudgeSet(i) /\ ~ ofset'[i].waits)
    /\ \A r \in Subflows : IF r \in live THEN budget.close > 0 => ENABLED Leave(r) ELSE budget.join > 0 => ENABLED Join(r)
    /\ \A b \in {Bottleneck[r] : r \in live} :
           LET at == {r \in live : Bottleneck[r] = b}
               apart == hit \cup recent = {} /\ (\A r \in Subflows : Idle(alone[r])) /\ (\A i \in Sets : Idle(ofset[i]))
           IN at \cap (hit \cup recent) = {} /\ (Apart => apart) =>
                  /\ ENABLED (Congest(b) /\ hit' = hit \cup at)
                  /\ Missing => \A r \in at : Cardinality(at) > 1 => ENABLED (Congest(b) /\ hit' = hit \cup (at \ {r}))

\* The bottlenecks with two live subflows or more.
True == {Through(b) : b \in {"A", "B", "C"}}
Right ==
    /\ {members[i] : i \in Sets} \ {{}} = {t \in True : Cardinality(t) >= 2}
    /\ \A r \in live : (state[r] = "final") = (Cardinality(Through(Bottleneck[r])) >= 2)

\* From any state: after noise, joins and closes end, the subflows that share a bottleneck are final together, and no others.
Settles == <>[]Right
DecisionsEnd == \A r \in Subflows : alone[r].waits ~> ~ alone[r].waits

(* Desirable properties that the algorithm does not have: pinned as violated. *)

\* Two coincidences are enough for a final set of subflows that share nothing.
FinalTrue == \A i \in passed : \A r, s \in members[i] : Bottleneck[r] = Bottleneck[s]
\* A true final set stays while nothing but its own and other bottlenecks' congestion happens.
FinalStays ==
    [][\A i \in Sets : (i \in passed /\ members[i] \in True /\ live' = live) => members'[i] = members[i]]_vars
\* The second stage uses other events than the first.
FreshEvidence ==
    [][\A i \in Sets : (~ ofset[i].waits /\ ofset'[i].waits /\ i \notin passed) => ofset'[i].seen \cap used = {}]_vars
=============================================================================
