----------------------------- MODULE WhatIfParts -----------------------------
(***************************************************************************)
(* How the what-ifs of one connection are simulated in parts, by whichever *)
(* workers are free (store/parts.py, docs/decisions/parts.md).             *)
(*                                                                         *)
(* All what-ifs of a connection need the same fit. The fit, and then each  *)
(* what-if, is a few batches of simulated runs, one after the other, and a *)
(* batch is cut into parts. A job either finds out what is to be simulated *)
(* next (it has no part), or simulates one part. A what-if that needs the  *)
(* fit has no job while it waits for it.                                   *)
(*                                                                         *)
(* One step is one transaction. Each of a worker's locks its job, then the *)
(* row of its fit or what-if, and writes only what these two locks, or the *)
(* lock of the fit that it waits for, keep others from writing. A request  *)
(* locks its team and the jobs that it deletes. Leases, fencing numbers    *)
(* and pauses are those of JobLifecycle, wake-ups too: here a job that     *)
(* waits may be claimed.                                                   *)
(*                                                                         *)
(* A process keeps the fit that it worked on last, and need not read it    *)
(* again. What it keeps follows from the capture alone, so it is left out. *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    WhatIfs,       \* the questions of one connection
    Workers,
    Batches,       \* of the fit, and of each what-if
    Parts,         \* that a batch is cut into
    AttemptsMax,   \* settings().attempts_max
    Defects        \* faults of the service that this specification found, by name; {}: the service as it is

ASSUME /\ Batches \in 1..9 /\ Parts \in 1..9 /\ AttemptsMax \in 1..9
       /\ Defects \subseteq {"nobody_begins_anew", "unfenced"}

VARIABLES
    state,    \* the states of the row in `fits` and of those in `whatifs`
    jobs,     \* rows of `jobs`: of what, which part, whether it runs, under which fencing number
    stored,   \* rows of `parts`
    work      \* each worker: the job that it claimed, its fencing number, and which parts it has read

vars == <<state, jobs, stored, work>>

Fit == "fit"
Subjects == WhatIfs \cup {Fit}
States == {"absent", "open", "done", "failed"}    \* open: queued or running

JobsOf(x) == {j \in jobs : j.of = x}
\* What a worker remembers of a job: its row's id. Ids are not used again.
Key(j) == [of |-> j.of, batch |-> j.batch, part |-> j.part, number |-> j.number]
Idle == [job |-> [of |-> Fit, batch |-> 0, part |-> 0, number |-> 0], fence |-> 0, hasRead |-> FALSE, read |-> {}]

\* Numbers of the jobs of one part, or of those that find out (part 0), which somebody knows.
Known(x, b, p) ==
    {j.number : j \in {j \in jobs : j.of = x /\ j.batch = b /\ j.part = p}}
    \cup {work[w].job.number : w \in {w \in Workers : work[w].job.of = x /\ work[w].job.batch = b /\ work[w].job.part = p}}
New(x, b, p) ==
    [of |-> x, batch |-> b, part |-> p, state |-> "queued", fence |-> 0, attempts |-> 0,
     number |-> CHOOSE n \in 1..(Cardinality(Known(x, b, p)) + 1) : n \notin Known(x, b, p)]
NewFinder(x) == New(x, 0, 0)

Min(numbers) == IF numbers = {} THEN 0 ELSE CHOOSE n \in numbers : \A m \in numbers : n <= m
Row(x, b, p) == [of |-> x, batch |-> b, part |-> p]
\* What is still to be simulated of a fit or what-if, where these rows are there. Batches follow one another: the rows of
\* one are needed to know the next.
Missing(x, b, rows) == {p \in 1..Parts : Row(x, b, p) \notin rows}
OpenBatches(x, rows) == {b \in 1..Batches : Missing(x, b, rows) # {}}
Current(x, rows) == Min(OpenBatches(x, rows))
Whole(x, rows) == OpenBatches(x, rows) = {}

\* What-ifs that have no job: they wait for the fit.
Waiting == {x \in WhatIfs : state[x] = "open" /\ JobsOf(x) = {}}

Init ==
    /\ state = [x \in Subjects |-> "absent"]
    /\ jobs = {} /\ stored = {}
    /\ work = [w \in Workers |-> Idle]

-----------------------------------------------------------------------------
(* Requests: api/whatifs/service.py. *)

\* The same question again changes nothing, unless the what-if has failed (_begin_anew).
Ask(x) ==
    /\ state[x] \in {"absent", "failed"}
    /\ state' = [state EXCEPT ![x] = "open"]
    /\ jobs' = (jobs \ JobsOf(x)) \cup {NewFinder(x)}
    /\ UNCHANGED <<stored, work>>

\* remove_all: a fit that is not done goes with the last what-if that waits for it.
Remove(x) ==
    LET gone == {x} \cup (IF state[Fit] # "done" /\ \A y \in WhatIfs \ {x} : state[y] # "open" THEN {Fit} ELSE {}) IN
    /\ state[x] # "absent"
    /\ state' = [y \in Subjects |-> IF y \in gone THEN "absent" ELSE state[y]]
    /\ jobs' = {j \in jobs : j.of \notin gone}
    /\ stored' = {p \in stored : p.of \notin gone}
    /\ UNCHANGED work

-----------------------------------------------------------------------------
(* Jobs: store/jobs.py. *)

Claim(w, j) ==
    /\ work[w] = Idle /\ j.state = "queued"
    /\ jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "running", !.fence = @ + 1, !.attempts = @ + 1]}
    /\ work' = [work EXCEPT ![w] = [Idle EXCEPT !.job = Key(j), !.fence = j.fence + 1]]
    /\ UNCHANGED <<state, stored>>

\* _mark_failed and _fail_with: other jobs of it that run are left to their workers.
Failed(j) ==
    /\ jobs' = {k \in jobs : k # j /\ ~ (k.of = j.of /\ k.state = "queued")}
    /\ state' = [x \in Subjects |-> IF x = j.of \/ (j.of = Fit /\ x \in Waiting) THEN "failed" ELSE state[x]]
    /\ UNCHANGED stored

\* A lease runs out, whether its worker is dead or slow (jobs.sweep).
Expire(j) ==
    /\ j.state = "running"
    /\ IF j.attempts < AttemptsMax
       THEN /\ jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "queued"]}
            /\ UNCHANGED <<state, stored>>
       ELSE Failed(j)
    /\ UNCHANGED work

