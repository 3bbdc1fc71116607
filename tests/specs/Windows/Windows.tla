------------------------------- MODULE Windows -------------------------------
(* Windows of subflows that grow by ACKs and halve by losses: a small machine *)
(* for the tests of model checks.                                             *)
EXTENDS Integers
CONSTANTS Subflows, Limit, Step
VARIABLE cwnd

Init == cwnd = [s \in Subflows |-> 1]
Ack(s) == cwnd[s] < Limit /\ cwnd' = [cwnd EXCEPT ![s] = @ + Step]
Loss(s) == cwnd[s] > 1 /\ cwnd' = [cwnd EXCEPT ![s] = @ \div 2]
Next == \E s \in Subflows : Ack(s) \/ Loss(s)

Bounded == \A s \in Subflows : cwnd[s] <= Limit
=============================================================================
