"""Numbers from the papers' formulas, step by step, through `rewindow.Controller`.

Whole numbers are equal to the last bit (`mode: linux-int`, estimates, counters); windows in fractions within 1e-3,
steps within 1e-3 of themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rewindow import Controller

ROOT = Path(__file__).parent.parent.parent
FILE = json.loads((ROOT / "tests" / "vectors" / "controllers.json").read_text())
VECTORS: list[dict[str, Any]] = FILE["vectors"]

Inputs = dict[str, Any]
DEFAULT_RTT = 0.1
"""Where a vector leaves it out it does not matter, but that it is the same for all."""


def near(got: float, expected: float) -> bool:
    return got == pytest.approx(expected, rel=1e-3, abs=1e-3)


def near_step(before: float, after: float, expected: float) -> bool:
    return after - before == pytest.approx(expected, rel=1e-3, abs=2**-15)


def number(value: Any) -> float:
    return math.inf if value == "inf" else float(value)


def mode_of(v: Inputs) -> str:
    return "kernel" if v["mode"] == "linux-int" else "paper"


def paths_of(i: Inputs, **more: Any) -> list[dict[str, Any]]:
    """In congestion avoidance, unless more says otherwise."""
    cwnds = i["cwnd"] if isinstance(i["cwnd"], list) else [i["cwnd"]]
    rtts = i.get("rtt") or [x8 / 8e6 for x8 in i.get("srtt_us_x8", [])] or [DEFAULT_RTT] * len(cwnds)
    return [{"cwnd": w, "rtt": r, "ssthresh": 1.0, **more} for w, r in zip(cwnds, rtts, strict=True)]


def with_each(paths: list[dict[str, Any]], key: str, values: list[Any]) -> list[dict[str, Any]]:
    return [{**p, key: value} for p, value in zip(paths, values, strict=True)]


def newreno_ack(v: Inputs) -> None:
    i, e, mode = v["inputs"], v["expected"], mode_of(v)
    path = {"cwnd": i["cwnd"], "rtt": DEFAULT_RTT, "ssthresh": number(i.get("ssthresh", 1.0))}
    c = Controller("newreno", paths=[{**path, "cwnd_cnt": i.get("cwnd_cnt", 0)}], mode=mode)
    c.ack(acked=i["acked"])
    assert c.paths[0].cwnd == e["cwnd"] if mode == "kernel" else near(c.paths[0].cwnd, e["cwnd"])
    if "cwnd_cnt" in e:
        assert c.paths[0].cwnd_cnt == e["cwnd_cnt"]


def newreno_loss(v: Inputs) -> None:
    c = Controller("newreno", paths=paths_of(v["inputs"]), mode=mode_of(v))
    c.loss()
    assert near(c.paths[0].ssthresh, v["expected"]["ssthresh"])


def timeout(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    options = {"aca_md": "eq8"} if v["alg"] == "tccc" else {}
    c = Controller(v["alg"], paths=paths_of(i), mode=mode_of(v), **options)
    c.timeout(path=i.get("i", 0))
    assert near(c.paths[i.get("i", 0)].ssthresh, e["ssthresh"])
    assert c.paths[i.get("i", 0)].cwnd == e["cwnd"]


def lia_ack(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller("lia", paths=paths_of(i), mode="paper")
    c.ack(i["i"], i["acked"])
    assert near(c.paths[i["i"]].cwnd, e["cwnd"])
    assert near_step(i["cwnd"][i["i"]], c.paths[i["i"]].cwnd, i["acked"] * e["inc_per_seg"])
    assert near(c.state["alpha"], e["alpha"])


def lia_module(v: Inputs) -> None:
    """And what the threshold does: one ACK more than it for a segment."""
    i, e = v["inputs"], v["expected"]
    c = Controller("lia", paths=paths_of(i), mode="kernel")
    for _ in range(e["acks_threshold"]):
        c.ack(i["i"])
        assert c.state["alpha_scaled"] == e["alpha_scaled"]
        assert c.state["acks_threshold"][i["i"]] == e["acks_threshold"]
    assert c.paths[i["i"]].cwnd == i["cwnd"][i["i"]]
    c.ack(i["i"])
    assert c.paths[i["i"]].cwnd == i["cwnd"][i["i"]] + 1


def olia_ack(v: Inputs) -> None:
    if mode_of(v) == "kernel":
        olia_module(v)
        return
    i, e = v["inputs"], v["expected"]
    r = i["i"]
    c = Controller("olia", paths=with_each(paths_of(i), "loss_interval_bytes", i["ell_bytes"]), mode="paper")
    c.ack(r, i["acked"])
    assert near(c.paths[r].cwnd, e["cwnd"])
    assert near_step(i["cwnd"][r], c.paths[r].cwnd, i["acked"] * e["inc"])
    assert near(c.state["alpha"][r], e["alpha"])


def olia_module(v: Inputs) -> None:
    """The shares that a vector gives as numbers come from intervals between losses that make them."""
    i, e = v["inputs"], v["expected"]
    r, cwnds = i["i"], i["cwnd"]
    paths, n = paths_of(i), len(i["cwnd"])
    largest = [k for k in range(n) if cwnds[k] == max(cwnds)]
    others = [k for k in range(n) if k not in largest]
    if i["eps_num"] == 0:
        best = largest
    elif i["eps_num"] > 0:
        best = [r, *[k for k in others if k != r]][: i["eps_den"] // n]
        assert r in others
        assert len(best) * n == i["eps_den"]
    else:
        best = others[:1]
        assert r in largest
        assert len(largest) * n == i["eps_den"]
    for k, p in enumerate(paths):
        x8 = i["srtt_us_x8"][k]
        p["loss_interval_bytes"] = x8 * x8 if k in best else 0
        p["cwnd_cnt"] = i["cwnd_cnt"] if k == r else 0
    c = Controller("olia", paths=paths, mode="kernel")
    c.ack(r)
    assert (c.paths[r].cwnd, c.paths[r].cwnd_cnt) == (e["cwnd"], e["cwnd_cnt"])
    c = Controller("olia", paths=with_each(paths, "cwnd_cnt", [0] * n), mode="kernel")
    c.ack(r)
    assert c.paths[r].cwnd_cnt == e["step"]


def olia_best(v: Inputs) -> None:
    """Beside a larger window without an interval, the best path is the one that collects."""
    i, e = v["inputs"], v["expected"]
    paths = with_each(paths_of(i), "loss_interval_bytes", i["ell_bytes"])
    paths.append({"cwnd": 2 * max(i["cwnd"]), "rtt": max(i["rtt"]), "ssthresh": 1.0})
    for rule in ("kernel", "draft"):
        c = Controller("olia", paths=paths, mode="paper", best=rule)
        for r in range(len(i["cwnd"])):
            c.ack(r)
        assert [r for r, alpha in enumerate(c.state["alpha"]) if alpha > 0] == [e[f"{rule}_best"]]


def balia(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r, acked = i["i"], i.get("acked", 1)
    c = Controller("balia", paths=paths_of(i), mode="paper")
    c.ack(r, acked)
    assert near(c.paths[r].cwnd, e["cwnd_after_ack"])
    assert near_step(i["cwnd"][r], c.paths[r].cwnd, acked * e["inc"])
    assert near(c.state["alpha"][r], e["alpha"])
    c = Controller("balia", paths=paths_of(i), mode="paper")
    c.loss(r)
    assert near(c.paths[r].ssthresh, e["ssthresh_after_loss"])


def balia_module(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller("balia", paths=paths_of(i), mode="kernel", mss=i["mss"])
    c.ack(i["i"])
    assert (c.state["ai_acks"][i["i"]], c.state["md"][i["i"]]) == (e["ai_acks"], e["md"])
    c.loss(i["i"])
    assert c.paths[i["i"]].ssthresh == e["ssthresh"]


def ewtcp(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    rule = {"1/n^2": "inv_n2", "1/sqrt(n)": "inv_sqrt"}[i["a_rule"]]
    c = Controller("ewtcp", paths=paths_of(i) * i["n"], mode="paper", ewtcp_a=rule)
    c.ack(0, i["acked"])
    assert near(c.paths[0].cwnd, e["cwnd"])
    assert c.state["a"] == pytest.approx(e["a"], rel=1e-6)
    c.loss(1)
    assert near(c.paths[1].ssthresh, e["ssthresh_after_loss"])


def coupled(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r, acked = i["i"], i.get("acked", 1)
    name = "coupled-full" if i["variant"].startswith("fully-coupled") else "coupled"
    c = Controller(name, paths=paths_of(i), mode="paper")
    c.ack(r, acked)
    assert near(c.paths[r].cwnd, e["cwnd"])
    assert near_step(i["cwnd"][r], c.paths[r].cwnd, acked * e["inc"])
    floors = {2: e.get("ssthresh_floor2", e.get("ssthresh_after_loss"))}
    if "ssthresh_floor1" in e:
        floors[1] = e["ssthresh_floor1"]
    for floor, expected in floors.items():
        c = Controller(name, paths=paths_of(i), mode="paper", min_ssthresh=floor)
        c.loss(r)
        assert near(c.paths[r].ssthresh, expected)


def uncoupled(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r = i["i"]
    paths = paths_of(i, ssthresh=math.inf if v["op"] == "ss" else 1.0)
    c = Controller("uncoupled", paths=paths, mode="paper")
    if v["op"] == "loss":
        c.loss(r)
        assert near(c.paths[r].ssthresh, e["ssthresh"])
    else:
        c.ack(r, i["acked"])
        assert near(c.paths[r].cwnd, e["cwnd"])
    assert all(p.cwnd == i["cwnd"][k] for k, p in enumerate(c.paths) if k != r)


def nmcc(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r = i["i"]
    paths = with_each(paths_of(i), "ssthresh", [math.inf if ss else 1.0 for ss in i["in_ss"]])
    c = Controller("nmcc", paths=paths, mode="paper")
    c.ack(r, i["acked"])
    assert near(c.paths[r].cwnd, e["cwnd"])
    alone = i["acked"] * (1.0 if i["in_ss"][r] else 1 / i["cwnd"][r])
    assert near_step(i["cwnd"][r], c.paths[r].cwnd, alone * e["factor"])
    assert near_step(i["cwnd"][r], c.paths[r].cwnd, alone / e["m"] ** 2)


def enmcc(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r = i["i"]
    w = i["cwnd"][r]
    c = Controller("enmcc", paths=with_each(paths_of(i), "max_packets_out", i["max_packets_out"]), mode="paper")
    c.loss(r)
    assert near(c.paths[r].ssthresh, e["ssthresh"])
    m_th, clamped = c.state["m_th"][r], c.state["m_th_clamped"][r]
    assert near(m_th, e["m_th"])
    assert near(clamped, e["m_th_clamped"])
    assert near(w - w / 2 * m_th, e["ssthresh_eq14_raw"])
    assert near(w - w / 2 * clamped, e["ssthresh_clamped"])


def wvegas(v: Inputs) -> None:
    """A round trip of samples of that RTT, beside a subflow whose rate gives the vector's weight."""
    i, e = v["inputs"], v["expected"]
    own = (i["cwnd"] << 16) // i["rtt"]
    others = i.get("rates") or [own * 65536 // i["weight16"] - own]
    rtt = (i["rtt"] - 1) / 1e6  # the module adds 1 us to each sample
    path = {
        "cwnd": i["cwnd"],
        "ssthresh": 1.0,
        "base_rtt_us": i["base"],
        "alpha": i["alpha"],
        "queue_delay_us": i["qd"],
    }
    rest = [{"cwnd": 10.0, "ssthresh": 1.0, "instant_rate": rate} for rate in others]
    c = Controller("wvegas", paths=[path, *rest], mode=mode_of(v))
    for k in range(1, len(others) + 1):
        c.ack(k, 0, rtt=rtt)
    for acked in (0, 0, 0, i["cwnd"] + 1):
        assert c.paths[0].cwnd == i["cwnd"]
        c.ack(0, acked, rtt=rtt)
    assert (c.paths[0].cwnd, c.state["alpha"][0]) == (e["cwnd"], e["alpha"])
    assert c.state["queue_delay_us"][0] == e["queue_delay"]
    assert (c.state["instant_rate"][0] == own) is e["alpha_updated"]


def initial_slow_start(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    form = "product" if i.get("form") == "product" else "exponent"
    name = "tccc+" if i.get("variant") == "TCCC+" else v["alg"]
    c = Controller(
        name, paths=paths_of(i, ssthresh=math.inf),
        alpha=i["alpha"], con_ssthresh=i["con_ssth"], L=i["L_mss"], alpha_form=form,
    )  # fmt: skip
    c.ack(path=i["i"], acked=i["acked"])
    assert near(c.paths[i["i"]].cwnd, e["cwnd"])
    assert bool(c.state["initial_ss"]) is not e["exit"]
    if e["exit"]:
        assert [p.ssthresh for p in c.paths] == e["ssthresh"]
        assert {p.phase for p in c.paths} == {"congestion_avoidance"}


def coupled_join(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller(
        "css", paths=[{"cwnd": i["Totcd"], "rtt": DEFAULT_RTT}], alpha=i["alpha"], con_ssthresh=i["con_ssth"]
    )
    c.join({"cwnd": i["IW"], "rtt": DEFAULT_RTT})
    if e["action"] == "continue":
        assert near(c.state["alpha"], e["alpha"])
        assert c.state["initial_ss"] == 1
    else:
        assert c.state["initial_ss"] == 0


def coupled_leave(v: Inputs) -> None:
    i = v["inputs"]
    cwnds = [i["Totcd"] - i["w_leaving"], i["w_leaving"]]
    paths = paths_of({"cwnd": cwnds}, ssthresh=math.inf)
    c = Controller("css", paths=paths, alpha=i["alpha"], con_ssthresh=i["con_ssth"])
    c.leave(path=1)
    assert near(c.state["alpha"], v["expected"]["alpha"])


def smoothing(v: Inputs) -> None:
    i = v["inputs"]
    c = Controller("css", paths=[{"cwnd": 10.0, "rtt": i["srtt"]}], con_ssthresh=1000.0)
    c.ack(acked=1, rtt=i["sample"])
    assert c.state["coupled_rtt"][0] / 1e9 == pytest.approx(v["expected"]["srtt"], abs=1e-9)


def aggressive_avoidance(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r, before = i["i"], i["cwnd"][i["i"]]

    def after(event: str, **options: str) -> Any:
        c = Controller("tccc+" if i.get("variant") == "TCCC+" else "tccc", paths=paths_of(i), **options)
        c.ack(r, i["acked"]) if event == "ack" else c.loss(r)
        return c.paths[r]

    assert near(after("ack").cwnd, e["cwnd_after_ack"])
    if i.get("variant") == "TCCC+":
        assert near(after("loss", aca_md="eq8").ssthresh, e["ssthresh_after_loss"])
        return
    assert near_step(before, after("ack").cwnd, i["acked"] * e["inc"])
    assert near(after("loss", aca_md="eq8").ssthresh, e["ssthresh_same_loss"])
    assert near(after("loss", aca_md="half").ssthresh, e["ssthresh_diff_loss"])
    assert near_step(before, after("ack", aca_safe="on").cwnd, i["acked"] * e["inc_capped"])
    assert near(after("loss", aca_md="eq8", aca_safe="on").ssthresh, e["ssthresh_safe"])


def same_loss(v: Inputs) -> None:
    """Seen in which decrease is taken: equal paths would go to the floor by eq. 8, to half otherwise."""
    paths = [{"cwnd": 20.0, "rtt": 0.1, "ssthresh": 1.0, "max_packets_out": m} for m in v["inputs"]["max_packets_out"]]
    c = Controller("tccc", paths=paths, same_loss_ratio=v["inputs"]["rho"])
    c.loss(path=0)
    assert c.paths[0].cwnd == (2.0 if v["expected"]["same"] else 10.0)


WINDOW = 1 << 20
"""Segments of an ACK that covers a window of data, however much the window has grown."""


def sbcc_beta(v: Inputs) -> None:
    """One ACK for each window of data; the first one shares the marks of the window that it begins."""
    i, e = v["inputs"], v["expected"]
    assert i.get("g", 0.125) == 0.125
    marked = i["T"] if "T" in i else [0] * i["windows_without_marks"]
    c = Controller("sbcc", paths=[{"cwnd": 1.0, "rtt": 0.1, "ssthresh": 1.0, "beta": i["beta0"], "set": 1}] * 2)
    c.ack(0, WINDOW, marked=round(marked[0] * WINDOW))
    betas = []
    for share in marked:
        assert c.paths[0].cwnd <= WINDOW
        c.ack(0, WINDOW, marked=round(share * WINDOW))
        betas.append(c.state["beta"][0])
    expected = e["beta"] if isinstance(e["beta"], list) else [e["beta"]]
    assert betas[-len(expected) :] == pytest.approx(expected, abs=1e-5)


def sbcc_ack(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    r, alone = i["i"], len(i["cwnd"]) == 1
    paths = paths_of(i) if alone else with_each(paths_of(i, set=1), "beta", i["beta"])
    for inside, expected in (("off", e["a"]), ("on", e["a_beta_inside_max"])):
        c = Controller("sbcc", paths=paths, beta_inside_max=inside)
        c.ack(r, i.get("acked", 1))
        assert near(c.state["a"][r], expected)
        if inside == "off":
            assert near(c.paths[r].cwnd, e["cwnd"])


def sbcc_mark(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller("sbcc", paths=paths_of(i, beta=i["beta"]))
    c.ece()
    assert near(c.paths[0].ssthresh, e["ssthresh"])
    c = Controller("sbcc", paths=paths_of(i, beta=i["beta"]), min_ssthresh=1)
    c.ece()
    assert near(c.paths[0].ssthresh, max(e["raw"], 1))


def lisa(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    w = i["max_subflow_cwnd"]
    c = Controller("lisa", paths=[{"cwnd": w, "rtt": 0.1}, {"cwnd": max(w // 2, 1), "rtt": 0.1}])
    c.join({"cwnd": i["initial_cwnd"], "rtt": 0.1})
    assert (c.paths[2].cwnd, c.paths[0].cwnd) == (e["new_iw"], e["max_subflow_cwnd"])
    assert c.state["ignore_acks"] == [e["ignore_acks"], 0, 0]
    assert (c.paths[2].cwnd + c.paths[0].cwnd == w) is e["sum_unchanged"]
    c.ack(0, e["ignore_acks"])
    assert c.paths[0].cwnd == e["max_subflow_cwnd"]
    c.ack(0, 1)
    assert c.paths[0].cwnd == e["max_subflow_cwnd"] + 1


def dwc_ack(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller("dwc", paths=paths_of({"cwnd": i["set_cwnd"]}, set=1))
    c.ack(i["i"], i["acked"])
    assert near(c.paths[i["i"]].cwnd, e["cwnd"])
    assert near_step(i["set_cwnd"][i["i"]], c.paths[i["i"]].cwnd, e["cwnd"] - i["set_cwnd"][i["i"]])


def dwc_loss(v: Inputs) -> None:
    """The correlated subflows are the loser's set; the others have left it."""
    i, e = v["inputs"], v["expected"]
    together = {i["loser"], *i["correlated"]}
    paths = paths_of({"cwnd": i["set_cwnd"]})
    paths = with_each(paths, "set", [1 if k in together else 0 for k in range(len(paths))])
    c = Controller("dwc", paths=paths)
    c.loss(i["loser"])
    for k, p in enumerate(c.paths):
        if k in together:
            assert near(p.ssthresh, e["ssthresh"][k])
        else:
            assert (p.cwnd, p.ssthresh) == (i["set_cwnd"][k], 1.0)


def hoe(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    c = Controller("newreno", paths=[{"cwnd": 10.0, "rtt": i["rtt"]}], mss=i["mss"], ssthresh="hoe")
    before = 0.0
    for t, acked in zip(i["t"], i["acked_seq"], strict=True):
        c.ack(acked=round((acked - before) / i["mss"]), time=t)
        before = acked
    assert c.state["ssth"] == [e["ssthresh"]]


def conservative(last_round_s: float, round_s: float, samples: int, cwnd: float = 4.0) -> Controller:
    """After a round of eight samples, and so many of the next one."""
    c = Controller("newreno", paths=[{"cwnd": cwnd}], ssthresh="hystart++", mode="paper")
    for rtt, n in ((last_round_s, 8), (round_s, samples)):
        for k in range(n):
            c.ack(acked=int(c.paths[0].cwnd) + 1 if k == 0 else 0, rtt=rtt)
    return c


def hystartpp_exit(v: Inputs) -> None:
    """In Conservative Slow Start an ACK of four segments is worth one."""
    i, e = v["inputs"], v["expected"]
    c = conservative(i["last_round_min_rtt"], i["current_round_min_rtt"], i["samples"])
    before = c.paths[0].cwnd
    c.ack(acked=4)
    assert c.paths[0].cwnd - before == (1 if e["enter_css"] else 4)


def hystartpp_ack(v: Inputs) -> None:
    i, e = v["inputs"], v["expected"]
    assert (i["phase"], i["L"]) == ("CSS", 8)
    c = conservative(0.1, 0.2, 8)
    before = c.paths[0].cwnd
    c.ack(acked=i["acked"])
    assert c.paths[0].cwnd - before == pytest.approx(e["cwnd"] - i["cwnd"], abs=1e-6)


def course(v: Inputs) -> None:
    """Events one after the other on one path; what is expected is the path's, or a word's."""
    i = v["inputs"]
    c = Controller(v["alg"], paths=[i["path"]], mode=mode_of(v), **i["options"])
    for event in i["events"]:
        named = {name: value for name, value in event.items() if name != "event"}
        getattr(c, event["event"])(**named)
    for name, expected in v["expected"].items():
        got = getattr(c.paths[0], name) if hasattr(c.paths[0], name) else c.state[name][0]
        assert got == pytest.approx(expected, rel=1e-4), name


STEPS: dict[tuple[str, str], Callable[[Inputs], None]] = {
    ("newreno", "ack"): newreno_ack,
    ("newreno", "loss"): newreno_loss,
    ("newreno", "rto"): timeout,
    ("lia", "ack-ca"): lia_ack,
    ("lia", "recalc"): lia_module,
    ("olia", "ack-ca"): olia_ack,
    ("olia", "best"): olia_best,
    ("balia", "ack-ca+loss"): balia,
    ("balia", "recalc"): balia_module,
    ("ewtcp", "ack-ca"): ewtcp,
    ("coupled", "ack-ca+loss"): coupled,
    ("mpreno", "ca"): uncoupled,
    ("mpreno", "loss"): uncoupled,
    ("mpreno", "ss"): uncoupled,
    ("nmcc", "ack"): nmcc,
    ("enmcc", "loss"): enmcc,
    ("wvegas", "per-rtt"): wvegas,
    ("css", "ack-initial-ss"): initial_slow_start,
    ("css", "join"): coupled_join,
    ("css", "leave"): coupled_leave,
    ("css", "srtt"): smoothing,
    ("tccc", "ack-initial-ss"): initial_slow_start,
    ("tccc", "ack-ca+loss"): aggressive_avoidance,
    ("tccc", "same-loss"): same_loss,
    ("tccc", "rto"): timeout,
    ("sbcc", "beta"): sbcc_beta,
    ("sbcc", "ack-ca"): sbcc_ack,
    ("sbcc", "ece"): sbcc_mark,
    ("lisa", "join"): lisa,
    ("dwc", "ack-ca"): dwc_ack,
    ("dwc", "loss"): dwc_loss,
    ("hoe", "estimate"): hoe,
    ("hystartpp", "exit"): hystartpp_exit,
    ("hystartpp", "ack"): hystartpp_ack,
    **{(name, "course"): course for name in ("dctcp", "westwood", "htcp", "illinois", "scalable", "vegas")},
}


@pytest.mark.parametrize("name", sorted(FILE["elsewhere"]))
def test_the_others_are_elsewhere(name: str) -> None:
    """Of detectors, schedulers, CUBIC and the kernel's machinery around a controller."""
    place = ROOT / FILE["elsewhere"][name]
    assert name in place.read_text(), f"{name} is tested nowhere"
    assert name not in {v["id"] for v in VECTORS}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_vector(vector: Inputs) -> None:
    STEPS[vector["alg"], vector["op"]](vector)
