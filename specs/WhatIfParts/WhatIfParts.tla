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
    fit,      \* the state of the row in `fits`
    what,     \* the states of the rows in `whatifs`
    jobs,     \* rows of `jobs`: of what, which part, whether it runs, under which fencing number
    stored,   \* rows of `parts`
    work,     \* each worker: the job that it claimed, its fencing number, and which parts it has read
    twice     \* was a part stored that was there already? The table refuses it; here it must not be tried.

vars == <<fit, what, jobs, stored, work, twice>>

Fit == "fit"
Subjects == WhatIfs \cup {Fit}
States == {"absent", "open", "done", "failed"}    \* open: queued or running

StateOf(x) == IF x = Fit THEN fit ELSE what[x]
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

Row(x, b, p) == [of |-> x, batch |-> b, part |-> p]
\* What is still to be simulated of a fit or what-if, where these rows are there. Batches follow one another: the rows of
\* one are needed to know the next.
Missing(x, b, rows) == {p \in 1..Parts : Row(x, b, p) \notin rows}
OpenBatches(x, rows) == {b \in 1..Batches : Missing(x, b, rows) # {}}
Current(x, rows) == CHOOSE b \in OpenBatches(x, rows) : \A c \in OpenBatches(x, rows) : b <= c
Whole(x, rows) == OpenBatches(x, rows) = {}

\* What-ifs that have no job: they wait for the fit.
Waiting == {x \in WhatIfs : what[x] = "open" /\ JobsOf(x) = {}}

Init ==
    /\ fit = "absent"
    /\ what = [x \in WhatIfs |-> "absent"]
    /\ jobs = {} /\ stored = {}
    /\ work = [w \in Workers |-> Idle]
    /\ twice = FALSE

-----------------------------------------------------------------------------
(* Requests: api/whatifs/service.py. *)

\* The same question again changes nothing, unless the what-if has failed (_begin_anew).
Ask(x) ==
    /\ what[x] \in {"absent", "failed"}
    /\ what' = [what EXCEPT ![x] = "open"]
    /\ jobs' = (jobs \ JobsOf(x)) \cup {NewFinder(x)}
    /\ UNCHANGED <<fit, stored, work, twice>>

\* remove_all: a fit that is not done goes with the last what-if that waits for it.
Remove(x) ==
    LET gone == {x} \cup (IF fit \in {"open", "failed"} /\ \A y \in WhatIfs \ {x} : what[y] # "open" THEN {Fit} ELSE {})
    IN
    /\ what[x] # "absent"
    /\ what' = [what EXCEPT ![x] = "absent"]
    /\ fit' = IF Fit \in gone THEN "absent" ELSE fit
    /\ jobs' = {j \in jobs : j.of \notin gone}
    /\ stored' = {p \in stored : p.of \notin gone}
    /\ UNCHANGED <<work, twice>>

-----------------------------------------------------------------------------
(* Jobs: store/jobs.py. *)

Claim(w, j) ==
    /\ work[w] = Idle /\ j.state = "queued"
    /\ jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "running", !.fence = @ + 1, !.attempts = @ + 1]}
    /\ work' = [work EXCEPT ![w] = [Idle EXCEPT !.job = Key(j), !.fence = j.fence + 1]]
    /\ UNCHANGED <<fit, what, stored, twice>>

\* _mark_failed and _fail_with: other jobs of it that run are left to their workers.
Failed(j) ==
    LET x == j.of IN
    /\ jobs' = {k \in jobs : k # j /\ ~ (k.of = x /\ k.state = "queued")}
    /\ IF x = Fit
       THEN /\ fit' = "failed"
            /\ what' = [y \in WhatIfs |-> IF y \in Waiting THEN "failed" ELSE what[y]]
       ELSE /\ what' = [what EXCEPT ![x] = "failed"]
            /\ fit' = fit
    /\ UNCHANGED <<stored, twice>>

\* A lease runs out, whether its worker is dead or slow (jobs.sweep).
Expire(j) ==
    /\ j.state = "running"
    /\ IF j.attempts < AttemptsMax
       THEN /\ jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "queued"]}
            /\ UNCHANGED <<fit, what, stored, twice>>
       ELSE Failed(j)
    /\ UNCHANGED work

Die(w) ==
    /\ work[w] # Idle
    /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<fit, what, jobs, stored, twice>>

\* The jobs that this worker holds: one at most. What jobs.hold asks for.
Holds(w) ==
    {j \in jobs : Key(j) = work[w].job /\ ("unfenced" \in Defects \/ (j.fence = work[w].fence /\ j.state = "running"))}

