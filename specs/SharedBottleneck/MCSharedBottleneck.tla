-------------------------- MODULE MCSharedBottleneck --------------------------
(* Bounds for TLC: see the .cfg files. A configuration cannot write a function, so the networks are here. *)
EXTENDS SharedBottleneck, TLC
Shared2 == <<"A", "A">>
Apart2 == <<"A", "B">>
TwoOfThree == <<"A", "A", "B">>
Shared3 == <<"A", "A", "A">>
TwoAndTwo == <<"A", "A", "B", "B">>
ThreeOfFour == <<"A", "A", "A", "B">>

\* Both true sets are final already: shorter ways to what follows from there.
InitVerified ==
    /\ live = First /\ recent = {} /\ hit = {} /\ used = {}
    /\ state = [r \in Subflows |-> "final"]
    /\ members = <<{1, 2}, {3, 4}>> /\ passed = Sets
    /\ alone = [r \in Subflows |-> Nothing] /\ ofset = [i \in Sets |-> Nothing]
    /\ budget = [join |-> JoinMax, close |-> CloseMax, noise |-> NoiseMax]

(* For mutants: every step from many situations, whether or not there is a way to them. *)
Waits(trigger, seen, open) == [waits |-> TRUE, trigger |-> trigger, seen |-> seen, open |-> open]
Table == {
    [m |-> <<{}, {}>>, s |-> <<"monitor", "monitor", "monitor">>, p |-> {}],
    [m |-> <<{1, 2}, {}>>, s |-> <<"judgement", "judgement", "monitor">>, p |-> {}],
    [m |-> <<{}, {1, 2}>>, s |-> <<"final", "final", "monitor">>, p |-> {2}],
    [m |-> <<{2, 3}, {}>>, s |-> <<"monitor", "judgement", "judgement">>, p |-> {}],
    [m |-> <<{1, 2, 3}, {}>>, s |-> <<"final", "final", "final">>, p |-> {1}]}
InitJudge ==
    /\ \E e \in Table : members = e.m /\ state = e.s /\ passed = e.p
    /\ live \in {{1, 2, 3}, {1, 2}} /\ \A i \in Sets : members[i] \subseteq live
    /\ recent \in {{}, {2}, {1, 3}} /\ recent \subseteq live
    /\ hit \in {{}, {1}, {2, 3}} /\ hit \subseteq live
    /\ used = (IF hit = {} THEN recent ELSE {})
    /\ \E a, b \in {Nothing, Waits(1, {}, {}), Waits(1, {2}, {}), Waits(1, {2, 3}, {}), Waits(1, {2}, {2, 3}), Waits(1, {}, {2})} :
           /\ alone = [r \in Subflows |->
                  IF r = 1 /\ state[1] = "monitor" THEN a
                  ELSE IF r = 3 /\ 3 \in live /\ state[3] = "monitor" /\ a.open = {} /\ b.waits
                  THEN [b EXCEPT !.trigger = 3, !.seen = @ \ {3}, !.open = (@ \ {3}) \cup {1}]
                  ELSE Nothing]
           /\ ofset = [i \in Sets |-> IF 1 \in members[i] THEN b ELSE Nothing]
    /\ (\A r \in Subflows : alone[r].seen \cup alone[r].open \subseteq live)
    /\ (\A i \in Sets : ofset[i].seen \cup ofset[i].open \subseteq live)
    /\ budget = [join |-> JoinMax, close |-> CloseMax, noise |-> NoiseMax]
\* Four subflows: two sets of two, where an outsider of one is a member of the other; or a set and two in monitor, whose
\* set gets the other number, also where that was a verified set's.
InitJudge4 ==
    /\ live = Subflows /\ recent \in {{}, {3}} /\ hit = {} /\ used = {}
    /\ budget = [join |-> JoinMax, close |-> CloseMax, noise |-> NoiseMax]
    /\ \/ /\ members = <<{1, 2}, {3, 4}>>
          /\ \E a, b \in {"judgement", "final"} :
                /\ state = <<a, a, b, b>>
                /\ passed = (IF a = "final" THEN {1} ELSE {}) \cup (IF b = "final" THEN {2} ELSE {})
          /\ \E seen \in {{}, {2}, {3}, {2, 3}, {2, 3, 4}}, open \in {{}, {4}} :
                ofset \in {<<Waits(1, seen, open), Nothing>>, <<Waits(1, seen, open), Waits(3, {}, {})>>}
          /\ alone = [r \in Subflows |-> Nothing]
       \/ /\ \E i \in Sets, p \in SUBSET Sets :
                /\ members = [k \in Sets |-> IF k = i THEN {3, 4} ELSE {}]
                /\ passed = p
                /\ state = <<"monitor", "monitor", IF i \in p THEN "final" ELSE "judgement", IF i \in p THEN "final" ELSE "judgement">>
          /\ ofset = [i \in Sets |-> Nothing]
          /\ \E seen \in {{}, {2}, {2, 3}} : alone = [r \in Subflows |-> IF r = 1 THEN Waits(1, seen, {}) ELSE Nothing]
FirstStep == TLCGet("level") < 1
=============================================================================
