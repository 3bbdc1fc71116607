---------------------------- MODULE WhatIfPartsSteps ----------------------------
(***************************************************************************)
(* What each step of WhatIfParts may change, and when it must be possible. *)
(* The actions are written by what happens; these properties are written   *)
(* by who moves, and which rows are there afterwards: each sorts the jobs   *)
(* into those that stay, go and come. `make specs-mutants` judges with     *)
(* them. They write out whom they speak of, so that a mistake in a          *)
(* definition which the actions share is seen, too.                        *)
(***************************************************************************)
EXTENDS MCWhatIfParts

Shallow == TLCGet("level") <= 14
Near == TLCGet("level") <= 6

Free == [job |-> [of |-> "fit", batch |-> 0, part |-> 0, number |-> 0], fence |-> 0, hasRead |-> FALSE, read |-> {}]

\* A fit has failed while parts of it ran, whose worker died since.
JudgeFailed ==
    /\ state = [x \in Subjects |-> "failed"] /\ stored = {}
    /\ \E parts \in {{1}, {1, 2}} :
          jobs = {[of |-> "fit", batch |-> 1, part |-> p, number |-> 1, state |-> "queued", fence |-> 1, attempts |-> 1] :
                  p \in parts}
    /\ work = [w \in Workers |-> Free]

Own(x) == {j \in jobs : j.of = x}
Rows(x) == {p \in stored : p.of = x}
\* What-ifs that are open and that no job is about.
Parked == {x \in WhatIfs : <<state[x], Own(x)>> = <<"open", {}>>}

\* Part p of batch b, in the order in which they are simulated.
Order == [i \in 1..(Batches * Parts) |-> <<((i - 1) \div Parts) + 1, ((i - 1) % Parts) + 1>>]
Place(b, p) == (b - 1) * Parts + p
\* How many of the first ones there are; the first that is not there, and those of its batch.
Absent(x, rows) == {i \in DOMAIN Order : [of |-> x, batch |-> Order[i][1], part |-> Order[i][2]] \notin rows}
First(x, rows) == CHOOSE i \in Absent(x, rows) : \A k \in Absent(x, rows) : i <= k
RestOfBatch(x, rows) == {Order[i] : i \in {i \in Absent(x, rows) : Order[i][1] = Order[First(x, rows)][1]}}

\* Jobs that a step adds are new: nobody knows their numbers, and nobody has tried them.
Known2(x, b, p) ==
    {n \in 1..9 : \/ \E j \in jobs : <<j.of, j.batch, j.part, j.number>> = <<x, b, p, n>>
                  \/ \E w \in Workers : work[w].job = [of |-> x, batch |-> b, part |-> p, number |-> n]}
IsNew(j) == /\ j.number \notin Known2(j.of, j.batch, j.part)
            /\ <<j.state, j.fence, j.attempts>> = <<"queued", 0, 0>>
