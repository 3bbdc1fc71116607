---------------------------- MODULE JobLifecycle ----------------------------
(***************************************************************************)
(* How an upload becomes a result in rewindow's service.                   *)
(*                                                                         *)
(* The job's row in PostgreSQL is the truth; Redis only carries wake-ups   *)
(* (docs/decisions/jobs.md). A wake-up names no job: jobs of other bytes,  *)
(* which are left out here, may take ours, and we theirs. Then ours is     *)
(* lost (LoseMessage), or stays (Claim). Requests, workers, the            *)
(* sweeper and deletes run at once, and each may die between any two       *)
(* steps. This module says what each step does to the rows, the objects    *)
(* and the messages; TLC tries every order.                                *)
(*                                                                         *)
(* How to read it. A name with a prime is the value after the step. A step *)
(* is a list of conditions (when may it happen) and of new values. One     *)
(* step is one database transaction, or one call of the object store, or   *)
(* one message. A transaction that locks two rows is two steps, since      *)
(* another may come in between: the first takes the first lock, the second *)
(* takes the second, writes and commits.                                   *)
(*                                                                         *)
(* All uploads are of the same bytes by one team: different bytes never    *)
(* meet. An upload's number is also the id that its capture gets if it is  *)
(* the first (api/captures/service.py: capture_id = uuid4()).              *)
(*                                                                         *)
(* Kind "replay" is the same machine for a replay that somebody asks for   *)
(* (api/connections/service.py request_replay, worker/single_replay.py):   *)
(* there cap is the row in `replays`, and no bytes are uploaded. Its       *)
(* results are that one row; those of a capture are the rows of an attempt *)
(* (store/attempts.py), written in several transactions.                   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Kind,          \* "capture" or "replay"
    Uploads,       \* requests: numbers 1, 2, ...
    Deletes,       \* DELETE requests
    Workers,       \* worker processes
    AttemptsMax,   \* settings().attempts_max
    DeferralsMax,  \* jobs.DEFERRALS_MAX; 0: outages are left out
    Batches,       \* transactions that it takes to write the rows of one attempt; 0: rows are left out
    ClockMax,      \* 0: time is left out; else the last tick of the clock
    ResendAfter,   \* jobs.RESEND_AFTER, in ticks
    Defects        \* faults of the service that this specification found, by name; {}: the service as it is

ASSUME /\ Kind \in {"capture", "replay"}
       /\ Uploads \subseteq 1..9 /\ AttemptsMax \in 1..9 /\ DeferralsMax \in 0..9 /\ Batches \in 0..9 /\ ClockMax \in 0..20 /\ ResendAfter \in 1..20
       /\ Defects \subseteq {"lock_order", "unsure_commit", "requeue_unasked", "old_patience", "no_collector",
                        "uncounted_claim", "one_transaction"}

VARIABLES
    cap,      \* table captures (or replays), by id: state, and which series and attempt its row names (0: none)
    job,      \* table jobs, by capture: state, attempts, deferrals, fence, lease of who runs it, pause before it runs again, three times
    attempts, \* table attempts: capture, fence, which claim wrote it, how many batches of rows are committed, closed or not
    bytes,    \* uploaded captures in the object store: captures/ID/capture
    series,   \* results in the object store: captures/ID/acks-FENCE.parquet, and which claim wrote it
    msgs,     \* ids of jobs for which Redis has a wake-up that they may use, or several
    api,      \* each upload request: how far it is, and the capture it is about
    del,      \* each DELETE request: the same
    work,     \* each worker: how far it is, its job, its fencing number, which claim that was
    sweeper,  \* the sweeper: idle (0), or the job whose wake-up it is about to send
    clock,
    seen      \* variables of this specification that the service does not have: see Seen

vars == <<cap, job, attempts, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

Ids == Uploads
None == 0

Rows == {"absent", "queued", "running", "done", "failed"}

\* promised: captures that a client was told of (202). deleted: those that a client deleted.
\* claims: how often each job was claimed. written: how often its results were committed. by: by which claim.
\* since: when it was queued last.
Seen == [promised: SUBSET Ids, deleted: SUBSET Ids, claims: [Ids -> Nat], written: [Ids -> Nat],
         by: [Ids -> Nat], since: [Ids -> Nat]]

NoJob == [state |-> "absent", attempts |-> 0, deferrals |-> 0, fence |-> 0, lease |-> "none", pause |-> "none",
          made |-> 0, queued |-> 0, sent |-> 0]
NoCap == [state |-> "absent", named |-> None, shows |-> None]

Init ==
    /\ cap = [c \in Ids |-> NoCap]
    /\ job = [c \in Ids |-> NoJob]
    /\ attempts = {}
    /\ bytes = {} /\ series = {} /\ msgs = {}
    /\ api = [u \in Uploads |-> [pc |-> "idle", of |-> None]]
    /\ del = [d \in Deletes |-> [pc |-> "idle", of |-> None]]
    /\ work = [w \in Workers |-> [pc |-> "idle", of |-> None, fence |-> 0, claim |-> 0]]
    /\ sweeper = None
    /\ clock = 0
    /\ seen = [promised |-> {}, deleted |-> {}, claims |-> [c \in Ids |-> 0], written |-> [c \in Ids |-> 0],
               by |-> [c \in Ids |-> 0], since |-> [c \in Ids |-> 0]]

\* Results are rows of an attempt, not the one row of a replay, nor as it was before.
HasRows == Kind = "capture" /\ Batches > 0 /\ "one_transaction" \notin Defects

-----------------------------------------------------------------------------
(* Who holds which row. A lock is held from a transaction's first step to its commit. *)

Present(c) == cap[c].state # "absent"
Row == {c \in Ids : Present(c)}          \* at most one: UniqueConstraint("team_id", "sha256")

\* The steps of an upload that hold the job's row and wait for the capture's; and the other way round.
JobFirst == {"found"}
CapFirst == {"merging"}

HoldsJob(c) ==
    {<<"request", u>> : u \in {u \in Uploads : api[u].pc \in JobFirst /\ api[u].of = c}}
    \cup {<<"delete", d>> : d \in {d \in Deletes : del[d].pc = "locked" /\ del[d].of = c}}
    \cup {<<"worker", w>> : w \in {w \in Workers : work[w].pc \in {"locked", "beginning", "writing"} /\ work[w].of = c}}
HoldsCap(c) == {<<"request", u>> : u \in {u \in Uploads : api[u].pc \in CapFirst /\ api[u].of = c}}
JobFree(c) == HoldsJob(c) = {}
CapFree(c) == HoldsCap(c) = {}

\* The second lock that each of them waits for.
WaitsForCap(c) == HoldsJob(c)
WaitsForJob(c) == HoldsCap(c)

(* The row of the job under this worker's number, and still running: what jobs.hold, jobs.report and *)
(* jobs.renew ask for.                                                                                *)
Held(w) == LET c == work[w].of IN job[c].state = "running" /\ job[c].fence = work[w].fence

HasBytes(c) == Kind = "replay" \/ c \in bytes

\* Objects carry the fencing number in their key: objects.series_key.
Key(w) == work[w].fence
Removed(w) == {s \in series : s.cap # work[w].of \/ s.key # Key(w)}
Put(w) == Removed(w) \cup {[cap |-> work[w].of, key |-> Key(w), by |-> work[w].claim]}

\* Attempts of a worker's claim: UniqueConstraint("job_id", "fence").
Own(w, rows) == [cap |-> work[w].of, fence |-> work[w].fence, by |-> work[w].claim, rows |-> rows, closed |-> FALSE]
OpenOf(w) == {a \in attempts : a.cap = work[w].of /\ a.fence = work[w].fence /\ ~ a.closed}
Whole(w) == Own(w, Batches) \in attempts

\* What readers see of results: the attempt that the capture's row names (api/connections/service.py _scoped).
Visible(c) == {a \in attempts : Present(c) /\ a.cap = c /\ a.fence = cap[c].shows}

Worker(w, pc) == [work EXCEPT ![w].pc = pc]
Idle(w) == [work EXCEPT ![w] = [pc |-> "idle", of |-> None, fence |-> 0, claim |-> 0]]

-----------------------------------------------------------------------------
(* Uploads: api/captures/service.py receive. *)

\* put_async: the bytes are in the store before any row names them.
Store(u) ==
    /\ Kind = "capture" /\ api[u].pc = "idle"
    /\ bytes' = bytes \cup {u}
    /\ api' = [api EXCEPT ![u].pc = "stored"]
    /\ UNCHANGED <<attempts, cap, job, series, msgs, del, work, sweeper, clock, seen>>

Queued(c, fence) ==
    [job EXCEPT ![c] = [state |-> "queued", attempts |-> 0, deferrals |-> 0, fence |-> fence, lease |-> "none", pause |-> "none",
                        made |-> IF Present(c) THEN @.made ELSE clock,
                        queued |-> clock, sent |-> clock]]

\* Nobody has these bytes yet: capture and job in one transaction. The wake-up comes after the commit.
Insert(u) ==
    /\ \/ Kind = "capture" /\ api[u].pc = "stored"
       \/ Kind = "replay" /\ api[u].pc = "idle" /\ u \notin seen.deleted
    /\ Row = {}
    /\ cap' = [cap EXCEPT ![u] = [NoCap EXCEPT !.state = "queued"]]
    /\ job' = Queued(u, 0)
    /\ api' = [api EXCEPT ![u] = [pc |-> "committed", of |-> u]]
    /\ seen' = [seen EXCEPT !.promised = @ \cup {u}, !.since[u] = clock]
    /\ UNCHANGED <<attempts, bytes, series, msgs, del, work, sweeper, clock>>

\* The same bytes again: the job's row is locked first, as workers and deletes do (_lock_and_tag).
Find(u, c) ==
    /\ Kind = "capture" /\ "lock_order" \notin Defects
    /\ api[u].pc = "stored" /\ Present(c) /\ JobFree(c)
    /\ api' = [api EXCEPT ![u] = [pc |-> "found", of |-> c]]
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, del, work, sweeper, clock, seen>>

Restarted(c) == Queued(c, job[c].fence)    \* jobs.restart keeps the fencing number

\* Its own copy of the bytes goes; a failed job begins anew (_begin_anew), any other is left alone.
AnswerFound(u, c) ==
    /\ bytes' = bytes \ {u}
    /\ IF job[c].state = "failed"
       THEN /\ job' = Restarted(c)
            /\ cap' = [cap EXCEPT ![c].state = "queued"]
            /\ api' = [api EXCEPT ![u] = [pc |-> "committed", of |-> c]]
            /\ seen' = [seen EXCEPT !.promised = @ \cup {c}, !.since[c] = clock]
       ELSE /\ api' = [api EXCEPT ![u] = [pc |-> "done", of |-> c]]
            /\ seen' = [seen EXCEPT !.promised = @ \cup {c}]
            /\ UNCHANGED <<attempts, job, cap>>

Merge(u) ==
    /\ api[u].pc = "found" /\ CapFree(api[u].of)
    /\ AnswerFound(u, api[u].of)
    /\ UNCHANGED <<attempts, series, msgs, del, work, sweeper, clock>>

\* A defect: ON CONFLICT DO UPDATE locks the capture first, and then the job if it must begin anew.
FindCapture(u, c) ==
    /\ Kind = "capture" /\ "lock_order" \in Defects
    /\ api[u].pc = "stored" /\ Present(c) /\ CapFree(c)
    /\ HoldsJob(c) \cap {<<"worker", w>> : w \in Workers} = {}   \* their second lock, held for an instant
    /\ IF cap[c].state = "failed"
       THEN /\ api' = [api EXCEPT ![u] = [pc |-> "merging", of |-> c]]
            /\ UNCHANGED <<attempts, cap, job, bytes, seen>>
       ELSE AnswerFound(u, c)
    /\ UNCHANGED <<attempts, series, msgs, del, work, sweeper, clock>>

MergeCapture(u) ==
    /\ api[u].pc = "merging" /\ JobFree(api[u].of)
    /\ AnswerFound(u, api[u].of)
    /\ UNCHANGED <<attempts, series, msgs, del, work, sweeper, clock>>

(* A replay that exists: api/connections/service.py request_replay reads first, without a lock. *)
Read(u, c) ==
    /\ Kind = "replay" /\ api[u].pc = "idle" /\ Present(c)
    /\ api' = [api EXCEPT ![u] = [pc |-> IF cap[c].state = "failed" THEN "read" ELSE "done", of |-> c]]
    /\ seen' = [seen EXCEPT !.promised = @ \cup {c}]
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, del, work, sweeper, clock>>

RestartRead(u) ==
    LET c == api[u].of
        again == job[c].state = "failed"
        queue == again \/ ("requeue_unasked" \in Defects /\ Present(c))
    IN
    /\ api[u].pc = "read" /\ JobFree(c)
    /\ job' = IF again THEN Restarted(c) ELSE job
    /\ cap' = IF queue THEN [cap EXCEPT ![c].state = "queued"] ELSE cap
    /\ seen' = IF again THEN [seen EXCEPT !.since[c] = clock] ELSE seen
    /\ api' = [api EXCEPT ![u].pc = IF again THEN "committed" ELSE "done"]
    /\ UNCHANGED <<attempts, bytes, series, msgs, del, work, sweeper, clock>>

\* wakeups.wake, after the commit. Redis may be away: then the sweeper does it.
Wake(u) ==
    /\ api[u].pc = "committed"
    /\ msgs' \in {msgs, msgs \cup {api[u].of}}
    /\ api' = [api EXCEPT ![u].pc = "done"]
    /\ UNCHANGED <<attempts, cap, job, bytes, series, del, work, sweeper, clock, seen>>

\* The process ends, or the connection to the database breaks: what is not committed is rolled back.
ApiDies(u) ==
    /\ api[u].pc \in {"stored", "found", "merging", "read", "committed"}
    /\ api' = [api EXCEPT ![u].pc = "dead"]
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, del, work, sweeper, clock, seen>>

-----------------------------------------------------------------------------
(* Deletes: api/captures/service.py remove; the objects go with worker/collector.py remove_deleted. The row in   *)
(* `deletions` that asks the sweeper for it is not in the model: it may get lost here, and Collect does the same. *)
(* The rows of attempts are left to the sweeper.                                                                *)

LockJob(d, c) ==
    /\ del[d].pc = "idle" /\ Present(c) /\ JobFree(c)
    /\ del' = [del EXCEPT ![d] = [pc |-> "locked", of |-> c]]
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, work, sweeper, clock, seen>>

DeleteRow(d) ==
    LET c == del[d].of IN
    /\ del[d].pc = "locked" /\ CapFree(c)
    /\ cap' = [cap EXCEPT ![c] = NoCap]
    /\ job' = [job EXCEPT ![c] = NoJob]
    /\ del' = [del EXCEPT ![d].pc = "deleted"]
    /\ seen' = [seen EXCEPT !.deleted = @ \cup {c}]
    /\ UNCHANGED <<attempts, bytes, series, msgs, api, work, sweeper, clock>>

RemoveObjects(d) ==
    LET c == del[d].of IN
    /\ del[d].pc = "deleted"
    /\ bytes' = bytes \ {c}
    /\ series' = {s \in series : s.cap # c}
    /\ del' = [del EXCEPT ![d].pc = "done"]
    /\ UNCHANGED <<attempts, cap, job, msgs, api, work, sweeper, clock, seen>>

DeleteDies(d) ==
    /\ del[d].pc \in {"locked", "deleted"}
    /\ del' = [del EXCEPT ![d].pc = "dead"]
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, work, sweeper, clock, seen>>

-----------------------------------------------------------------------------
(* Workers: worker/tasks.py run_job. *)

Claimable(c) ==
    /\ job[c].attempts < AttemptsMax
    /\ \/ job[c].state = "queued" /\ job[c].pause # "waits"
       \/ job[c].state = "running" /\ job[c].lease = "expired"

\* What a claim makes of the job's row.
Taken(c) ==
    [job EXCEPT ![c].state = "running", ![c].attempts = @ + 1, ![c].fence = @ + 1, ![c].lease = "valid",
                ![c].pause = "none"]
Holding(w, c, pc) ==
    [work EXCEPT ![w] = [pc |-> pc, of |-> c, fence |-> job[c].fence + 1, claim |-> seen.claims[c] + 1]]

\* A worker has a message, and its UPDATE finds the row (jobs.claim_next, jobs.claim). It is committed at once and alone: whatever kills
\* the worker from here on, the attempt counts. Redis delivers at least once: the message may stay for another.
Claim(w, c) ==
    /\ "uncounted_claim" \notin Defects
    /\ work[w].pc = "idle" /\ c \in msgs
    /\ Claimable(c) /\ JobFree(c)
    /\ job' = Taken(c)
    /\ work' = Holding(w, c, "claimed")
    /\ seen' = [seen EXCEPT !.claims[c] = @ + 1]
    /\ msgs' \in {msgs, msgs \ {c}}
    /\ UNCHANGED <<attempts, cap, bytes, series, api, del, sweeper, clock>>

\* jobs.begin: the job's row under this number, then the capture's, which says running from now on.
Begin(w) ==
    /\ work[w].pc = "claimed" /\ JobFree(work[w].of)
    /\ work' = Worker(w, IF Held(w) THEN "beginning" ELSE "lost")
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

Begun(w) ==
    LET c == work[w].of IN
    /\ work[w].pc = "beginning" /\ CapFree(c)
    /\ cap' = [cap EXCEPT ![c].state = "running"]
    /\ work' = Worker(w, "running")
    /\ UNCHANGED <<attempts, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* A defect: one transaction for both rows. If a worker dies before its commit, nobody counts the attempt.
LockToClaim(w, c) ==
    /\ "uncounted_claim" \in Defects
    /\ work[w].pc = "idle" /\ c \in msgs
    /\ Claimable(c) /\ JobFree(c)
    /\ work' = [work EXCEPT ![w] = [pc |-> "locked", of |-> c, fence |-> 0, claim |-> 0]]
    /\ msgs' \in {msgs, msgs \ {c}}
    /\ UNCHANGED <<attempts, cap, job, bytes, series, api, del, sweeper, clock, seen>>

ClaimBoth(w) ==
    LET c == work[w].of IN
    /\ work[w].pc = "locked" /\ CapFree(c)
    /\ job' = Taken(c)
    /\ cap' = [cap EXCEPT ![c].state = "running"]
    /\ work' = Holding(w, c, "running")
    /\ seen' = [seen EXCEPT !.claims[c] = @ + 1]
    /\ UNCHANGED <<attempts, bytes, series, msgs, api, del, sweeper, clock>>

\* Redis lost it; or who took it died before the claim, found that the job is not to be had, or claimed another one,
\* whose turn it was.
LoseMessage(c) ==
    /\ c \in msgs
    /\ msgs' = msgs \ {c}
    /\ UNCHANGED <<attempts, cap, job, bytes, series, api, del, work, sweeper, clock, seen>>

\* Fetched, replayed, and the series put: analysis.run up to objects.put_file.
PutSeries(w) ==
    /\ work[w].pc = "running" /\ HasBytes(work[w].of)
    /\ series' = Put(w)
    /\ work' = Worker(w, "put")
    /\ UNCHANGED <<attempts, cap, job, bytes, msgs, api, del, sweeper, clock, seen>>

\* attempts.start: the job's row under this number, held for a moment; an attempt without rows.
Start(w) ==
    /\ HasRows /\ work[w].pc = "put" /\ JobFree(work[w].of)
    /\ attempts' = IF Held(w) THEN attempts \cup {Own(w, 0)} ELSE attempts
    /\ work' = Worker(w, IF Held(w) THEN "storing" ELSE "lost")
    /\ UNCHANGED <<cap, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* attempts.writing: a share of the lock on the attempt's row, if it is open. No row that others wait for is locked. Two
\* sessions of a worker write at once; here one goes on as soon as it has ended, which lets Close come in between, too.
Add(w) ==
    /\ work[w].pc = "storing" /\ ~ Whole(w)
    /\ work' = Worker(w, IF OpenOf(w) # {} THEN "adding" ELSE "lost")
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* The batch is committed. No reader sees it.
Added(w) ==
    /\ work[w].pc = "adding"
    /\ attempts' = (attempts \ OpenOf(w)) \cup {[a EXCEPT !.rows = @ + 1] : a \in OpenOf(w)}
    /\ work' = Worker(w, "storing")
    /\ UNCHANGED <<cap, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* attempts.publish, or the one row of a replay: the job's row, under this number. It was held for as long as the rows
\* were written.
Hold(w) ==
    /\ IF HasRows
       THEN work[w].pc = "storing" /\ Whole(w)
       ELSE work[w].pc = "put"
    /\ JobFree(work[w].of)
    /\ work' = Worker(w, IF Held(w) THEN "writing" ELSE "lost")
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* The capture's row names the attempt and the series, jobs.finish. The connection may break while the answer is
\* under way: then this is committed and the worker sees an error.
Commit(w) ==
    LET c == work[w].of IN
    /\ work[w].pc = "writing" /\ CapFree(c)
    /\ cap' = [cap EXCEPT ![c] = [state |-> "done", named |-> Key(w),
                                  shows |-> IF OpenOf(w) = {} THEN None ELSE work[w].fence]]
    /\ job' = [job EXCEPT ![c].state = "done", ![c].lease = "none"]
    /\ seen' = [seen EXCEPT !.written[c] = @ + 1, !.by[c] = work[w].claim]
    /\ \E pc \in {"tidy", "unsure"} : work' = Worker(w, pc)
    /\ UNCHANGED <<attempts, bytes, series, msgs, api, del, sweeper, clock>>

\* The same error, but nothing was committed.
RollBack(w) ==
    /\ work[w].pc = "writing"
    /\ work' = Worker(w, "unsure")
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* worker/results.py discard: are the series named by a row? The job's row, once locked, tells (jobs.is_done). It was thought that an error
\* means that no row names them. Afterwards jobs.release, as in Fault.
Unsure(w) ==
    LET c == work[w].of
        committed == job[c].state = "done" /\ job[c].fence = work[w].fence
    IN
    /\ work[w].pc = "unsure"
    /\ "unsure_commit" \in Defects \/ JobFree(c)
    /\ series' = IF committed /\ "unsure_commit" \notin Defects THEN series ELSE Removed(w)
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, cap, job, bytes, msgs, api, del, sweeper, clock, seen>>

\* JobLost: somebody else holds the job, or it was deleted. What was put is taken away.
Abandon(w) ==
    /\ work[w].pc = "lost"
    /\ series' = Removed(w)
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, cap, job, bytes, msgs, api, del, sweeper, clock, seen>>

\* objects.delete_older_series.
Tidy(w) ==
    /\ work[w].pc = "tidy"
    /\ series' = {s \in series : s.cap # work[w].of \/ s.key >= work[w].fence}
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, cap, job, bytes, msgs, api, del, sweeper, clock, seen>>

\* An error that may pass and is no outage: jobs.release. The worker gives the job back:
\* it is queued, and nobody may take it before its pause is over (not_before). After the last attempt it has failed.
GivenBack(c) ==
    [job EXCEPT ![c].lease = "none",
                ![c].state = IF job[c].attempts < AttemptsMax THEN "queued" ELSE "failed",
                ![c].pause = IF job[c].attempts < AttemptsMax THEN "waits" ELSE "none"]

Fault(w) ==
    LET c == work[w].of IN
    /\ work[w].pc \in {"claimed", "running", "put", "storing", "adding"} /\ JobFree(c) /\ CapFree(c)
    /\ series' = Removed(w)
    /\ job' = IF Held(w) THEN GivenBack(c) ELSE job
    /\ cap' = IF Held(w) THEN [cap EXCEPT ![c].state = GivenBack(c)[c].state] ELSE cap
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, bytes, msgs, api, del, sweeper, clock, seen>>

\* An outage of PostgreSQL or of the object store: jobs.defer. The claim counted an attempt, because it might have been
\* the worker's last step; this gives it back. The worker waits until the database answers again. How often outages
\* began while the job was at work, and that it runs alone after two of them, is not in the model: it has one job.
Deferred(c) ==
    LET again == job[c].deferrals < DeferralsMax IN
    [job EXCEPT ![c].lease = "none",
                ![c].state = IF again THEN "queued" ELSE "failed",
                ![c].pause = IF again THEN "waits" ELSE "none",
                ![c].attempts = IF again THEN @ - 1 ELSE @,
                ![c].deferrals = IF again THEN @ + 1 ELSE @]

Defer(w) ==
    LET c == work[w].of IN
    /\ DeferralsMax > 0
    /\ work[w].pc \in {"claimed", "running", "put", "storing", "adding"} /\ JobFree(c) /\ CapFree(c)
    /\ series' \in {series, Removed(w)}     \* the store may be what is away: then the collector removes them
    /\ job' = IF Held(w) THEN Deferred(c) ELSE job
    /\ cap' = IF Held(w) THEN [cap EXCEPT ![c].state = Deferred(c)[c].state] ELSE cap
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, bytes, msgs, api, del, sweeper, clock, seen>>

\* The input is at fault: jobs.fail. For good.
Fail(w) ==
    LET c == work[w].of IN
    /\ work[w].pc = "running" /\ JobFree(c) /\ CapFree(c)
    /\ job' = IF Held(w) THEN [job EXCEPT ![c].state = "failed", ![c].lease = "none"] ELSE job
    /\ cap' = IF Held(w) THEN [cap EXCEPT ![c].state = "failed"] ELSE cap
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, bytes, series, msgs, api, del, sweeper, clock, seen>>

\* Killed, out of memory, unplugged. Redis may deliver its message to another: task_reject_on_worker_lost.
Die(w) ==
    /\ work[w].pc # "idle"
    /\ msgs' \in {msgs, msgs \cup {work[w].of}}
    /\ work' = Idle(w)
    /\ UNCHANGED <<attempts, cap, job, bytes, series, api, del, sweeper, clock, seen>>

\* Nothing was heard of the worker that holds the job for lease_s: it is dead, or cut off, or only slow.
Expire(c) ==
    /\ job[c].state = "running" /\ job[c].lease = "valid" /\ JobFree(c)
    /\ job' = [job EXCEPT ![c].lease = "expired"]
    /\ UNCHANGED <<attempts, cap, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

\* The time in not_before has come.
PauseEnds(c) ==
    /\ job[c].pause = "waits" /\ JobFree(c)
    /\ job' = [job EXCEPT ![c].pause = "over"]
    /\ UNCHANGED <<attempts, cap, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

\* jobs.renew, jobs.report: the slow one is heard of again, before anybody took its job.
Renew(w) ==
    LET c == work[w].of IN
    /\ work[w].pc \in {"running", "put", "storing", "adding"} /\ JobFree(c) /\ Held(w) /\ job[c].lease = "expired"
    /\ job' = [job EXCEPT ![c].lease = "valid"]
    /\ UNCHANGED <<attempts, cap, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

-----------------------------------------------------------------------------
(* The sweeper: jobs.sweep, then jobs.send. It passes over rows that are locked (skip_locked). *)

Max(a, b) == IF a > b THEN a ELSE b

\* How long a wake-up may stay unheard before it is sent again: each time twice as long.
Patience(c) ==
    Max(ResendAfter, job[c].sent - (IF "old_patience" \in Defects THEN job[c].made ELSE job[c].queued))

\* At the last tick everything that could be waited for is over; without time, that is always.
Unheard(c) == job[c].state = "queued" /\ job[c].pause = "none" /\ (job[c].sent + Patience(c) < clock \/ clock = ClockMax)
Expired(c) == job[c].state = "running" /\ job[c].lease = "expired"
PauseOver(c) == job[c].state = "queued" /\ job[c].pause = "over"
\* From now on it waits for a worker: the patience with its wake-up counts from here.
WaitsAnew(c) == Expired(c) \/ PauseOver(c)

SweepBack(c) ==
    /\ sweeper = None /\ JobFree(c)
    /\ Unheard(c) \/ WaitsAnew(c)
    /\ job[c].attempts < AttemptsMax
    /\ job' = [job EXCEPT ![c].state = "queued", ![c].lease = "none", ![c].pause = "none", ![c].sent = clock,
                          ![c].queued = IF WaitsAnew(c) THEN clock ELSE @]
    /\ sweeper' = c
    /\ seen' = IF WaitsAnew(c) THEN [seen EXCEPT !.since[c] = clock] ELSE seen
    /\ UNCHANGED <<attempts, cap, bytes, series, msgs, api, del, work, clock>>

GiveUp(c) ==
    /\ sweeper = None /\ JobFree(c) /\ CapFree(c)
    /\ Unheard(c) \/ WaitsAnew(c)
    /\ job[c].attempts >= AttemptsMax
    /\ job' = [job EXCEPT ![c].state = "failed", ![c].lease = "none"]
    /\ cap' = [cap EXCEPT ![c].state = "failed"]
    /\ UNCHANGED <<attempts, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

SendAgain ==
    /\ sweeper # None
    /\ msgs' = msgs \cup {sweeper}
    /\ sweeper' = None
    /\ UNCHANGED <<attempts, cap, job, bytes, series, api, del, work, clock, seen>>

\* It dies before it sends, or Redis is away.
SweeperDies ==
    /\ sweeper # None
    /\ sweeper' = None
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, del, work, clock, seen>>

\* attempts.close_abandoned: no capture names the attempt, and its claim is over. One statement sees both at one moment.
\* A batch under way is waited for; where its process hangs, its session is ended (the batch is rolled back: Fault, Die).
Abandoned(a) ==
    /\ ~ (Present(a.cap) /\ cap[a.cap].shows = a.fence)
    /\ ~ (job[a.cap].state = "running" /\ job[a.cap].fence = a.fence)
Adding(a) == \E w \in Workers : work[w].pc = "adding" /\ a \in OpenOf(w)
Close ==
    /\ \E a \in attempts :
           /\ ~ a.closed /\ Abandoned(a) /\ ~ Adding(a)
           /\ attempts' = (attempts \ {a}) \cup {[a EXCEPT !.closed = TRUE]}
    /\ UNCHANGED <<cap, job, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

\* attempts.remove_closed: some rows at a time, which nobody sees, and the attempt's own row last. One step, since
\* nothing depends on how many rows are left.
RemoveRows ==
    /\ \E a \in attempts : a.closed /\ attempts' = attempts \ {a}
    /\ UNCHANGED <<cap, job, bytes, series, msgs, api, del, work, sweeper, clock, seen>>

\* What no row names, and nobody is about to name. The code tells the latter by age (worker/collector.py).
Coming(c) == \E u \in Uploads : u = c /\ api[u].pc \in {"stored", "found", "merging"}
StrayBytes == {c \in bytes : ~ Present(c) /\ ~ Coming(c)}
StraySeries == {s \in series : /\ cap[s.cap].named # s.key
                               /\ ~ \E w \in Workers : /\ work[w].of = s.cap /\ work[w].claim = s.by}
Collect ==
    /\ "no_collector" \notin Defects
    /\ StrayBytes # {} \/ StraySeries # {}
    /\ bytes' = bytes \ StrayBytes
    /\ series' = series \ StraySeries
    /\ UNCHANGED <<attempts, cap, job, msgs, api, del, work, sweeper, clock, seen>>

Tick ==
    /\ clock < ClockMax
    /\ clock' = clock + 1
    /\ UNCHANGED <<attempts, cap, job, bytes, series, msgs, api, del, work, sweeper, seen>>

-----------------------------------------------------------------------------

\* No work is left: the only state in which the service may stop.
AtRest ==
    /\ \A u \in Uploads : api[u].pc \in {"done", "dead"} \/ (Kind = "replay" /\ u \in seen.deleted)
    /\ \A w \in Workers : work[w].pc = "idle"
    /\ \A c \in Ids : job[c].state \in {"absent", "done", "failed"}
    /\ UNCHANGED vars

Api(u) ==
    \/ Store(u) \/ Insert(u) \/ Merge(u) \/ MergeCapture(u) \/ RestartRead(u) \/ Wake(u)
    \/ \E c \in Ids : Find(u, c) \/ FindCapture(u, c) \/ Read(u, c)

Delete(d) == DeleteRow(d) \/ RemoveObjects(d)

Work(w) ==
    \/ Begin(w) \/ Begun(w) \/ ClaimBoth(w) \/ PutSeries(w) \/ Start(w) \/ Add(w) \/ Added(w) \/ Hold(w) \/ Commit(w)
    \/ RollBack(w) \/ Unsure(w) \/ Abandon(w) \/ Tidy(w) \/ Fault(w) \/ Defer(w) \/ Fail(w)
    \/ Die(w)

Next ==
    \/ \E u \in Uploads : Api(u) \/ ApiDies(u)
    \/ \E d \in Deletes : Delete(d) \/ DeleteDies(d) \/ \E c \in Ids : LockJob(d, c)
    \/ \E w \in Workers : Work(w) \/ Renew(w) \/ \E c \in Ids : Claim(w, c) \/ LockToClaim(w, c)
    \/ \E c \in Ids : LoseMessage(c) \/ Expire(c) \/ PauseEnds(c) \/ SweepBack(c) \/ GiveUp(c)
    \/ SendAgain \/ SweeperDies \/ Collect \/ Tick
    \/ Close \/ RemoveRows
    \/ AtRest

(* Fairness, and the reason for each assumption.                                                          *)
(*  - A process that does not die goes on (WF on its steps; Celery's task_time_limit ends a worker           *)
(*    that hangs; a broken connection ends a transaction and frees its locks).                             *)
(*  - The sweeper's second thread comes round to each attempt that is to go.                              *)
(*  - A lease runs out by the clock if nobody renews it, and a holder renews only while it lives; a pause  *)
(*    before another attempt ends by the clock.                                                            *)
(*  - The sweeper comes round every sweep_interval_s, to each row that waits.                              *)
(*  - Of wake-ups sent again and again one arrives at a free worker (SF: it may be lost any number of      *)
(*    times, not every time). That this is all that is asked of Redis is the point of the outbox.          *)
(* Nothing is asked of deaths, faults and losses: attempts_max alone bounds them, since no claim goes      *)
(* uncounted. A job that kills every worker that takes it has failed after so many.                        *)
Fairness ==
    /\ \A u \in Uploads : WF_vars(Api(u))
    /\ \A d \in Deletes : WF_vars(Delete(d))
    /\ \A w \in Workers : WF_vars(Work(w))
    /\ \A c \in Ids : /\ WF_vars(Expire(c)) /\ WF_vars(PauseEnds(c)) /\ WF_vars(SweepBack(c) \/ GiveUp(c))
                      /\ SF_vars(\E w \in Workers : Claim(w, c) \/ LockToClaim(w, c))
    /\ SF_vars(SendAgain)
    /\ WF_vars(Collect) /\ WF_vars(Tick)
    /\ WF_vars(Close \/ RemoveRows)

Spec == Init /\ [][Next]_vars /\ Fairness

(* Workers that may hang wherever they stand, without dying, for ever: only a transaction of an instant, which    *)
(* PostgreSQL ends when its client says nothing (idle_in_transaction_session_timeout), comes to an end. While     *)
(* rows were written in the transaction that publishes them, that one took minutes and could hang too.            *)
Instants(w) == Begun(w) \/ ("one_transaction" \notin Defects /\ (Commit(w) \/ RollBack(w)))
HangingSpec ==
    /\ Init /\ [][Next]_vars
    /\ \A u \in Uploads : WF_vars(Api(u))
    /\ \A d \in Deletes : WF_vars(Delete(d))
    /\ \A w \in Workers : WF_vars(Instants(w))
    /\ \A c \in Ids : WF_vars(Expire(c)) /\ WF_vars(SweepBack(c) \/ GiveUp(c))
    /\ SF_vars(SendAgain)

-----------------------------------------------------------------------------
(* What must hold. *)

TypeOK ==
    /\ cap \in [Ids -> [state: Rows, named: Nat, shows: Nat]]
    /\ attempts \subseteq [cap: Ids, fence: 1..99, by: 1..99, rows: 0..Batches, closed: BOOLEAN]
    /\ \A a, b \in attempts : a.cap = b.cap /\ a.fence = b.fence => a = b
    /\ \A c \in Ids : /\ job[c].state \in Rows /\ job[c].lease \in {"none", "valid", "expired"}
                      /\ job[c].pause \in {"none", "waits", "over"}
                      \* The table's check constraints `lease` and `not_before`.
                      /\ (job[c].state = "running") = (job[c].lease # "none")
                      /\ job[c].pause # "none" => job[c].state = "queued"
    /\ bytes \subseteq Ids /\ msgs \subseteq Ids /\ sweeper \in Ids \cup {None}
    /\ seen.promised \subseteq Ids /\ seen.deleted \subseteq Ids

\* The same bytes are one capture.
OneCapture == Cardinality(Row) <= 1

\* What a client was told of is there, with its bytes, until a client deletes it.
NoCaptureLost ==
    /\ \A c \in seen.promised : Present(c) \/ c \in seen.deleted
    /\ \A c \in Row : HasBytes(c)

\* The capture's state is its job's: what the page shows is true.
RowsAgree ==
    \A c \in Ids :
        \/ cap[c].state = job[c].state
        \/ cap[c].state = "running" /\ job[c].state = "queued"      \* taken back, not yet claimed again
        \/ cap[c].state = "queued" /\ job[c].state = "running"      \* claimed, and about to say so, or dead by now
           /\ \A w \in Workers : work[w].of = c /\ Held(w) => work[w].pc \in {"claimed", "beginning"}

\* Results are committed once, by the last claim, and the series that the row names are there and its own.
ResultsOnce ==
    \A c \in Ids :
        /\ seen.written[c] <= 1
        /\ cap[c].state = "done" => /\ seen.written[c] = 1
                                    /\ seen.by[c] = seen.claims[c]
SeriesThere ==
    \A c \in Ids : cap[c].state = "done" => [cap |-> c, key |-> cap[c].named, by |-> seen.by[c]] \in series

\* Readers see the whole rows of one attempt, that of the claim that ended the job, and nothing of any other capture.
Stored(c) == HasRows /\ cap[c].state = "done"
WholeResults ==
    \A c \in Ids :
        /\ Visible(c) = IF Stored(c) THEN {[cap |-> c, fence |-> cap[c].shows, by |-> seen.by[c], rows |-> Batches,
                                           closed |-> FALSE]} ELSE {}
        /\ Stored(c) => cap[c].shows = job[c].fence
\* A worker that is long at work holds no row that a request, the sweeper or its own lease waits for.
HeldForAnInstant == \A c \in Ids, w \in Workers : <<"worker", w>> \in HoldsJob(c) => OpenOf(w) = {} \/ Whole(w)
\* Only a claim of a job writes rows, and only its own.
RowsOfClaims == \A a \in attempts : a.by <= seen.claims[a.cap]
\* While a worker writes rows, its attempt is there to take them.
NotRemovedUnderWrites == \A w \in Workers : work[w].pc = "adding" => OpenOf(w) # {}

AttemptsCapped == \A c \in Ids : job[c].attempts \in 0..AttemptsMax /\ job[c].deferrals \in 0..DeferralsMax

\* Two transactions that each wait for the other's row: PostgreSQL would end one of them with an error.
NoDeadlock == \A c \in Ids : ~ (\E a \in WaitsForCap(c), b \in WaitsForJob(c) : a # b)

\* However old the job, a lost wake-up is made good in the time that it has already waited, or ResendAfter.
SoonAgain ==
    \A c \in Ids : job[c].state = "queued" => Patience(c) <= Max(ResendAfter, job[c].sent - seen.since[c])

\* What readers see changes at once, with the capture's state: to the whole when its job is done, and to nothing with a
\* delete. No step of a worker that writes rows, and none of the sweeper, changes it.
SeenAtOnce ==
    [][\A c \in Ids : Visible(c)' # Visible(c) =>
           \/ cap[c].state = "running" /\ cap'[c].state = "done" /\ Visible(c) = {}
           \/ cap[c].state = "done" /\ cap'[c].state = "absent"]_vars
\* A closed attempt gets no more rows and is not opened again; an open one loses none and does not vanish.
ClosedForGood ==
    [][\A a \in attempts :
           LET later == {b \in attempts' : b.cap = a.cap /\ b.fence = a.fence} IN
           IF a.closed THEN later \subseteq {a}
           ELSE \E b \in later : IF b.closed THEN b.rows = a.rows ELSE b.rows >= a.rows]_vars
\* A delete changes the two rows, however many rows of attempts there are: these are the sweeper's.
DeletedAtOnce ==
    [][\A c \in Ids : Present(c) /\ cap'[c].state = "absent" =>
           /\ job'[c] = NoJob /\ attempts' = attempts
           /\ \E d \in Deletes : del[d].of = c /\ del'[d].pc = "deleted"]_vars

\* Done is done: nothing but a delete changes it. The fencing number only grows.
DoneIsFinal ==
    [][\A c \in Ids : cap[c].state = "done" => cap'[c] \in {cap[c], NoCap}]_vars
FenceGrows ==
    [][\A c \in Ids : job'[c].state # "absent" => job'[c].fence >= job[c].fence]_vars
\* A job that its worker gives back before its lease runs out pauses, and stays as it is until the pause is over: no
\* message and no sweep starts it sooner. Only a delete ends it.
RetriesPause ==
    [][\A c \in Ids :
        /\ job[c].state = "running" /\ job[c].lease = "valid" /\ job'[c].state = "queued" => job'[c].pause = "waits"
        /\ job[c].pause = "waits" => job'[c] \in {job[c], [job[c] EXCEPT !.pause = "over"], NoJob}]_vars
\* A job that failed begins anew only because a request asks for it.
FailedStays ==
    [][\A c \in Ids : (cap[c].state = "failed" /\ cap'[c].state # "failed") =>
                      (\E u \in Uploads : api[u] # api'[u]) \/ (\E d \in Deletes : del[d] # del'[d])]_vars

\* A job that is begun anew after it failed has all of its attempts again, under the same fencing number: what an old
\* worker still holds is older than any claim to come.
RestartIsAnew ==
    [][\A c \in Ids : job[c].state = "failed" /\ job'[c].state = "queued" =>
           /\ job'[c].attempts = 0 /\ job'[c].deferrals = 0 /\ job'[c].fence = job[c].fence /\ job'[c].pause = "none"
           /\ cap'[c].state = "queued"]_vars
\* A claim takes one job that is free or whose holder is not heard of, counts one attempt, takes the next fencing number
\* and a lease; nothing else does any of these. A restart takes all attempts away, and a deferral the one that the claim
\* counted.
Claimed(c) == job'[c].state # "absent" /\ job'[c].fence # job[c].fence
DeferredNow(c) ==
    /\ job[c].state = "running" /\ job'[c].state = "queued" /\ job'[c].pause = "waits"
    /\ job'[c].deferrals = job[c].deferrals + 1 /\ job'[c].attempts = job[c].attempts - 1
    /\ job'[c].fence = job[c].fence /\ cap'[c].state = "queued"
ClaimsCount ==
    [][\A c \in Ids :
        /\ Claimed(c) =>
               /\ job'[c].fence = job[c].fence + 1 /\ job'[c].attempts = job[c].attempts + 1
               /\ job'[c].state = "running" /\ job'[c].lease = "valid" /\ job'[c].pause = "none"
               /\ job[c].state = "queued" \/ (job[c].state = "running" /\ job[c].lease = "expired")
               /\ job[c].pause # "waits"
               /\ \E w \in Workers : /\ work[w].pc \in {"idle", "locked"} /\ work'[w].of = c
                                     /\ work'[w].fence = job'[c].fence /\ work'[w].claim = seen.claims[c] + 1
        /\ job'[c].state = "running" /\ job[c].state # "running" => Claimed(c)
        /\ job'[c].attempts # job[c].attempts =>
               \/ Claimed(c) \/ DeferredNow(c)
               \/ job'[c].attempts = 0 /\ (job[c].state = "failed" \/ job'[c].state = "absent")]_vars
\* An outage costs no attempt: the job has as many as before it was claimed, it pauses, and its deferrals are bounded.
DeferralsAreFree ==
    [][\A c \in Ids : job'[c].deferrals # job[c].deferrals => DeferredNow(c) \/ job'[c].deferrals = 0]_vars
\* Results, the capture's state and the end of the job are one transaction of the worker that holds the job's number,
\* and the row names the series that it put.
DoneAtOnce ==
    [][\A c \in Ids : cap'[c].state = "done" /\ cap[c].state # "done" =>
           /\ job[c].state = "running" /\ job'[c].state = "done" /\ job'[c].lease = "none"
           /\ \E w \in Workers : /\ work[w].of = c /\ work[w].fence = job[c].fence /\ work[w].pc = "writing"
                                 /\ cap'[c].named = work[w].fence]_vars
\* A worker that gives its job back, fails it or is declared dead moves the job's row once and the capture with it; the
\* job has failed when no attempt is left, when outages did not end, or when its input is at fault.
EndsWithItsCapture ==
    [][\A c \in Ids : job[c].state \in {"queued", "running"} /\ job'[c].state = "failed" =>
           /\ cap'[c].state = "failed" /\ job'[c].lease = "none" /\ job'[c].fence = job[c].fence
           /\ job[c].attempts >= AttemptsMax \/ (DeferralsMax > 0 /\ job[c].deferrals >= DeferralsMax) \/ \E w \in Workers : work[w].of = c /\ work[w].fence = job[c].fence
                                                                   /\ work[w].pc = "running" /\ work'[w].pc = "idle"]_vars
\* Wake-ups are of jobs that were committed: none is made up, and none is sent for a job that never was.
WakeUpsOfJobs == \A c \in msgs : c \in seen.promised \/ seen.claims[c] > 0 \/ \E d \in Deletes : del[d].of = c

EveryJobEnds == \A c \in Ids : Present(c) ~> cap[c].state \in {"done", "failed", "absent"}
EveryRequestEnds ==
    /\ \A u \in Uploads : api[u].pc = "stored" ~> api[u].pc \in {"done", "dead"}
    /\ \A d \in Deletes : del[d].pc = "locked" ~> del[d].pc \in {"done", "dead"}
\* What no row names does not stay in the store: above all, the bytes of a capture that was deleted.
StraysGo == []<>(StrayBytes = {} /\ StraySeries = {})
\* Nothing unpublished stays for ever, and nothing of a capture that was deleted.
UnseenGoes == []<>(\A a \in attempts : ~ Abandoned(a))
\* Nobody holds a job's row for ever, also where workers hang: a DELETE gets it.
RowsComeFree == \A c \in Ids : []<>JobFree(c)
\* A job whose worker is not heard of is taken from it, whatever its worker does: it may hang for ever.
Succeeded == \A c \in Ids : job[c].lease = "expired" ~> job[c].lease # "expired"
=============================================================================
