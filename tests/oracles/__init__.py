# ruff: noqa: E402
"""What the integers of each controller must equal: its formula over exact rationals, or over unbounded integers.

A new controller has a line in `PAPER`; in `KERNEL` too where it follows Linux's integers.
"""

from __future__ import annotations

from tests.outcomes import watch

watch(__name__)  # the modules below note what they decide

from tests.oracles.bbr import Bbr, KernelBbr
from tests.oracles.bbr3 import Bbr3
from tests.oracles.coupled import Balia, Coupled, CoupledFull, Lia, Olia
from tests.oracles.cubic import LinuxCubic, Rfc9438
from tests.oracles.dctcp import Dctcp, KernelDctcp
from tests.oracles.high_speed import Htcp, Illinois, Scalable, Vegas
from tests.oracles.linux import KernelBalia, KernelLia, KernelOlia, KernelReno, KernelWvegas
from tests.oracles.normalised import Enmcc, EnmccPlus, Nmcc
from tests.oracles.paths import Oracle, Path
from tests.oracles.reno import Ewtcp, NewReno
from tests.oracles.sets import Dwc, MptcpSbd, Sbcc
from tests.oracles.slow_starts import Css, Lisa, Tccc, TcccPlus
from tests.oracles.westwood import KernelWestwood, Westwood

PAPER: dict[str, type[Oracle]] = {
    "newreno": NewReno,
    "uncoupled": NewReno,
    "ewtcp": Ewtcp,
    "coupled": Coupled,
    "coupled-full": CoupledFull,
    "lia": Lia,
    "olia": Olia,
    "balia": Balia,
    "nmcc": Nmcc,
    "enmcc": Enmcc,
    "enmcc+": EnmccPlus,
    "css": Css,
    "tccc": Tccc,
    "tccc+": TcccPlus,
    "lisa": Lisa,
    "sbcc": Sbcc,
    "dwc": Dwc,
    "mptcp-sbd": MptcpSbd,
    "dctcp": Dctcp,
    "westwood": Westwood,
    "htcp": Htcp,
    "illinois": Illinois,
    "scalable": Scalable,
    "vegas": Vegas,
}
"""Fractional windows: steps within the bound that the tests state."""

KERNEL: dict[str, type[KernelReno]] = {
    "newreno": KernelReno,
    "uncoupled": KernelReno,
    "lia": KernelLia,
    "olia": KernelOlia,
    "balia": KernelBalia,
    "wvegas": KernelWvegas,
    "dctcp": KernelDctcp,
    "westwood": KernelWestwood,
}
"""Whole windows: equal to the last bit."""

OTHER = {"cubic": (LinuxCubic, Rfc9438), "bbr": (Bbr, KernelBbr), "bbr3": (Bbr3,)}
"""With a test of their own."""

__all__ = ["KERNEL", "OTHER", "PAPER", "Bbr", "Bbr3", "KernelBbr", "LinuxCubic", "Oracle", "Path", "Rfc9438"]
