------------------------- MODULE MCForwardPrediction -------------------------
(* Bounds for TLC: see the .cfg files. A configuration cannot write a function, so the networks are here. *)
EXTENDS ForwardPrediction
OneAndThree == {<<1, 3>>}
OneAndFour == {<<1, 4>>}
OneAndTen == {<<1, 10>>}
Changing == {<<1, 3>>, <<3, 1>>}
Equal == {<<2, 2>>}
OneTwoFour == {<<1, 2, 4>>}
FarMiddle == {<<1, 8, 16>>}
Four == {<<1, 2, 3, 4>>}
TwoEqual == {<<1, 3, 3>>}
Three == <<3, 3>>
OneEach == <<1, 1>>
OneEach3 == <<1, 1, 1>>
OneEach4 == <<1, 1, 1, 1>>
Alone2 == <<0, 0>>
Together2 == <<1, 1>>
Alone3 == <<0, 0, 0>>
Pairs4 == <<1, 1, 2, 2>>
Together3 == <<1, 1, 1>>
ThreeOneEight == {<<1, 1, 1, 8>>}
LastTwo == <<0, 0, 1, 1>>

(* For mutants: every step from many situations, whether or not there is a way to them. *)
InitJudge ==
    /\ acked \in {{}, {1, 2}} /\ rtt \in Rtts
    /\ cwnd \in {[r \in Subflows |-> 1], [r \in Subflows |-> IF r = 1 THEN 1 ELSE WindowMax], [r \in Subflows |-> WindowMax]}
    /\ written \in {2, Data} /\ (acked = {} => written <= Buffer) /\ troubles \in {0, 1}
    /\ \E a \in {{}, {1}, {1, 2}}, b \in {{}, {2}} : a \cap b = {} /\ flight = [r \in Subflows |-> IF r = 1 THEN a ELSE IF r = 2 THEN b ELSE {}]
    /\ \A r \in Subflows : flight[r] \cap acked = {}
    /\ (\E e \in {<<{}, {}>>, <<{1}, {}>>, <<{}, {2}>>} : lost = e[1] /\ closed = e[2]) /\ \A r \in closed : flight[r] = {}
    /\ \E more \in {{}, {1}, Subflows} : carried = [s \in Segments |-> {r \in Subflows : s \in flight[r] \/ (s = 1 /\ flight[1] = {} /\ r \in more)}]
\* The same of more subflows, of which one may be closed.
InitJudgeMany ==
    /\ rtt \in Rtts /\ cwnd \in [Subflows -> 1..WindowMax] /\ written \in {1, Data} /\ troubles = 1
    /\ closed \in {{}, {1}, {3}}
    /\ \E r \in Subflows : flight \in {[q \in Subflows |-> {}], [q \in Subflows |-> IF q = r /\ q \notin closed THEN {1} ELSE {}]}
    /\ \E r \in Subflows : cwnd[r] = WindowMax
    /\ acked = {} /\ lost = {} /\ carried = [s \in Segments |-> {r \in Subflows : s \in flight[r]}]
FirstStep == TLCGet("level") < 1
=============================================================================
