"""Intervals of the values that a controller's arithmetic may have, for its specification: 50 digits, from the state
before.

A window may be off by one unit of Q16 and a ten-thousandth of its change; the C code rounds each ratio of RTTs to
1/65536. alpha may be off by the effect of an error of 2^-30 in each logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

from rewindow.controllers.steps import UNSET, PathState, Step

ONE = 65536
RELATIVE = Decimal("1e-4")
ABSOLUTE = 1
RATIO = Decimal(1) / 65536
"""The error of a ratio of RTTs, and so of a rate."""
LOGARITHM = Decimal(2) ** -30
LARGEST = 1 << 40
STATIC_BYTES = 65535
INITIAL_WINDOW = 10

Interval = tuple[int, int]

_CONTEXT = Context(prec=50)


@dataclass(frozen=True)
class Rules:
    """The options of a controller that its specification has; windows in Q16."""

    name: str
    cap_q16: int
    floor_q16: int
    alpha0_q32: int
    con_ssthresh_q16: int
    decrease: str
    same_loss_ratio: Decimal
    safe: bool
    product: bool


def rules_of(name: str, options: Mapping[str, str]) -> Rules:
    """The rules that follow from a controller's options, given as text."""
    q16 = {k: round(Decimal(options[k]) * ONE) for k in ("L", "min_ssthresh", "alpha0", "con_ssthresh")}
    return Rules(
        name=name,
        cap_q16=q16["L"],
        floor_q16=q16["min_ssthresh"],
        alpha0_q32=q16["alpha0"] << 16,
        con_ssthresh_q16=q16["con_ssthresh"],
        decrease=options.get("aca_md", "half"),
        same_loss_ratio=Decimal(options.get("same_loss_ratio", "4")),
        safe=options.get("aca_safe") == "on",
        product=options["alpha_form"] == "product",
    )


def _widened(low: Decimal, high: Decimal, moved: Decimal) -> Interval:
    slack = ABSOLUTE + abs(moved) * RELATIVE
    return (
        max(int((low - slack).to_integral_value(ROUND_FLOOR)), -LARGEST),
        min(int((high + slack).to_integral_value(ROUND_CEILING)), LARGEST),
    )


