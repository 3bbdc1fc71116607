--------------------------- MODULE JobLifecycleSteps ---------------------------
(***************************************************************************)
(* What each step of JobLifecycle may change, and when it must be possible. *)
(* The actions are written by what happens; these properties are written by *)
(* who moves and by which table, object or message changes.  `make          *)
(* specs-mutants` judges with them.  They write out whom they speak of      *)
(* (cap[c].state = "absent"), so that a mistake in a definition which the   *)
(* actions share is seen, too.                                              *)
(*                                                                         *)
(* The judges take one step from each situation of JudgeInit, so that a run *)
(* is short and every branch of every action is taken. Whether a situation  *)
(* can be reached does not matter.                                         *)
(***************************************************************************)
EXTENDS MCJobLifecycle

\* True of the states that a judge begins in.
OneStep == TLCGet("level") < 1

(* Rows, locks and objects, written once more. *)

There == {c \in Ids : cap[c].state \in Rows \ {"absent"}}
JobLocked(c) ==
    \/ \E u \in Uploads : api[u] = [pc |-> "found", of |-> c]
    \/ \E d \in Deletes : del[d] = [pc |-> "locked", of |-> c]
    \/ \E w \in Workers : work[w].of = c /\ work[w].pc \in {"beginning", "writing"}
CapLocked(c) == \E u \in Uploads : api[u] = [pc |-> "merging", of |-> c]