\* The jobs that this worker holds: one at most. What jobs.hold asks for.
Holds(w) ==
    {j \in jobs : Key(j) = work[w].job /\ ("unfenced" \in Defects \/ (j.fence = work[w].fence /\ j.state = "running"))}

\* A worker dies; or it notices that somebody else has its job, or that the job was deleted (JobLost).
Stop(w) ==
    /\ work[w] # Idle
    /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<state, jobs, stored>>

Leaves(w) == work' = [work EXCEPT ![w] = Idle]

\* An error: jobs.release gives the job back while an attempt is left; jobs.fail does not.
Err(w, j) ==
    /\ \/ /\ j.attempts < AttemptsMax
          /\ jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "queued"]}
          /\ UNCHANGED <<state, stored>>
       \/ Failed(j)
    /\ Leaves(w)

-----------------------------------------------------------------------------
(* Parts: store/parts.py, worker/what_if.py. *)

Leave(w, j, new) == jobs' = (jobs \ {j}) \cup new /\ Leaves(w)

\* hold says no, leave_failed: the last one that leaves a fit begins it anew for those that were asked for meanwhile.
LeaveFailed(w, j) ==
    LET anew == "nobody_begins_anew" \notin Defects /\ JobsOf(Fit) = {j} /\ Waiting # {} IN
    /\ state[j.of] = "failed"
    /\ Leave(w, j, IF anew THEN {NewFinder(Fit)} ELSE {})
    /\ state' = [state EXCEPT ![Fit] = IF anew THEN "open" ELSE @]
    /\ UNCHANGED stored

\* publish and end_part: the last part of a batch adds the job that finds out what comes next.
StorePart(w, j) ==
    /\ state[j.of] = "open" /\ j.part # 0
    /\ stored' = stored \cup {Row(j.of, j.batch, j.part)}
    /\ Leave(w, j, IF JobsOf(j.of) = {j} THEN {NewFinder(j.of)} ELSE {})
    /\ UNCHANGED state

\* fit_for: the fit is not done, and this job ends. Somebody works on the fit, or this begins it.
NeedFit(w, j) ==
    /\ state[j.of] = "open" /\ j.of # Fit /\ state[Fit] # "done"
    /\ Leave(w, j, IF JobsOf(Fit) = {} THEN {NewFinder(Fit)} ELSE {})
    /\ state' = [state EXCEPT ![Fit] = IF JobsOf(Fit) = {} THEN "open" ELSE @]
    /\ UNCHANGED stored

\* A job that finds out reads the stored parts once. It locks nothing, so it may have lost its job by then.
Read(w) ==
    /\ work[w] # Idle /\ work[w].job.part = 0 /\ ~ work[w].hasRead
    /\ work' = [work EXCEPT ![w].hasRead = TRUE, ![w].read = {p \in stored : p.of = work[w].job.of}]
    /\ UNCHANGED <<state, jobs, stored>>

FindsOut(w, j) == state[j.of] = "open" /\ work[w].hasRead /\ (j.of = Fit \/ state[Fit] = "done")

\* For about a second the job that finds out simulates, too: the first runs that are missing.
Simulate(w, j) ==
    LET read == work[w].read
        b == Current(j.of, read)
        row == Row(j.of, b, Min(Missing(j.of, b, read)))
    IN
    /\ FindsOut(w, j) /\ ~ Whole(j.of, read)
    /\ stored' = stored \cup {row}
    /\ work' = [work EXCEPT ![w].read = @ \cup {row}]
    /\ UNCHANGED <<state, jobs>>

HandOut(w, j) ==
    LET b == Current(j.of, work[w].read) IN
    /\ FindsOut(w, j) /\ ~ Whole(j.of, work[w].read)
    /\ Leave(w, j, {New(j.of, b, p) : p \in Missing(j.of, b, work[w].read)})
    /\ UNCHANGED <<state, stored>>

