-------------------------- MODULE PictureJobLifecycle --------------------------
(* What is drawn: the job's row. Steps that do not change it are left out. *)
EXTENDS MCJobLifecycle
VARIABLE drawn

Look ==
    CASE job[1].state = "running" -> [job |-> "running", lease |-> job[1].lease]
      [] job[1].pause # "none" -> [job |-> "queued", pause |-> job[1].pause]
      [] OTHER -> [job |-> job[1].state]
Drawn(step) == drawn' = <<IF Look' = Look THEN "another" ELSE step, Look'>>

\* After two claims of job 1, the one that is drawn, there is nothing new to be seen.
FewClaims == job[1].fence <= 2 /\ ~ Present(2)

PictureInit == Init /\ drawn = <<"", Look>>
PictureNext ==
    \/ (\E u \in Uploads : Insert(u)) /\ Drawn("Insert")
    \/ (\E u \in Uploads : RestartRead(u)) /\ Drawn("RestartRead: asked for again")
    \/ (\E d \in Deletes : DeleteRow(d)) /\ Drawn("DeleteRow")
    \/ (\E w \in Workers, c \in Ids : Claim(w, c)) /\ Drawn("Claim: fence + 1, attempts + 1")
    \/ (\E w \in Workers : Commit(w)) /\ Drawn("Commit: results")
    \/ (\E w \in Workers : Fail(w)) /\ Drawn("Fail: input at fault")
    \/ (\E w \in Workers : Fault(w)) /\ Drawn("Fault: a pause, or failed")
    \/ (\E w \in Workers : Defer(w)) /\ Drawn("Defer: attempts - 1, a pause, or failed")
    \/ (\E w \in Workers : Renew(w)) /\ Drawn("Renew")
    \/ (\E c \in Ids : Expire(c)) /\ Drawn("Expire")
    \/ (\E c \in Ids : PauseEnds(c)) /\ Drawn("PauseEnds")
    \/ (\E c \in Ids : SweepBack(c)) /\ Drawn("SweepBack")
    \/ (\E c \in Ids : GiveUp(c)) /\ Drawn("GiveUp: attempts used up")
    \/ /\ \/ \E u \in Uploads : Wake(u) \/ ApiDies(u) \/ \E c \in Ids : Read(u, c)
          \/ \E d \in Deletes : RemoveObjects(d) \/ DeleteDies(d) \/ \E c \in Ids : LockJob(d, c)
          \/ \E w \in Workers : \/ Begin(w) \/ Begun(w) \/ PutSeries(w) \/ Hold(w) \/ RollBack(w) \/ Unsure(w) \/ Abandon(w)
                                \/ Tidy(w) \/ Die(w)
          \/ \E c \in Ids : LoseMessage(c)
          \/ SendAgain \/ SweeperDies \/ Collect
       /\ Drawn("another")
===============================================================================
