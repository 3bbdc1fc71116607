------------------------- MODULE MCForwardPrediction -------------------------
(* Bounds for TLC: see the .cfg files. A configuration cannot write a function, so the networks are here. *)
EXTENDS ForwardPrediction
OneAndThree == {<<1, 3>>}
OneAndTen == {<<1, 10>>}
Changing == {<<1, 3>>, <<3, 1>>}
Equal == {<<2, 2>>}
OneTwoFour == {<<1, 2, 4>>}
FarMiddle == {<<1, 8, 16>>}
TwoEqual == {<<1, 3, 3>>}
Two == <<2, 2>>
OneEach == <<1, 1>>
OneOneOne == <<1, 1, 1>>
LargeMiddle == <<1, 8, 1>>
Alone2 == <<0, 0>>
Together2 == <<1, 1>>
Alone3 == <<0, 0, 0>>
Together3 == <<1, 1, 1>>
=============================================================================