def static_ssthresh_q16(step: Step) -> int:
    """65535 bytes in segments, rounded down to Q16, and at least two segments."""
    return max(STATIC_BYTES * ONE // (step.mss_bytes or 1460), 2 * ONE)


def con_ssthresh_q16(step: Step) -> int:
    """The option's value, or 65535 bytes in segments (rounded down to Q16)."""
    return step.con_ssthresh_q16 or static_ssthresh_q16(step)


def own_ssthresh_q16(step: Step) -> int:
    """The initial threshold of a subflow: 65535 bytes in segments, or con_ssthresh where that is more."""
    return max(con_ssthresh_q16(step), static_ssthresh_q16(step))


def counted(p: PathState) -> int:
    """A subflow in recovery counts with the window that it will leave recovery with."""
    return max(p.ssthresh_q16 if p.recovering and p.ssthresh_q16 != UNSET else p.cwnd_q16, ONE)


Paths = Sequence[PathState | None]


class Arithmetic:
    """The intervals of one controller's operators."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def rate(self, paths: Paths) -> Interval:
        """sum w_k/R_k as a window at the smallest RTT, Q16."""
        sampled = [p for p in paths if p and p.coupled_rtt_ns]
        least = min((p.coupled_rtt_ns for p in sampled), default=0)
        with localcontext(_CONTEXT):
            rates = [Decimal(counted(p)) * least / p.coupled_rtt_ns for p in sampled]
            # Equal RTTs are not rounded.
            off = sum((r for r, p in zip(rates, sampled, strict=True) if p.coupled_rtt_ns != least), Decimal(0)) * RATIO
            total = sum(rates, Decimal(0))
            return (
                int((total - off).to_integral_value(ROUND_FLOOR)),
                int((total + off).to_integral_value(ROUND_CEILING)),
            )

    def growth(self, paths: Paths, own: PathState, alpha_q32: int, acked: int) -> Interval:
        """(alpha^(R_r/min R) - 1) n, before the cap."""
        least = min((p.coupled_rtt_ns for p in paths if p and p.coupled_rtt_ns), default=0)
        with localcontext(_CONTEXT):
            alpha = Decimal(max(alpha_q32, 1)) / (1 << 32)
            ratio = Decimal(own.coupled_rtt_ns) / least if own.coupled_rtt_ns and least else Decimal(1)
            if self.rules.product:
                grown = alpha * ratio - 1
            else:
                # Beyond e^30 the cap applies.
                grown = alpha - 1 if ratio == 1 else min(ratio * alpha.ln(), Decimal(30)).exp() - 1
            moved = grown * acked * ONE
            # A long RTT multiplies the error of its ratio by the logarithm of alpha.
            off = abs(moved) * RATIO * ratio if ratio != 1 else Decimal(0)
            return _widened(moved - min(off, abs(moved)), moved + off, moved)

    def avoidance(self, paths: Paths, place: int, w_q16: int, left_q16: int) -> Interval:
        """The growth in congestion avoidance for the `left` segments after slow start, at the window w."""
        with localcontext(_CONTEXT):
            moved = self._step(paths, place, Decimal(max(w_q16, 1)) / ONE) * left_q16
            return _widened(moved, moved, moved)

    def _sums(self, paths: Paths, place: int, w: Decimal | None) -> tuple[Decimal, Decimal, Decimal, Decimal]:
        least = min(p.srtt_ns for p in paths if p and p.srtt_ns)
        rate = quad = best = Decimal(0)
        own = Decimal(1)
        for i, p in enumerate(paths):
            if p and p.srtt_ns:
                rho = Decimal(p.srtt_ns) / least
                window = w if i == place and w is not None and not p.recovering else Decimal(counted(p)) / ONE
                rate += window / rho
                quad += window / rho / rho
                best = max(best, window / rho / rho)
                if i == place:
                    own = rho
        return rate, quad, best, own

    def _step(self, paths: Paths, place: int, w: Decimal) -> Decimal:
        reno = 1 / max(w, Decimal(1))
        own = paths[place]
        if own is None or not own.srtt_ns or self.rules.name == "tccc+":
            return reno
        rate, quad, best, rho = self._sums(paths, place, w)
        if self.rules.name == "tccc":
            step = 1 / (rho * quad)
            return min(step, reno) if self.rules.safe else step
        return min(best / rate / rate, reno)

    def reduced(self, before: Step, after: Step) -> Interval | None:
        """Window after a loss, before the floor; None: half of it."""
        place = after.path
        own, then = before.paths[place], after.paths[place]
        if self.rules.name != "tccc" or after.kind == "timeout" or not own or not own.srtt_ns or not then:
            return None
        if before.initial_ss and own.initial:
            return None
        if self.rules.decrease == "half" or (
            self.rules.decrease == "auto" and not self._same_loss(before.paths, place, then)
        ):
            return None
        with localcontext(_CONTEXT):
            rate, quad, _, rho = self._sums(before.paths, place, None)
            decrease = rate * rate / (2 * rho * quad) * ONE
            if self.rules.safe:
                decrease = max(decrease, Decimal(own.cwnd_q16 >> 1))
            low, high = _widened(own.cwnd_q16 - decrease, own.cwnd_q16 - decrease, decrease)
            return max(low, 0), max(high, 0)

    def _same_loss(self, paths: Paths, place: int, then: PathState) -> bool:
        """Whether loss rates count as equal: the largest flights differ by less than a factor, and every subflow has
        had a reduction. This reduction ends an interval of its own subflow."""
        peaks = [
            then.flight_peak_q16 if i == place else p.flight_peak_q16 for i, p in enumerate(paths) if p and p.srtt_ns
        ]
        return min(peaks) > 0 and max(peaks) ** 2 <= int(min(peaks) * self.rules.same_loss_ratio) * min(peaks)

    def rescaled(self, alpha_q32: int, con_q16: int, total_q16: int, after_q16: int) -> Interval:
        """ln alpha ln(con/after) / ln(con/total), Q32."""
        total_q16 = max(total_q16, 1)
        if not total_q16 < con_q16 or not after_q16 < con_q16 or after_q16 <= 0 or alpha_q32 <= 1 << 32:
            return alpha_q32, alpha_q32
        with localcontext(_CONTEXT):
            two = Decimal(2).ln()
            log = (Decimal(alpha_q32) / (1 << 32)).ln()
            above = (Decimal(con_q16) / after_q16).ln() / two
            below = (Decimal(con_q16) / total_q16).ln() / two
            low = log * (above - LOGARITHM) / (below + LOGARITHM)
            high = log * (above + LOGARITHM) / max(below - LOGARITHM, LOGARITHM)
            # Beyond e^8 alpha0 bounds it.
            return tuple(int(min(x, Decimal(8)).exp() * (1 << 32)) + d for x, d in ((low, -4), (high, 4)))  # type: ignore[return-value]