\* The row of the job has the worker's number: nobody has claimed the job since.
Mine(w) == <<job[work[w].of].state, job[work[w].of].fence>> = <<"running", work[w].fence>>
WithRows == Kind = "capture" /\ Batches >= 1
OpenAttempts(w) == {a \in attempts : <<a.cap, a.fence, a.closed>> = <<work[w].of, work[w].fence, FALSE>>}
AllBatches(w) == \E a \in OpenAttempts(w) : a.by = work[w].claim /\ a.rows = Batches
OthersSeries(w) == {s \in series : <<s.cap, s.key>> # <<work[w].of, work[w].fence>>}

\* Nothing but what is named changes: f at x.
Elsewhere(new, old, x) == \A y \in DOMAIN old \ {x} : new[y] = old[y]

-----------------------------------------------------------------------------
(* Requests. *)

\* Where a request may be after one step of its own: it goes on if the rows that it needs are free, and it may die once
\* it has begun.
RequestGoesTo(u) ==
    LET r == api[u]
        dead == IF r.pc \in {"stored", "found", "merging", "read", "committed"} THEN {[r EXCEPT !.pc = "dead"]} ELSE {}
        answered == {[r EXCEPT !.pc = IF job[r.of].state = "failed" THEN "committed" ELSE "done"]}
    IN dead \cup
       CASE r.pc = "idle" /\ Kind = "capture" -> {[r EXCEPT !.pc = "stored"]}
         [] r.pc = "idle" /\ Kind = "replay" /\ There = {} ->
                IF u \in seen.deleted THEN {} ELSE {[pc |-> "committed", of |-> u]}
         [] r.pc = "idle" /\ Kind = "replay" /\ There # {} ->
                {[pc |-> IF cap[c].state = "failed" THEN "read" ELSE "done", of |-> c] : c \in There}
         [] r.pc = "stored" /\ Kind = "capture" /\ There = {} -> {[pc |-> "committed", of |-> u]}
         [] r.pc = "stored" /\ Kind = "capture" /\ There # {} ->
                {[pc |-> "found", of |-> c] : c \in {c \in There : ~JobLocked(c)}}
         [] r.pc = "found" -> IF CapLocked(r.of) THEN {} ELSE answered
         [] r.pc \in {"merging", "read"} -> IF JobLocked(r.of) THEN {} ELSE answered
         [] r.pc = "committed" -> {[r EXCEPT !.pc = "done"]}
         [] OTHER -> {}

RequestStep(u) == Api(u) \/ ApiDies(u)
RequestsGoOn ==
    OneStep => \A u \in Uploads :
        /\ \A to \in RequestGoesTo(u) : ENABLED (RequestStep(u) /\ api'[u] = to)
        \* Redis may be away when the wake-up is sent, or not.
        /\ api[u].pc = "committed" =>
               \A sent \in {{}, {api[u].of}} : ENABLED (RequestStep(u) /\ api'[u].pc = "done" /\ msgs' = msgs \cup sent)
RequestsGoNowhereElse == [][ \A u \in Uploads : api'[u] # api[u] => api'[u] \in RequestGoesTo(u) ]_vars

\* A job as it is queued for the first time, or anew: all attempts are left, and the time counts from now on.
BeginsAnew(c) ==
    /\ cap'[c].state = "queued" /\ job'[c].state = "queued"
    /\ job'[c].attempts = 0 /\ job'[c].deferrals = 0 /\ job'[c].lease = "none" /\ job'[c].pause = "none"
    /\ job'[c].queued = clock /\ job'[c].sent = clock /\ seen'.since[c] = clock
    /\ Elsewhere(cap', cap, c) /\ Elsewhere(job', job, c) /\ Elsewhere(seen'.since, seen.since, c)

RequestsChange ==
    [][ \A u \in Uploads : api'[u] # api[u] =>
          LET was == api[u]  is == api'[u]  dies == is.pc = "dead" IN
          /\ attempts' = attempts /\ series' = series /\ del' = del /\ work' = work /\ sweeper' = sweeper /\ clock' = clock
          /\ Elsewhere(api', api, u)
          \* Its own copy of the bytes comes first, and goes when the same bytes are there already.
          /\ bytes' = CASE is.pc = "stored" -> bytes \cup {u}
                        [] was.pc \in {"found", "merging"} /\ ~dies -> bytes \ {u}
                        [] OTHER -> bytes
          /\ msgs' # msgs => was.pc = "committed" /\ ~dies /\ msgs' = msgs \cup {was.of}
          \* It promises a capture when it is about to answer with it, and its steps make nothing else known.
          /\ seen'.promised = seen.promised \cup (IF is.pc \in {"read", "done", "committed"} /\ was.pc \notin {"read", "committed"}
                                                  THEN {is.of} ELSE {})
          /\ [seen' EXCEPT !.promised = {}, !.since = 0] = [seen EXCEPT !.promised = {}, !.since = 0]
          /\ IF is.pc = "committed"
             THEN /\ BeginsAnew(is.of)
                  /\ IF There = {}
                     THEN cap'[u].named = None /\ cap'[u].shows = None /\ job'[u].fence = 0 /\ job'[u].made = clock
                     ELSE /\ cap'[is.of].named = cap[is.of].named /\ cap'[is.of].shows = cap[is.of].shows
                          /\ job'[is.of].fence = job[is.of].fence /\ job'[is.of].made = job[is.of].made
             ELSE cap' = cap /\ job' = job /\ seen'.since = seen.since ]_vars

-----------------------------------------------------------------------------
(* Deletes. *)

DeleteGoesTo(d) ==
    LET r == del[d]
        dead == IF r.pc \in {"locked", "deleted"} THEN {[r EXCEPT !.pc = "dead"]} ELSE {}
    IN dead \cup
       CASE r.pc = "idle" -> {[pc |-> "locked", of |-> c] : c \in {c \in There : ~JobLocked(c)}}
         [] r.pc = "locked" -> IF CapLocked(r.of) THEN {} ELSE {[r EXCEPT !.pc = "deleted"]}
         [] r.pc = "deleted" -> {[r EXCEPT !.pc = "done"]}
         [] OTHER -> {}
DeletesGoOn ==
    OneStep => \A d \in Deletes, to \in {[pc |-> p, of |-> c] : p \in {"locked", "deleted", "done", "dead"}, c \in Ids} :
        (to \in DeleteGoesTo(d)) = ENABLED ((Delete(d) \/ DeleteDies(d) \/ \E c \in Ids : LockJob(d, c)) /\ del'[d] = to)

\* The rows go at once, the objects afterwards, and a delete that dies changes nothing.
DeletesChange ==
    [][ \A d \in Deletes : del'[d] # del[d] =>
          LET c == del'[d].of  is == del'[d].pc IN
          /\ del'[d] \in DeleteGoesTo(d)
          /\ attempts' = attempts /\ msgs' = msgs /\ api' = api /\ work' = work /\ sweeper' = sweeper /\ clock' = clock
          /\ Elsewhere(del', del, d)
          /\ Elsewhere(cap', cap, c) /\ Elsewhere(job', job, c)
          /\ IF is = "deleted"
             THEN /\ cap'[c] = [state |-> "absent", named |-> 0, shows |-> 0]
                  /\ job'[c] = [state |-> "absent", attempts |-> 0, deferrals |-> 0, fence |-> 0, lease |-> "none",
                                pause |-> "none", made |-> 0, queued |-> 0, sent |-> 0]
                  /\ seen' = [seen EXCEPT !.deleted = @ \cup {c}]
             ELSE cap' = cap /\ job' = job /\ seen' = seen
          /\ IF is = "done"
             THEN /\ \A b \in Ids : b \in bytes' <=> b \in bytes /\ b # c
                  /\ \A s \in series : s \in series' <=> s.cap # c
                  /\ series' \subseteq series
             ELSE bytes' = bytes /\ series' = series ]_vars

-----------------------------------------------------------------------------
(* Workers. *)

NoWork == [pc |-> "idle", of |-> 0, fence |-> 0, claim |-> 0]
To(w, pc) == {[work[w] EXCEPT !.pc = pc]}
ToOrLost(w, pc) == IF JobLocked(work[w].of) THEN {} ELSE To(w, IF Mine(w) THEN pc ELSE "lost")

\* A job may be claimed that waits and does not pause, or whose worker is not heard of; while an attempt is left.
MayBeClaimed(c) ==
    /\ c \in msgs /\ ~JobLocked(c) /\ job[c].attempts + 1 <= AttemptsMax
    /\ <<job[c].state, job[c].pause>> \in {<<"queued", "none">>, <<"queued", "over">>}
          \/ <<job[c].state, job[c].lease>> = <<"running", "expired">>

\* Where a worker may be after one step with which it goes on.
WorkerGoesTo(w) ==
    LET c == work[w].of IN
    CASE work[w].pc = "idle" ->
            {[pc |-> "claimed", of |-> k, fence |-> job[k].fence + 1, claim |-> seen.claims[k] + 1] :
             k \in {k \in Ids : MayBeClaimed(k)}}
      [] work[w].pc = "claimed" -> ToOrLost(w, "beginning")
      [] work[w].pc = "beginning" -> IF CapLocked(c) THEN {} ELSE To(w, "running")
      [] work[w].pc = "running" -> IF Kind = "replay" \/ c \in bytes THEN To(w, "put") ELSE {}
      [] work[w].pc = "put" -> ToOrLost(w, IF WithRows THEN "storing" ELSE "writing")
      [] work[w].pc = "storing" /\ ~AllBatches(w) -> To(w, IF OpenAttempts(w) = {} THEN "lost" ELSE "adding")
      [] work[w].pc = "storing" /\ AllBatches(w) -> IF WithRows THEN ToOrLost(w, "writing") ELSE {}
      [] work[w].pc = "adding" -> To(w, "storing")
      [] work[w].pc = "writing" -> To(w, "unsure") \cup (IF CapLocked(c) THEN {} ELSE To(w, "tidy"))
      [] OTHER -> {}
WorkerStep(w) == Work(w) \/ \E c \in Ids : Claim(w, c)
WorkersGoOn ==
    OneStep => \A w \in Workers :
        /\ \A to \in WorkerGoesTo(w) : ENABLED (WorkerStep(w) /\ work'[w] = to)
        \* Redis delivers at least once.
        /\ \A to \in WorkerGoesTo(w) : to.pc = "claimed" =>
               \A taken \in {{}, {to.of}} : ENABLED (WorkerStep(w) /\ work'[w] = to /\ msgs' = msgs \ taken)
        \* The answer to a commit may be lost, whether it was committed or not.
        /\ work[w].pc = "writing" =>
               /\ ENABLED (WorkerStep(w) /\ work'[w].pc = "unsure" /\ seen' = seen)
               /\ CapLocked(work[w].of) = ~ENABLED (WorkerStep(w) /\ work'[w].pc = "unsure" /\ seen' # seen)
WorkersGoNowhereElse ==
    [][ \A w \in Workers : work'[w] # work[w] => work'[w] = NoWork \/ work'[w] \in WorkerGoesTo(w) ]_vars

\* What a worker that goes on changes beside its place.
WorkersChange ==
    [][ \A w \in Workers : work'[w] # work[w] /\ work'[w] # NoWork =>
          LET c == work'[w].of  was == work[w].pc  is == work'[w].pc
              commits == was = "writing" /\ (is = "tidy" \/ seen' # seen) IN
          /\ bytes' = bytes /\ api' = api /\ del' = del /\ sweeper' = sweeper /\ clock' = clock
          /\ Elsewhere(work', work, w) /\ Elsewhere(job', job, c) /\ Elsewhere(cap', cap, c)
          /\ msgs' \in {msgs, IF is = "claimed" THEN msgs \ {c} ELSE msgs}
          /\ job'[c] = CASE is = "claimed" ->
                               [job[c] EXCEPT !.state = "running", !.lease = "valid", !.pause = "none",
                                              !.attempts = job[c].attempts + 1, !.fence = work'[w].fence]
                         [] commits -> [job[c] EXCEPT !.state = "done", !.lease = "none"]
                         [] OTHER -> job[c]
          /\ cap'[c] = CASE is = "running" -> [cap[c] EXCEPT !.state = "running"]
                         [] commits -> [state |-> "done", named |-> work[w].fence,
                                        shows |-> IF OpenAttempts(w) = {} THEN 0 ELSE work[w].fence]
                         [] OTHER -> cap[c]
          /\ series' = IF is = "put"
                       THEN OthersSeries(w) \cup {[cap |-> c, key |-> work[w].fence, by |-> work[w].claim]} ELSE series
          /\ CASE was = "put" /\ is = "storing" ->
                      attempts' = attempts \cup {[cap |-> c, fence |-> work[w].fence, by |-> work[w].claim, rows |-> 0,
                                                  closed |-> FALSE]}
               [] was = "adding" ->
                      /\ attempts' \ attempts = {[a EXCEPT !.rows = a.rows + 1] : a \in OpenAttempts(w)}
                      /\ attempts \ attempts' = OpenAttempts(w)
               [] OTHER -> attempts' = attempts
          /\ seen' = CASE is = "claimed" -> [seen EXCEPT !.claims[c] = work'[w].claim]
                       [] commits -> [seen EXCEPT !.written[c] = seen.written[c] + 1, !.by[c] = work[w].claim]
                       [] OTHER -> seen ]_vars

\* What may be when a worker leaves its job: of the job's row, whether the capture's state follows, and of its series. It
\* releases the job after an error, defers it for an outage, fails it, or takes away what it put; each under its number alone.
Released(c) ==
    IF job[c].attempts < AttemptsMax THEN [job[c] EXCEPT !.state = "queued", !.lease = "none", !.pause = "waits"]
    ELSE [job[c] EXCEPT !.state = "failed", !.lease = "none", !.pause = "none"]
PutOff(c) ==
    IF job[c].deferrals < DeferralsMax
    THEN [Released(c) EXCEPT !.state = "queued", !.pause = "waits", !.attempts = job[c].attempts - 1,
                             !.deferrals = job[c].deferrals + 1]
    ELSE [Released(c) EXCEPT !.state = "failed", !.pause = "none"]
Failed(c) == [job[c] EXCEPT !.state = "failed", !.lease = "none"]
Leaves(w, row, left) ==
    LET c == work[w].of
        mine == IF Mine(w) THEN row ELSE job[c]
    IN [job |-> mine, state |-> IF Mine(w) THEN row.state ELSE cap[c].state, series |-> left]
WorkerLeaves(w) ==
    LET c == work[w].of
        pc == work[w].pc
        free == ~JobLocked(c) /\ ~CapLocked(c)
        same == [job |-> job[c], state |-> cap[c].state, series |-> series]
        atWork == pc \in {"claimed", "running", "put", "storing", "adding"}
    IN (IF pc = "idle" THEN {} ELSE {same})     \* it dies
       \cup (IF pc = "lost" THEN {[same EXCEPT !.series = OthersSeries(w)]} ELSE {})
       \cup (IF pc = "tidy" THEN {[same EXCEPT !.series = {s \in series : s.cap = c => s.key >= work[w].fence}]} ELSE {})
       \cup (IF pc = "unsure" /\ ~JobLocked(c) THEN
               {[same EXCEPT !.series = IF <<job[c].state, job[c].fence>> = <<"done", work[w].fence>> THEN series
                                        ELSE OthersSeries(w)]} ELSE {})
       \cup (IF atWork /\ free THEN {Leaves(w, Released(c), OthersSeries(w))} ELSE {})
       \cup (IF atWork /\ free /\ DeferralsMax > 0
             THEN {Leaves(w, PutOff(c), left) : left \in {series, OthersSeries(w)}} ELSE {})
       \cup (IF pc = "running" /\ free THEN {Leaves(w, Failed(c), series)} ELSE {})
WorkersMayLeave ==
    OneStep => \A w \in Workers :
        /\ \A end \in WorkerLeaves(w) :
               ENABLED (WorkerStep(w) /\ work'[w] = NoWork /\ job'[work[w].of] = end.job /\ cap'[work[w].of].state = end.state
                        /\ series' = end.series)
        /\ work[w].pc # "idle" =>
               ENABLED (WorkerStep(w) /\ work'[w] = NoWork /\ job' = job /\ series' = series /\ work[w].of \in msgs')
WorkersLeave ==
    [][ \A w \in Workers : work'[w] = NoWork /\ work[w] # NoWork =>
          LET c == work[w].of IN
          /\ bytes' = bytes /\ api' = api /\ del' = del /\ sweeper' = sweeper /\ clock' = clock /\ seen' = seen
          /\ attempts' = attempts
          /\ Elsewhere(work', work, w) /\ Elsewhere(job', job, c) /\ Elsewhere(cap', cap, c)
          /\ [job |-> job'[c], state |-> cap'[c].state, series |-> series'] \in WorkerLeaves(w)
          /\ cap'[c].named = cap[c].named /\ cap'[c].shows = cap[c].shows
          \* Only a death sends its message again.
          /\ msgs' # msgs => msgs' = msgs \cup {c} /\ job' = job /\ cap' = cap /\ series' = series ]_vars

\* A slow worker is heard of again while the job has its number.
MayRenew(w) ==
    /\ work[w].pc \in {"running", "put", "storing", "adding"} /\ ~JobLocked(work[w].of)
    /\ Mine(w) /\ job[work[w].of].lease = "expired"

-----------------------------------------------------------------------------
(* Time, the sweeper, the collector: what happens while no request, delete or worker moves. *)

Pauses(c) == <<job[c].state, job[c].pause>> = <<"queued", "over">>
IsSilent(c) == <<job[c].state, job[c].lease>> = <<"running", "expired">>
\* Its wake-up is older than ResendAfter, and has been waited for longer than the one before.
LongUnheard(c) ==
    /\ <<job[c].state, job[c].pause>> = <<"queued", "none">>
    /\ \/ clock = ClockMax
       \/ clock - job[c].sent > ResendAfter /\ clock - job[c].sent > job[c].sent - job[c].queued
SweeperTakes(c) == sweeper = 0 /\ ~JobLocked(c) /\ (LongUnheard(c) \/ Pauses(c) \/ IsSilent(c))
IsNamed(s) == cap[s.cap].named = s.key
IsWritten(s) == \E w \in Workers : <<work[w].of, work[w].claim>> = <<s.cap, s.by>>
StraySeriesNow == {s \in series : ~(IsNamed(s) \/ IsWritten(s))}
StrayBytesNow == {c \in bytes : c \notin There /\ api[c].pc \notin {"stored", "found", "merging"}}
\* Rows that nobody sees and nobody writes.
IsNobodys(a) ==
    /\ a.cap \in There => cap[a.cap].shows # a.fence
    /\ job[a.cap].state = "running" => job[a.cap].fence # a.fence
IsAdded(a) == \E w \in Workers : work[w].pc = "adding" /\ a \in OpenAttempts(w)

TheRestGoesOn ==
    OneStep =>
        /\ \A c \in Ids :
               /\ (c \in msgs) = ENABLED (LoseMessage(c) /\ c \notin msgs')
               /\ (<<job[c].state, job[c].lease>> = <<"running", "valid">> /\ ~JobLocked(c))
                  = ENABLED (Expire(c) /\ job'[c].lease = "expired")
               /\ (job[c].pause = "waits" /\ ~JobLocked(c)) = ENABLED (PauseEnds(c) /\ job'[c].pause = "over")
               /\ (SweeperTakes(c) /\ job[c].attempts < AttemptsMax) = ENABLED (SweepBack(c) /\ sweeper' = c)
               /\ (SweeperTakes(c) /\ job[c].attempts >= AttemptsMax /\ ~CapLocked(c))
                  = ENABLED (GiveUp(c) /\ cap'[c].state = "failed")
        /\ \A w \in Workers : MayRenew(w) = ENABLED (Renew(w) /\ job'[work[w].of].lease = "valid")
        /\ (sweeper # 0) = ENABLED (SendAgain /\ sweeper \in msgs')
        /\ (sweeper # 0) = ENABLED (SweeperDies /\ msgs' = msgs /\ sweeper' = 0)
        /\ (StraySeriesNow # {} \/ StrayBytesNow # {}) = ENABLED Collect
        /\ (clock < ClockMax) = ENABLED Tick
        /\ \A a \in attempts :
               /\ (~a.closed /\ IsNobodys(a) /\ ~IsAdded(a))
                  = ENABLED (Close /\ a \notin attempts' /\ [a EXCEPT !.closed = TRUE] \in attempts')
               /\ a.closed = ENABLED (RemoveRows /\ a \notin attempts')

\* One of these at a time, and nothing beside it.
Quiet == api' = api /\ del' = del /\ work' = work
TheRestChanges ==
    [][ Quiet =>
          CASE clock' # clock ->
                   clock' = clock + 1 /\ clock' <= ClockMax
                   /\ <<attempts, cap, job, bytes, series, msgs, sweeper, seen>>' = <<attempts, cap, job, bytes, series, msgs, sweeper, seen>>
            [] sweeper' # sweeper /\ sweeper # 0 ->
                   sweeper' = 0 /\ msgs' \in {msgs, msgs \cup {sweeper}}
                   /\ <<attempts, cap, job, bytes, series, clock, seen>>' = <<attempts, cap, job, bytes, series, clock, seen>>
            [] sweeper' # sweeper /\ sweeper = 0 ->     \* the sweeper takes a job back
                   LET c == sweeper'
                       anew == Pauses(c) \/ IsSilent(c)
                   IN /\ SweeperTakes(c) /\ job[c].attempts < AttemptsMax
                      /\ job'[c] = [job[c] EXCEPT !.state = "queued", !.lease = "none", !.pause = "none", !.sent = clock,
                                                  !.queued = IF anew THEN clock ELSE job[c].queued]
                      /\ Elsewhere(job', job, c)
                      /\ seen' = [seen EXCEPT !.since[c] = IF anew THEN clock ELSE seen.since[c]]
                      /\ <<attempts, cap, bytes, series, msgs>>' = <<attempts, cap, bytes, series, msgs>>
            [] cap' # cap ->                            \* the sweeper gives a job up
                   \E c \in Ids :
                      /\ SweeperTakes(c) /\ job[c].attempts >= AttemptsMax /\ ~CapLocked(c)
                      /\ cap'[c] = [cap[c] EXCEPT !.state = "failed"] /\ Elsewhere(cap', cap, c)
                      /\ job'[c] = Failed(c) /\ Elsewhere(job', job, c)
                      /\ <<attempts, bytes, series, msgs, seen>>' = <<attempts, bytes, series, msgs, seen>>
            [] job' # job ->                            \* a lease runs out or is renewed, a pause ends
                   \E c \in Ids :
                      /\ ~JobLocked(c) /\ Elsewhere(job', job, c)
                      /\ \/ job[c].lease = "valid" /\ job'[c] = [job[c] EXCEPT !.lease = "expired"]
                         \/ job[c].pause = "waits" /\ job'[c] = [job[c] EXCEPT !.pause = "over"]
                         \/ (\E w \in Workers : work[w].of = c /\ MayRenew(w)) /\ job'[c] = [job[c] EXCEPT !.lease = "valid"]
                      /\ <<attempts, bytes, series, msgs, seen>>' = <<attempts, bytes, series, msgs, seen>>
            [] attempts' # attempts ->                  \* one attempt is closed, or one that is closed goes
                   \E a \in attempts :
                      /\ Cardinality(attempts \ attempts') = 1 /\ a \notin attempts'
                      /\ IF a.closed THEN attempts' \subseteq attempts
                         ELSE IsNobodys(a) /\ ~IsAdded(a) /\ attempts' \ attempts = {[a EXCEPT !.closed = TRUE]}
                      /\ <<bytes, series, msgs, seen>>' = <<bytes, series, msgs, seen>>
            [] msgs' # msgs ->                          \* a message gets lost
                   msgs' \subseteq msgs /\ Cardinality(msgs \ msgs') = 1 /\ <<bytes, series, seen>>' = <<bytes, series, seen>>
            [] OTHER ->                                 \* the collector removes what no row names
                   bytes' = bytes \ StrayBytesNow /\ series' = series \ StraySeriesNow /\ seen' = seen ]_vars

---------------------------------------------------------------------------
(* The judges' beginning. *)

D1 == CHOOSE d \in Deletes : TRUE
D2 == CHOOSE d \in Deletes : d # D1
W1 == CHOOSE w \in Workers : TRUE
W2 == CHOOSE w \in Workers : w # W1

Job(state, tried, deferrals, fence, lease, pause) ==
    [state |-> state, attempts |-> tried, deferrals |-> deferrals, fence |-> fence, lease |-> lease, pause |-> pause,
     made |-> 0, queued |-> 0, sent |-> 1]
Waiting == {Job("queued", 0, 0, 0, "none", "none")}
Paused == {Job("queued", 1, 1, 2, "none", p) : p \in {"waits", "over"}}
\* Under number 2, which the worker of a situation has; and under another.
Running == {Job("running", tried, 0, 2, "valid", "none") : tried \in {1, 2}} \cup {Job("running", 2, 1, 2, "expired", "none")}
Taken3 == {Job("running", 2, 0, 3, "expired", "none")}
Ended == {Job("done", 1, 0, 2, "none", "none"), Job("failed", 2, 1, 2, "none", "none")}
Jobs == Waiting \cup Paused \cup Running \cup Taken3 \cup Ended \cup {NoJob}

\* The capture of a job: what its state is, which series and which attempt its row names.
CapOf(j) == [state |-> j.state, named |-> IF j.state = "done" THEN 2 ELSE 0, shows |-> IF j.state = "done" THEN 2 ELSE 0]
Attempt(f, b, r, x) == [cap |-> 1, fence |-> f, by |-> b, rows |-> r, closed |-> x]

\* Capture 1 has job j; nobody knows capture 2. One worker has to tidy up after it, so that each has a place of its own.
Around(j) ==
    [cap |-> [c \in Ids |-> IF c = 1 THEN CapOf(j) ELSE NoCap],
     job |-> [c \in Ids |-> IF c = 1 THEN j ELSE NoJob],
     attempts |-> {}, bytes |-> {1, 2},
     series |-> {[cap |-> 1, key |-> 1, by |-> 1], [cap |-> 1, key |-> 2, by |-> 2], [cap |-> 2, key |-> 2, by |-> 3]},
     msgs |-> {2},
     api |-> [u \in Uploads |-> [pc |-> "done", of |-> u]],
     del |-> [d \in Deletes |-> [pc |-> "done", of |-> 2]],
     work |-> [w \in Workers |-> [pc |-> "tidy", of |-> 2, fence |-> 1, claim |-> IF w = W1 THEN 3 ELSE 4]],
     sweeper |-> 0, clock |-> IF ClockMax = 0 THEN 0 ELSE 2,
     seen |-> [promised |-> {}, deleted |-> {}, claims |-> [c \in Ids |-> IF c = 1 THEN 2 ELSE 4],
               written |-> [c \in Ids |-> 0], by |-> [c \in Ids |-> 0], since |-> [c \in Ids |-> 0]]]

\* Who else holds a row, or is about to: another request, another delete, another worker.
Others == {"nobody", "finds 1", "merges 1", "finds 2", "merges 2", "stored", "deletes 1", "deletes 2", "deleted 1", "writes 1",
           "writes 2", "begins 1", "tidies 1"}
With(s, other) ==
    CASE other = "finds 1" -> [s EXCEPT !.api[1] = [pc |-> "found", of |-> 1]]
      [] other = "finds 2" -> [s EXCEPT !.api[1] = [pc |-> "found", of |-> 2]]
      [] other = "merges 1" -> [s EXCEPT !.api[1] = [pc |-> "merging", of |-> 1]]
      [] other = "merges 2" -> [s EXCEPT !.api[1] = [pc |-> "merging", of |-> 2]]
      [] other = "stored" -> [s EXCEPT !.api[1] = [pc |-> "stored", of |-> 0]]
      [] other = "deletes 1" -> [s EXCEPT !.del[D2] = [pc |-> "locked", of |-> 1]]
      [] other = "deletes 2" -> [s EXCEPT !.del[D2] = [pc |-> "locked", of |-> 2]]
      [] other = "deleted 1" -> [s EXCEPT !.del[D2] = [pc |-> "deleted", of |-> 1]]
      [] other = "writes 1" -> [s EXCEPT !.work[W2] = [pc |-> "writing", of |-> 1, fence |-> 1, claim |-> 1]]
      [] other = "writes 2" -> [s EXCEPT !.work[W2] = [pc |-> "writing", of |-> 2, fence |-> 1, claim |-> 1]]
      [] other = "begins 1" -> [s EXCEPT !.work[W2] = [pc |-> "beginning", of |-> 1, fence |-> 1, claim |-> 1]]
      [] other = "tidies 1" -> [s EXCEPT !.work[W2] = [pc |-> "tidy", of |-> 1, fence |-> 2, claim |-> 1]]
      [] OTHER -> s

RequestPlaces ==
    {[pc |-> p, of |-> 0] : p \in {"idle", "stored"}}
    \cup {[pc |-> p, of |-> 1] : p \in {"found", "merging", "read", "committed", "dead"}}
RequestSituations ==
    {[With(Around(j), other) EXCEPT !.api[2] = r, !.bytes = IF r.pc = "idle" THEN {1} ELSE {1, 2}] :
     j \in Waiting \cup Ended \cup {NoJob}, r \in RequestPlaces, other \in Others}
    \cup {[Around(j) EXCEPT !.api[2] = [pc |-> "idle", of |-> 0], !.seen.deleted = {2}] : j \in Waiting \cup {NoJob}}
DeleteSituations ==
    {[With(Around(j), other) EXCEPT !.del[D1] = r] :
     j \in Waiting \cup {Job("done", 1, 0, 2, "none", "none"), NoJob},
     r \in {[pc |-> "idle", of |-> 0]} \cup {[pc |-> p, of |-> 1] : p \in {"locked", "deleted", "dead"}}, other \in Others}

Mines(pc) == [pc |-> pc, of |-> 1, fence |-> 2, claim |-> 2]
WorkPlaces == {"claimed", "beginning", "running", "put", "storing", "adding", "writing", "tidy", "unsure", "lost"}
OwnRows == {{}, {Attempt(2, 2, 0, FALSE)}, {Attempt(2, 2, Batches, FALSE)}}
OddRows == {{Attempt(2, 2, Batches, TRUE)}, {Attempt(2, 1, Batches, FALSE)}, {Attempt(1, 1, Batches, FALSE)},
            {Attempt(1, 1, 0, FALSE), Attempt(2, 2, 0, FALSE)}, {[Attempt(2, 2, 0, FALSE) EXCEPT !.cap = 2]},
            {[Attempt(2, 2, Batches, FALSE) EXCEPT !.cap = 2], Attempt(2, 2, 0, FALSE)}}
WorkSituations ==
    {[Around(j) EXCEPT !.work[W1] = Mines(pc), !.attempts = {Attempt(2, 2, 0, FALSE)}] : j \in Jobs, pc \in WorkPlaces}
    \cup {[With(Around(j), other) EXCEPT !.work[W1] = Mines(pc), !.attempts = {Attempt(2, 2, Batches, FALSE)}] :
          j \in {Job("running", 1, 0, 2, "valid", "none")}, pc \in WorkPlaces, other \in Others}
    \cup {[Around(j) EXCEPT !.work[W1] = Mines(pc), !.attempts = rows, !.bytes = {2}, !.msgs = {1}] :
          j \in {Job("running", 1, 0, 2, "expired", "none")} \cup Taken3,
          pc \in {"put", "storing", "adding", "writing", "tidy"}, rows \in OwnRows \cup OddRows}
    \* Series of other captures are older than the worker's.
    \cup {[Around(Job("done", 1, 0, 2, "none", "none")) EXCEPT !.work[W1] = Mines("tidy"),
                                                             !.series = @ \cup {[cap |-> 2, key |-> 1, by |-> 4]}]}
    \* The job is done, by this worker or by another.
    \cup {[Around(Job("done", 2, 0, fence, "none", "none")) EXCEPT !.work[W1] = Mines("unsure")] : fence \in {2, 3}}
    \* Another worker has the job now.
    \cup {[Around(j) EXCEPT !.work[W1] = Mines(pc), !.work[W2] = [pc |-> "running", of |-> 1, fence |-> 3, claim |-> 3]] :
          j \in Taken3, pc \in WorkPlaces}
ClaimSituations ==
    {[With(Around(j), other) EXCEPT !.work[W1] = NoWork, !.msgs = m] :
     j \in Jobs \cup {Job("running", 1, 0, 2, "expired", "none"), Job("queued", 2, 0, 2, "none", "none")},
     m \in {{1}, {1, 2}, {2}}, other \in {"nobody", "finds 1", "deletes 2"}}

Swept == Jobs \cup {Job("running", 1, 0, 2, "expired", "none"), Job("queued", 2, 0, 2, "none", "none"),
                   Job("queued", 2, 0, 2, "none", "over")}
SweepSituations ==
    {[Around([j EXCEPT !.sent = sent, !.queued = queued]) EXCEPT !.clock = clk] :
     j \in Swept, sent \in {0, 2, 4}, queued \in {0, 1}, clk \in {1, 2, 3, 4, ClockMax}}
    \cup {[With(Around(j), other) EXCEPT !.sweeper = swept, !.clock = ClockMax] :
          j \in Swept \ Ended, swept \in {0, 1}, other \in {"nobody", "finds 1", "finds 2", "merges 1", "merges 2", "deletes 2"}}
    \cup {[With(Around(j), other) EXCEPT !.sweeper = 2] : j \in Waiting, other \in Others}
    \cup {[Around(j) EXCEPT !.work[W1] = NoWork] : j \in Waiting \cup Ended}
\* Workers that are heard of, or not, before somebody takes their job.
RenewSituations ==
    {[With(Around(j), other) EXCEPT !.work[W1] = Mines(pc)] :
     j \in {Job("running", 1, 0, 2, "expired", "none")} \cup Taken3, pc \in WorkPlaces, other \in {"nobody", "finds 1", "finds 2"}}
\* Which rows and objects nobody needs any more.
StoreSituations ==
    {[Around(j) EXCEPT !.attempts = rows, !.cap[1].shows = shown, !.work[W1] = Mines(pc)] :
     j \in {Job("done", 1, 0, 2, "none", "none"), Job("running", 2, 0, 2, "valid", "none"), NoJob},
     rows \in {{Attempt(1, 1, 0, FALSE), Attempt(2, 2, 0, FALSE)}, {Attempt(1, 1, 0, TRUE), Attempt(2, 2, 0, FALSE)},
               {Attempt(2, 2, 0, TRUE)}},
     shown \in {0, 2}, pc \in {"adding", "tidy", "running"}}
    \cup {[With(Around(j), other) EXCEPT !.bytes = there, !.series = kept] :
          j \in Waiting \cup {NoJob}, there \in {{}, {1}, {2}}, other \in {"nobody", "stored", "finds 1", "merges 1"},
          kept \in {{}, {[cap |-> 1, key |-> 1, by |-> 1]}, {[cap |-> 2, key |-> 2, by |-> 3]}}}

Begins(s) ==
    /\ cap = s.cap /\ job = s.job /\ attempts = s.attempts /\ bytes = s.bytes /\ series = s.series /\ msgs = s.msgs
    /\ api = s.api /\ del = s.del /\ work = s.work /\ sweeper = s.sweeper /\ clock = s.clock /\ seen = s.seen
JudgeRequests == \E s \in RequestSituations \cup DeleteSituations : Begins(s)
JudgeWorkers == \E s \in WorkSituations : Begins(s)
JudgeRest == \E s \in SweepSituations \cup RenewSituations \cup StoreSituations : Begins(s)
\* Without rows of attempts.
PlainSituations ==
    {[Around(j) EXCEPT !.work[W1] = Mines(pc), !.bytes = {2}, !.attempts = rows] :
     j \in Running \cup Taken3, pc \in WorkPlaces, rows \in {{}, {Attempt(2, 2, Batches, FALSE)}}}
JudgeOthers == \E s \in RequestSituations \cup PlainSituations : Begins(s)
JudgeWithoutRows == \E s \in PlainSituations \cup ClaimSituations : Begins(s)
=============================================================================