\* end_fit and end_whatif: each what-if that waits for the fit gets a job.
End(w, j) ==
    /\ FindsOut(w, j) /\ Whole(j.of, work[w].read)
    /\ state' = [state EXCEPT ![j.of] = "done"]
    /\ Leave(w, j, IF j.of = Fit THEN {NewFinder(x) : x \in Waiting} ELSE {})
    /\ UNCHANGED stored

GoesOn(w, j) ==
    LeaveFailed(w, j) \/ StorePart(w, j) \/ NeedFit(w, j) \/ Simulate(w, j) \/ HandOut(w, j) \/ End(w, j)

-----------------------------------------------------------------------------

\* Nothing is left to do, and nobody asks: the only state in which the service may stop.
AtRest == jobs = {} /\ (\A w \in Workers : work[w] = Idle) /\ UNCHANGED vars

Next ==
    \/ \E x \in WhatIfs : Ask(x) \/ Remove(x)
    \/ \E w \in Workers : Stop(w) \/ Read(w) \/ \E j \in jobs : Claim(w, j)
    \/ \E w \in Workers : \E j \in Holds(w) : GoesOn(w, j) \/ Err(w, j)
    \/ \E j \in jobs : Expire(j)
    \/ AtRest

(* A worker that does not die goes on, and stops where it has lost its job. A lease that nobody renews runs out. Of the moments at which a worker is free,  *)
(* not all go to other jobs than one that waits: turns are by age (docs/decisions/limits.md).                          *)
Dead(j) == j.state = "running" /\ \A w \in Workers : j \notin Holds(w)
Fairness ==
    /\ \A w \in Workers : /\ WF_vars(Holds(w) = {} /\ Stop(w))
                          /\ WF_vars(Read(w)) /\ WF_vars(\E j \in Holds(w) : GoesOn(w, j))
    /\ \A x \in Subjects : /\ SF_vars(\E w \in Workers, j \in JobsOf(x) : Claim(w, j))
                           /\ WF_vars(\E j \in JobsOf(x) : Dead(j) /\ Expire(j))
Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* What must hold. *)

TypeOK ==
    /\ state \in [Subjects -> States]
    /\ jobs \subseteq [of: Subjects, batch: 0..Batches, part: 0..Parts, number: 1..9, state: {"queued", "running"},
                       fence: 0..9, attempts: 0..AttemptsMax]
    /\ stored \subseteq [of: Subjects, batch: 1..Batches, part: 1..Parts]

\* Nobody waits for nothing: a what-if that is open has a job, or the fit that it waits for has one.
SomebodyWorks ==
    /\ state[Fit] = "open" => JobsOf(Fit) # {}
    /\ \A x \in WhatIfs :
          state[x] = "open" => JobsOf(x) # {} \/ (state[Fit] \in {"open", "failed"} /\ JobsOf(Fit) # {})
\* One job finds out, or several simulate: never both.
OneFindsOut == \A j, k \in jobs : j.of = k.of /\ j.part = 0 => j = k
\* Each part is the work of one job, and of the batch whose turn it is; nothing that is stored is simulated again.
EachPartOnce ==
    /\ \A j, k \in jobs : j.of = k.of /\ j.part = k.part => j = k
    /\ \A j \in jobs : j.part # 0 => /\ Row(j.of, j.batch, j.part) \notin stored
                                    /\ j.batch = Current(j.of, stored)
\* Who may still hand out, store or end knows all that is stored.
KnowsWhatIsStored ==
    \A w \in Workers : \A j \in Holds(w) : work[w].hasRead => work[w].read = {p \in stored : p.of = j.of}
\* An answer is made of all runs of the fit and of the prediction.
DoneIsWhole == \A x \in Subjects : state[x] = "done" => state[Fit] = "done" /\ Whole(x, stored)
FitFirst ==
    \A x \in WhatIfs : state[Fit] # "done" => {p \in stored : p.of = x} = {} /\ {j \in JobsOf(x) : j.part # 0} = {}
NothingLeft ==
    \A x \in Subjects : /\ state[x] \in {"absent", "done"} => JobsOf(x) = {}
                        /\ state[x] = "absent" => {p \in stored : p.of = x} = {}

DoneIsFinal ==
    [][/\ state[Fit] = "done" => state'[Fit] = "done"
       /\ \A x \in WhatIfs : state[x] = "done" => state'[x] \in {"done", "absent"}]_vars
\* What was simulated is not lost: parts go only with what they are of.
PartsStay == [][\A p \in stored : p \in stored' \/ state'[p.of] = "absent"]_vars
\* A fit that fails fails those that wait for it, and only those.
FailsTogether ==
    [][state[Fit] # "failed" /\ state'[Fit] = "failed" =>
           \A x \in WhatIfs : state'[x] = IF x \in Waiting THEN "failed" ELSE state[x]]_vars

EveryWhatIfEnds == \A x \in WhatIfs : state[x] = "open" ~> state[x] # "open"
=============================================================================
