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
=============================================================================