\* JobLost: somebody else has the job, or it was deleted.
Notice(w) ==
    /\ work[w] # Idle /\ Holds(w) = {}
    /\ work' = [work EXCEPT ![w] = Idle]
    /\ UNCHANGED <<fit, what, jobs, stored, twice>>

Leaves(w) == work' = [work EXCEPT ![w] = Idle]

\* An error: jobs.release gives the job back while an attempt is left; jobs.fail does not.
Err(w, j) ==
    /\ \/ /\ j.attempts < AttemptsMax
          /\ jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "queued"]}
          /\ UNCHANGED <<fit, what, stored, twice>>
       \/ Failed(j)
    /\ Leaves(w)

-----------------------------------------------------------------------------
(* Parts: store/parts.py, worker/what_if.py. *)

\* hold says no, leave_failed: the last one that leaves a fit begins it anew for those that were asked for meanwhile.
LeaveFailed(w, j) ==
    LET anew == /\ "nobody_begins_anew" \notin Defects
                /\ j.of = Fit /\ JobsOf(Fit) = {j} /\ Waiting # {}
    IN
    /\ StateOf(j.of) = "failed"
    /\ jobs' = (jobs \ {j}) \cup (IF anew THEN {NewFinder(Fit)} ELSE {})
    /\ fit' = IF anew THEN "open" ELSE fit
    /\ Leaves(w)
    /\ UNCHANGED <<what, stored, twice>>

Stores(x, b, p) ==
    /\ stored' = stored \cup {Row(x, b, p)}
    /\ twice' = (twice \/ Row(x, b, p) \in stored)

\* publish and end_part: the last part of a batch adds the job that finds out what comes next.
StorePart(w, j) ==
    /\ StateOf(j.of) = "open" /\ j.part # 0
    /\ Stores(j.of, j.batch, j.part)
    /\ jobs' = (jobs \ {j}) \cup (IF JobsOf(j.of) = {j} THEN {NewFinder(j.of)} ELSE {})
    /\ Leaves(w)
    /\ UNCHANGED <<fit, what>>

\* fit_for: the fit is not done, and this job ends. Somebody works on the fit, or this begins it.
NeedFit(w, j) ==
    LET begins == JobsOf(Fit) = {} IN
    /\ StateOf(j.of) = "open" /\ j.part = 0 /\ j.of # Fit /\ fit # "done"
    /\ jobs' = (jobs \ {j}) \cup (IF begins THEN {NewFinder(Fit)} ELSE {})
    /\ fit' = IF begins THEN "open" ELSE fit
    /\ Leaves(w)
    /\ UNCHANGED <<what, stored, twice>>

\* A job that finds out reads the stored parts once. It locks nothing, so it may have lost its job by then.
Read(w) ==
    /\ work[w] # Idle /\ work[w].job.part = 0 /\ ~ work[w].hasRead
    /\ work' = [work EXCEPT ![w].hasRead = TRUE, ![w].read = {p \in stored : p.of = work[w].job.of}]
    /\ UNCHANGED <<fit, what, jobs, stored, twice>>

FindsOut(w, j) == StateOf(j.of) = "open" /\ j.part = 0 /\ (j.of = Fit \/ fit = "done") /\ work[w].hasRead

\* For about a second the job that finds out simulates, too: the first runs that are missing.
Simulate(w, j) ==
    LET read == work[w].read
        b == Current(j.of, read)
        missing == Missing(j.of, b, read)
        p == CHOOSE p \in missing : \A q \in missing : p <= q
    IN
    /\ FindsOut(w, j) /\ ~ Whole(j.of, read)
    /\ Stores(j.of, b, p)
    /\ work' = [work EXCEPT ![w].read = @ \cup {Row(j.of, b, p)}]
    /\ UNCHANGED <<fit, what, jobs>>

HandOut(w, j) ==
    LET b == Current(j.of, work[w].read) IN
    /\ FindsOut(w, j) /\ ~ Whole(j.of, work[w].read)
    /\ jobs' = (jobs \ {j}) \cup {New(j.of, b, p) : p \in Missing(j.of, b, work[w].read)}
    /\ Leaves(w)
    /\ UNCHANGED <<fit, what, stored, twice>>

\* end_fit: each what-if that waits gets a job.
EndFit(w, j) ==
    /\ FindsOut(w, j) /\ j.of = Fit /\ Whole(Fit, work[w].read)
    /\ fit' = "done"
    /\ jobs' = (jobs \ {j}) \cup {NewFinder(x) : x \in Waiting}
    /\ Leaves(w)
    /\ UNCHANGED <<what, stored, twice>>

