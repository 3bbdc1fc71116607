------------------------ MODULE MCCoupledSlowStart ------------------------
(***************************************************************************)
(* A finite model of CoupledSlowStart.  alpha is measured by its           *)
(* logarithm, 1000 ln alpha: a join then multiplies and divides integers   *)
(* (ln alpha' = ln alpha ln(con/after) / ln(con/before)).                  *)
(***************************************************************************)
EXTENDS CoupledSlowStart, Sequences, TLC

\* 1000 ln n, n = 1, 2, ..., 64
LnTable ==
    <<0, 693, 1099, 1386, 1609, 1792, 1946, 2079, 2197, 2303, 2398, 2485, 2565, 2639, 2708, 2773,
      2833, 2890, 2944, 2996, 3045, 3091, 3135, 3178, 3219, 3258, 3296, 3332, 3367, 3401, 3434, 3466,
      3497, 3526, 3555, 3584, 3611, 3638, 3664, 3689, 3714, 3738, 3761, 3784, 3807, 3829, 3850, 3871,
      3892, 3912, 3932, 3951, 3970, 3989, 4007, 4025, 4043, 4060, 4078, 4094, 4111, 4127, 4143, 4159>>
Ln(n) == LnTable[n]

\* 1000 (e^(x/1000) - 1), by its series: within 1 % for x up to 1000
ExpMinusOne(x) ==
    LET two == (x * x) \div 2000  three == (two * x) \div 3000  four == (three * x) \div 4000  five == (four * x) \div 5000
    IN x + two + three + four + five

\* (alpha^(R_r/min R) - 1) n segments, rounded down to units, but never to nothing: the code carries what is left
\* of a unit to the next ACK (cwnd_rem_q40), so that every ACK counts.
MCGrowth(a, r, least, n) ==
    LET x == IF r = NoSample \/ r <= least THEN a ELSE (a * r) \div least
        units == (ExpMinusOne(x) * n * Segment) \div 1000
    IN {IF a > AlphaOne THEN Max(units, 1) ELSE units}

\* Rounded up, so that alpha stays above 1 where it is. No alpha keeps the time of a total that has none to con_ssth, or that is
\* no total: the machine must not ask for it.
MCRescale(a, total, after) ==
    IF total \notin 1 .. (ConSsthresh - 1) \/ after < 1 THEN {}
    ELSE LET up == Ln(ConSsthresh) - Ln(after)  down == Ln(ConSsthresh) - Ln(total)
         IN {(a * up + down - 1) \div down}

\* One unit for an ACK, less than a segment, which is all that this specification asks of it; no more above con_ssth,
\* nor for less than a segment, so that there are fewer states.
MCAvoidance(w, left) == IF w < ConSsthresh /\ Segment > 1 /\ left >= Segment THEN {1} ELSE {0}

\* Exact: RateUnit is a multiple of every RTT.
MCRate(w, r, least) == w * least * (RateUnit \div r)

\* After the exit nothing depends on RTTs and alpha any more: states that differ in those only are one.
View == <<life, cwnd, ssthresh, initial, before, conInitial, IF conInitial THEN <<rtt, alpha>> ELSE <<>>>>

\* What a join, a close and a verdict are for: at the new pace the new total takes as long to con_ssth as the old total did.
\* (alpha is rounded up by less than 1, and is not above alpha0.)
LnTo(w) == Ln(ConSsthresh) - Ln(w)
Rejoined == conInitial /\ conInitial' /\ Counted # {} /\ Counted' # {} /\ Counted # Counted' /\ Coupled' # {}
TimeKept ==
    [][ Rejoined /\ TotalOf(Counted, NoSample) < ConSsthresh =>
          LET total == TotalOf(Counted, NoSample)
              after == Sum([s \in Subflows |-> IF s \in Counted' THEN cwnd'[s] ELSE 0], Counted')
              miss == alpha' * LnTo(total) - alpha * LnTo(after)
          IN after > 0 => \/ (miss >= 0 /\ miss < LnTo(total)) \/ alpha' = AlphaStart ]_vars

\* C-9: joins add windows, the exit adds rates. By rates, at the smallest RTT that there is then, a join must not make
\* the way to the exit twice as long ...
RateOf(w, S) == Sum([s \in Subflows |-> IF s \in S THEN MCRate(w[s], rtt'[s], SmallestOf(rtt', Live')) ELSE 0], S)
JoinKeepsPace ==
    [][ Rejoined /\ Joins # {} =>
          alpha * LnTo(RateOf(cwnd', Live') \div RateUnit) <= 2 * alpha' * LnTo(RateOf(cwnd, Live) \div RateUnit) ]_vars
\* ... nor make the connection leave before the expected rate.
JoinExitsAtRate == [][ Exits /\ Joins # {} /\ Coupled # {} => RateOf(cwnd', Live') >= ConSsthresh * RateUnit ]_vars

Symmetry == Permutations(Subflows)
=============================================================================