\* The jobs afterwards: those that stay as they are, and new ones of these parts, one for each.
Become(stay, new) ==
    /\ stay \subseteq jobs'
    /\ \A j \in jobs' \ stay : IsNew(j)
    /\ {<<j.of, j.batch, j.part>> : j \in jobs' \ stay} = new
    /\ Cardinality(jobs' \ stay) = Cardinality(new)
Finder(x) == <<x, 0, 0>>

\* The job that a worker works on, where it is still its own.
Mine(w) == {j \in jobs : /\ [of |-> j.of, batch |-> j.batch, part |-> j.part, number |-> j.number] = work[w].job
                         /\ <<j.state, j.fence>> = <<"running", work[w].fence>>}
OnlyWork(w) == \A v \in Workers \ {w} : work'[v] = work[v]

\* The rows of jobs and of what they are about, after a job has failed for good.
FailsFor(j) ==
    /\ jobs' = {k \in jobs : IF k.of = j.of THEN k.state = "running" /\ k # j ELSE TRUE}
    /\ state'[j.of] = "failed"
    /\ \A x \in WhatIfs : x # j.of => state'[x] = IF x \in Parked /\ j.of = "fit" THEN "failed" ELSE state[x]
    /\ j.of # "fit" => state'["fit"] = state["fit"]
    /\ stored' = stored
Given(j) == jobs' = (jobs \ {j}) \cup {[j EXCEPT !.state = "queued"]}
LeaseOver(j) == IF j.attempts + 1 <= AttemptsMax THEN Given(j) /\ UNCHANGED <<state, stored>> ELSE FailsFor(j)

-----------------------------------------------------------------------------
(* What is there after a step of a worker that has a job, by the job. *)

\* Only this one's state changes, if any.
Becomes(x, new) == \A y \in DOMAIN state : state'[y] = IF y = x THEN new ELSE state[y]

EndsOfFailed(j) ==
    LET last == Own("fit") = {j} /\ Parked # {} IN
    /\ Become(jobs \ {j}, IF last THEN {Finder("fit")} ELSE {})
    /\ Becomes("fit", IF last THEN "open" ELSE state["fit"]) /\ UNCHANGED stored
EndsOfPart(j) ==
    /\ Become(jobs \ {j}, IF Own(j.of) = {j} THEN {Finder(j.of)} ELSE {})
    /\ stored' = stored \cup {[of |-> j.of, batch |-> j.batch, part |-> j.part]} /\ UNCHANGED state
EndsWithoutFit(j) ==
    /\ Become(jobs \ {j}, IF Own("fit") = {} THEN {Finder("fit")} ELSE {})
    /\ Becomes("fit", IF Own("fit") = {} THEN "open" ELSE state["fit"]) /\ UNCHANGED stored
HandsOut(w, j) ==
    /\ Become(jobs \ {j}, {<<j.of, r[1], r[2]>> : r \in RestOfBatch(j.of, work[w].read)})
    /\ UNCHANGED <<state, stored>>
EndsOfAll(j) ==
    /\ Become(jobs \ {j}, IF j.of = "fit" THEN {Finder(x) : x \in Parked} ELSE {})
    /\ Becomes(j.of, "done") /\ UNCHANGED stored

IsFailed(j) == state[j.of] = "failed"
IsPart(j) == state[j.of] = "open" /\ j.part > 0
LacksFit(j) == j.of \in WhatIfs /\ state[j.of] = "open" /\ j.part < 1 /\ state["fit"] \in {"absent", "open", "failed"}
LooksOn(w, j) == state[j.of] = "open" /\ j.part < 1 /\ ~ LacksFit(j) /\ work[w].hasRead
Lacks(w, j) == LooksOn(w, j) /\ Absent(j.of, work[w].read) # {}
HasAll(w, j) == LooksOn(w, j) /\ Absent(j.of, work[w].read) = {}

\* A worker that becomes free has died or lost its job, or ended it in one of these ways, or gave it back.
Freed(w) ==
    work'[w] = Free =>
        /\ OnlyWork(w)
        /\ \/ UNCHANGED <<state, jobs, stored>>
           \/ \E j \in Mine(w) :
                 \/ IsFailed(j) /\ EndsOfFailed(j)
                 \/ IsPart(j) /\ EndsOfPart(j)
                 \/ LacksFit(j) /\ EndsWithoutFit(j)
                 \/ Lacks(w, j) /\ HandsOut(w, j)
                 \/ HasAll(w, j) /\ EndsOfAll(j)
                 \/ j.attempts + 1 <= AttemptsMax /\ Given(j) /\ UNCHANGED <<state, stored>>
                 \/ FailsFor(j)
\* One that has a job afterwards has taken it, or read, or simulated the first part that it found missing.
Busy(w) ==
    work'[w] # Free =>
        /\ OnlyWork(w) /\ UNCHANGED state
        /\ \/ /\ work[w] = Free /\ stored' = stored
              /\ \E j \in jobs : LET ran == [j EXCEPT !.state = "running", !.fence = j.fence + 1,
                                                     !.attempts = j.attempts + 1] IN
                    /\ j.state = "queued" /\ jobs' = {k \in jobs : k # j} \cup {ran}
                    /\ work'[w] = [job |-> [of |-> j.of, batch |-> j.batch, part |-> j.part, number |-> j.number],
                                   fence |-> ran.fence, hasRead |-> FALSE, read |-> {}]
           \/ /\ work[w] # Free /\ work[w].job.part = 0 /\ ~ work[w].hasRead /\ UNCHANGED <<jobs, stored>>
              /\ work'[w] = [job |-> work[w].job, fence |-> work[w].fence, hasRead |-> TRUE, read |-> Rows(work[w].job.of)]
           \/ \E j \in Mine(w) :
                 LET first == Order[First(j.of, work[w].read)]
                     row == [of |-> j.of, batch |-> first[1], part |-> first[2]]
                 IN
                 /\ Lacks(w, j) /\ jobs' = jobs
                 /\ stored' \ stored \subseteq {row} /\ stored' = stored \cup {row}
                 /\ work'[w] = [work[w] EXCEPT !.read = work[w].read \cup {row}]
WorkersChange == [][\A w \in Workers : work'[w] # work[w] => Freed(w) /\ Busy(w)]_vars

\* What happens while no worker moves: a question, a cancellation, or the end of a lease.
Asked(x) ==
    /\ state[x] \notin {"open", "done"} /\ Becomes(x, "open")
    /\ Become({j \in jobs : j.of # x}, {Finder(x)}) /\ UNCHANGED stored
Cancelled(x) ==
    LET last == state["fit"] \in {"open", "failed"} /\ ~ \E y \in WhatIfs : y # x /\ state[y] = "open"
        goes(y) == y = x \/ (last /\ y = "fit")
    IN
    /\ state[x] # "absent"
    /\ \A y \in DOMAIN state : state'[y] = IF goes(y) THEN "absent" ELSE state[y]
    /\ jobs' \subseteq jobs /\ \A j \in jobs : j \in jobs' <=> ~ goes(j.of)
    /\ stored' \subseteq stored /\ \A p \in stored : p \in stored' <=> ~ goes(p.of)
OthersChange ==
    [][work' = work /\ <<state, jobs, stored>>' # <<state, jobs, stored>> =>
          \/ \E x \in WhatIfs : Asked(x) \/ Cancelled(x)
          \/ \E j \in jobs : j.state = "running" /\ LeaseOver(j)]_vars

-----------------------------------------------------------------------------
(* What must be possible. *)

Can(w, j) ==
    /\ IsFailed(j) => ENABLED (Next /\ work'[w] = Free /\ EndsOfFailed(j))
    /\ IsPart(j) => ENABLED (Next /\ work'[w] = Free /\ EndsOfPart(j))
    /\ LacksFit(j) => ENABLED (Next /\ work'[w] = Free /\ EndsWithoutFit(j))
    /\ Lacks(w, j) => /\ ENABLED (Next /\ work'[w] = Free /\ HandsOut(w, j))
                      /\ ENABLED (Next /\ work'[w] # Free /\ stored' # stored)
    /\ HasAll(w, j) => ENABLED (Next /\ work'[w] = Free /\ EndsOfAll(j))
    /\ ENABLED (Next /\ work'[w] = Free /\ FailsFor(j))
    /\ j.attempts < AttemptsMax => ENABLED (Next /\ work'[w] = Free /\ Given(j))
WorkersCan ==
    \A w \in Workers :
        /\ \A j \in Mine(w) : Can(w, j)
        \* It may stop.
        /\ work[w] # Free => ENABLED (Next /\ work'[w] = Free /\ UNCHANGED <<state, jobs, stored>>)
        /\ work[w] # Free /\ work[w].job.part = 0 /\ ~ work[w].hasRead => ENABLED (Next /\ work'[w].hasRead)
        /\ work[w] = Free => \A j \in jobs : j.state = "queued" =>
               ENABLED (Next /\ work'[w] # Free /\ work'[w].job.of = j.of /\ work'[w].job.part = j.part)
OthersCan ==
    /\ \A x \in WhatIfs : /\ state[x] \in {"absent", "failed"} => ENABLED (Next /\ state'[x] = "open")
                          /\ state[x] # "absent" => ENABLED (Next /\ state'[x] = "absent")
    /\ \A j \in jobs : j.state = "running" => ENABLED (Next /\ work' = work /\ LeaseOver(j))
=============================================================================