EndWhatIf(w, j) ==
    /\ FindsOut(w, j) /\ j.of # Fit /\ Whole(j.of, work[w].read)
    /\ what' = [what EXCEPT ![j.of] = "done"]
    /\ jobs' = jobs \ {j}
    /\ Leaves(w)
    /\ UNCHANGED <<fit, stored, twice>>

GoesOn(w, j) ==
    \/ LeaveFailed(w, j) \/ StorePart(w, j) \/ NeedFit(w, j) \/ Simulate(w, j) \/ HandOut(w, j) \/ EndFit(w, j)
    \/ EndWhatIf(w, j)

-----------------------------------------------------------------------------

\* Nothing is left to do, and nobody asks: the only state in which the service may stop.
AtRest == jobs = {} /\ (\A w \in Workers : work[w] = Idle) /\ UNCHANGED vars

Next ==
    \/ \E x \in WhatIfs : Ask(x) \/ Remove(x)
    \/ \E w \in Workers : Die(w) \/ Notice(w) \/ Read(w) \/ \E j \in jobs : Claim(w, j)
    \/ \E w \in Workers : \E j \in Holds(w) : GoesOn(w, j) \/ Err(w, j)
    \/ \E j \in jobs : Expire(j)
    \/ AtRest

(* A worker that does not die goes on. A lease that nobody renews runs out. Of the moments at which a worker is free,  *)
(* not all go to other jobs than one that waits: turns are by age (docs/decisions/limits.md).                          *)
Dead(j) == j.state = "running" /\ \A w \in Workers : j \notin Holds(w)
Fairness ==
    /\ \A w \in Workers : WF_vars(Notice(w)) /\ WF_vars(Read(w)) /\ WF_vars(\E j \in Holds(w) : GoesOn(w, j))
    /\ \A x \in Subjects : /\ SF_vars(\E w \in Workers, j \in JobsOf(x) : Claim(w, j))
                           /\ WF_vars(\E j \in JobsOf(x) : Dead(j) /\ Expire(j))
Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* What must hold. *)

TypeOK ==
    /\ fit \in States /\ what \in [WhatIfs -> States] /\ twice \in BOOLEAN
    /\ jobs \subseteq [of: Subjects, batch: 0..Batches, part: 0..Parts, number: 1..9, state: {"queued", "running"},
                       fence: 0..9, attempts: 0..AttemptsMax]
    /\ stored \subseteq [of: Subjects, batch: 1..Batches, part: 1..Parts]

\* Nobody waits for nothing: a what-if that is open has a job, or the fit that it waits for has one.
SomebodyWorks ==
    /\ fit = "open" => JobsOf(Fit) # {}
    /\ \A x \in WhatIfs : what[x] = "open" => JobsOf(x) # {} \/ (fit \in {"open", "failed"} /\ JobsOf(Fit) # {})
\* One job finds out, or several simulate: never both.
OneFindsOut == \A j, k \in jobs : j.of = k.of /\ j.part = 0 => j = k
\* Each part is the work of one job, and of the batch whose turn it is; nothing that is stored is simulated again.
EachPartOnce ==
    /\ \A j, k \in jobs : j.of = k.of /\ j.part = k.part => j = k
    /\ \A j \in jobs : j.part # 0 => /\ Row(j.of, j.batch, j.part) \notin stored
                                    /\ j.batch = Current(j.of, stored)
StoredOnce == ~ twice
\* An answer is made of all runs of the fit and of the prediction.
DoneIsWhole ==
    /\ fit = "done" => Whole(Fit, stored)
    /\ \A x \in WhatIfs : what[x] = "done" => fit = "done" /\ Whole(x, stored)
FitFirst == \A x \in WhatIfs : fit # "done" => {p \in stored : p.of = x} = {} /\ {j \in JobsOf(x) : j.part # 0} = {}
NothingLeft ==
    \A x \in Subjects : /\ StateOf(x) \in {"absent", "done"} => JobsOf(x) = {}
                        /\ StateOf(x) = "absent" => {p \in stored : p.of = x} = {}

DoneIsFinal ==
    [][/\ fit = "done" => fit' = "done"
       /\ \A x \in WhatIfs : what[x] = "done" => what'[x] \in {"done", "absent"}]_vars
\* What was simulated is not lost: parts go only with what they are of.
PartsStay == [][\A p \in stored : p \in stored' \/ StateOf(p.of)' = "absent"]_vars
\* A fit that fails fails those that wait for it, and only those.
FailsTogether ==
    [][fit # "failed" /\ fit' = "failed" => \A x \in WhatIfs : what'[x] = IF x \in Waiting THEN "failed" ELSE what[x]]_vars

EveryWhatIfEnds == \A x \in WhatIfs : what[x] = "open" ~> what[x] # "open"
=============================================================================
