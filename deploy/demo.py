"""`make demo`: seven weeks of simulated traffic of four sites, uploaded to the running service.

The captures are the same on every machine: the simulator's results follow from scenario and seed alone. What there is
to be found: the sites' paths differ; lisbon moved from newreno to tccc in week 4; the queue of osaka's access link
became five times as deep in the last week.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = CHECKOUT / "build" / "demo" / hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
"""Of the recordings; another version of this program makes them anew."""
BEGIN_NS = 1_791_190_800 * 10**9
"""Monday, 5 October 2026, 09:00 UTC: when the first capture begins."""
DAY_NS = 86_400 * 10**9
DAYS = 49
UPLOADS = 4

_ENHANCED_PACKET = 6
_FIN, _SYN = 1, 2


@dataclass(frozen=True)
class Site:
    name: str
    network: int
    """10.NETWORK.0.0/16"""
    rate_mbps: float
    delay_ms: int
    """One way."""
    limit: int
    """Packets that the queue of the access link has room for."""
    loss: float
    algorithm: str


SITES = (
    Site("berlin", 10, 2.4, 8, 40, 0, "newreno"),
    Site("lisbon", 20, 2, 20, 40, 0.0005, "newreno"),
    Site("nairobi", 30, 1.2, 60, 40, 0.004, "cubic"),
    Site("osaka", 40, 2, 35, 30, 0, "lia"),
)


@dataclass(frozen=True)
class Recording:
    site: Site
    day: int
    hour: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.site.name}-day-{self.day + 1:02d}-{self.hour + 9:02d}h.pcapng"

    @property
    def begin_ns(self) -> int:
        return BEGIN_NS + self.day * DAY_NS + self.hour * 3600 * 10**9

    @property
    def algorithm(self) -> str:
        return "tccc" if self.site.name == "lisbon" and self.day >= 21 else self.site.algorithm

    @property
    def limit(self) -> int:
        return self.site.limit * 5 if self.site.name == "osaka" and self.day >= 42 else self.site.limit

    @property
    def tags(self) -> dict[str, str]:
        release = "2026.10" if self.day < 21 else "2026.11"
        return {"site": self.site.name, "origin": "demo", "release": release}

    @property
    def scenario(self) -> str:
        """An upload by MPTCP beside one by TCP and two short ones, over an access link and a second path."""
        s = self.site
        n = s.network
        return f"""
name = "{s.name}"
seconds = 60
grace = 8
seed = {self.seed}
hosts.phone.interfaces.a = {{ address = "10.{n}.1.1", mtu = 1400 }}
hosts.phone.interfaces.b = {{ address = "10.{n}.2.1", mtu = 1400 }}
hosts.laptop.interfaces.a = {{ address = "10.{n}.3.{10 + self.seed % 40}" }}
hosts.server.interfaces.a = {{ address = "192.0.2.1" }}
hosts.server.interfaces.b = {{ address = "192.0.2.2" }}
links.access = {{ rate = "{s.rate_mbps}M", delay = "{s.delay_ms}ms", limit = "{self.limit} packets", loss = {s.loss} }}
links.second = {{ rate = "{s.rate_mbps / 2}M", delay = "{s.delay_ms + 15}ms", limit = "40 packets" }}
paths = [
  {{ name = "first", from = "phone.a", to = "server.a", links = ["access"] }},
  {{ name = "other", from = "phone.b", to = "server.b", links = ["second"] }},
  {{ name = "beside", from = "laptop.a", to = "server.a", links = ["access"] }},
]
[[transfers]]
name = "video"
protocol = "mptcp"
from = "phone"
to = "server"
paths = ["first", "other"]
bytes = "{2.0 + 0.1 * (self.seed % 5):.1f}MB"
[[transfers]]
name = "backup"
protocol = "tcp"
from = "laptop"
to = "server"
bytes = "{1.6 + 0.1 * (self.seed % 4):.1f}MB"
[[transfers]]
name = "mail"
protocol = "tcp"
from = "laptop"
to = "server"
start = {0.5 + 0.1 * (self.seed % 7):.1f}
bytes = "{40 + 10 * (self.seed % 9)}kB"
[[transfers]]
name = "photo"
protocol = "tcp"
from = "laptop"
to = "server"
start = {1.5 + 0.1 * (self.seed % 5):.1f}
bytes = "{90 + 20 * (self.seed % 6)}kB"
"""


def moment(day: int) -> str:
    """When this day of the demo begins."""
    return datetime.fromtimestamp((BEGIN_NS + day * DAY_NS) // DAY_NS * (DAY_NS // 10**9), UTC).isoformat()


def recordings() -> Iterator[Recording]:
    """One of each site on each day, in the order of time."""
    for day in range(DAYS):
        for place, site in enumerate(SITES):
            yield Recording(site, day, place * 2, 1 + day * len(SITES) + place)


def moved(capture: bytes, begin_ns: int) -> bytes:
    """The same pcapng file of the simulator, little-endian and in nanoseconds, whose first packet is of this time."""
    shifted = bytearray(capture)
    by_ns = None
    at = 0
    while at < len(shifted):
        kind, length = struct.unpack_from("<II", shifted, at)
        if kind == _ENHANCED_PACKET:
            high, low = struct.unpack_from("<II", shifted, at + 12)
            by_ns = begin_ns - (high << 32 | low) if by_ns is None else by_ns
            time_ns = (high << 32 | low) + by_ns
            struct.pack_into("<II", shifted, at + 12, time_ns >> 32, time_ns & 0xFFFFFFFF)
        at += length
    return bytes(shifted)


def closed(capture: bytes) -> bytes:
    """The same pcapng file of the simulator, which does not close connections: with its last acknowledgment each
    receiver that has all data sends a FIN, as a server does that knows how much is to come.

    capture: IPv4 packets without a link header. Nobody answers a FIN: the captures end there.
    """
    marked = bytearray(capture)
    sent: dict[bytes, int] = {}
    """The end of what each direction of a flow has sent, by its addresses and ports."""
    last: dict[bytes, tuple[int, int]] = {}
    """The acknowledgment in its last packet, and where that packet's flags are."""
    at = 0
    while at < len(marked):
        kind, length = struct.unpack_from("<II", marked, at)
        if kind == _ENHANCED_PACKET:
            ip = at + 28
            tcp = ip + 4 * (marked[ip] & 0xF)
            way = bytes(marked[ip + 12 : ip + 20] + marked[tcp : tcp + 4])
            total, sequence, ack = (
                *struct.unpack_from(">H", marked, ip + 2),
                *struct.unpack_from(">II", marked, tcp + 4),
            )
            payload = total - (tcp - ip) - 4 * (marked[tcp + 12] >> 4)
            end = sequence + payload + bool(marked[tcp + 13] & _SYN)
            sent[way] = max(sent.get(way, 0), end)
            last[way] = ack, tcp + 13
        at += length
    for way, (ack, flags) in last.items():
        other = way[4:8] + way[:4] + way[10:12] + way[8:10]
        if sent.get(other, 0) > 1 and ack == sent[other]:
            marked[flags] |= _FIN
    return bytes(marked)


def record(wanted: Recording) -> Path:
    """Simulates it, unless that was done before."""
    from rewindow.core import Choice
    from rewindow.scenarios import parse
    from rewindow.simulator import simulate

    file = FOLDER / wanted.name
    if not file.exists():
        made = file.with_suffix(".new")
        with made.open("w+b", 0) as out:
            choice = Choice(wanted.algorithm)
            beside = Choice("cubic")
            chosen = {"video": choice, **dict.fromkeys(("backup", "mail", "photo"), beside)}
            simulate(parse(wanted.scenario, wanted.name), algorithms=chosen, capture=out.fileno())
            out.seek(0)
            shifted = moved(closed(out.read()), wanted.begin_ns)
        made.write_bytes(shifted)
        made.rename(file)
    return file


def _ask(server: str, token: str, path: str, body: object = None) -> Any:
    """What it answers; with a body it is a POST."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(server + path, data, headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def load(server: str, token: str, first_day: int = 0) -> int:
    """Uploads the recordings from this day on and waits for their analysis. Returns how many there are."""
    from rewindow.client import uploads
    from rewindow.client.service import Service

    FOLDER.mkdir(parents=True, exist_ok=True)

    def send(wanted: Recording) -> None:
        uploads.upload(Service(server, token), str(record(wanted)), wanted.tags)

    every = [r for r in recordings() if r.begin_ns >= BEGIN_NS + first_day * DAY_NS]
    with ThreadPoolExecutor(UPLOADS) as pool:
        for done, _ in enumerate(pool.map(send, every), 1):
            if done % 20 == 0 or done == len(every):
                print(f"{done} of {len(every)} captures uploaded", flush=True)
    while any(_ask(server, token, f"/v1/captures?tag=origin%3Ddemo&limit=1&state={s}")["items"] for s in _WAITING):
        time.sleep(0.5)
    return len(every)


_WAITING = ("queued", "running")
SWEEP = {
    "selection": {"tag": ["site=osaka"], "kind": "mptcp", "from": moment(45)},
    "algorithms": ["tccc"],
    "everyone": True,
    "repeat": 5,
}
"""Had everyone in osaka used tccc in the last four days: what the team's page shows of what-ifs."""


def predict(server: str, token: str) -> int:
    """Waits for the what-ifs. Returns how many there are."""
    sweep = _ask(server, token, "/v1/whatifs", SWEEP)
    while sweep["state"] != "done":
        time.sleep(0.5)
        sweep = _ask(server, token, f"/v1/sweeps/{sweep['id']}")
    return int(sweep["done"])


def pictures(server: str, token: str) -> dict[str, tuple[str, str]]:
    """Addresses of the dashboard, and a selector of what is there when all is, by the names of their pictures in
    docs/."""
    osaka = "tag=site%3Dosaka&kind=mptcp"
    week, before = urlencode({"from": moment(42)}), urlencode({"from": moment(35), "to": moment(42)})
    of_weeks = urlencode({"selection": f"{osaka}&{week}", "baseline": f"{osaka}&{before}", "measure": "rtt_us"})
    shared = f"/v1/connections?kind=mptcp&{week}&measured=jain&limit=1&sort=-retransmission_rate"
    connection = _ask(server, token, shared)["items"][0]
    return {
        "team": ("/?span=week&measure=rtt_inflation&rows=kind", "[data-testid=cell]"),
        "connections": ("/connections?values=open&kind=mptcp", "[data-testid=connection]"),
        "comparison": (f"/comparison?{of_weeks}", "[data-testid=bar]"),
        "capture": (f"/captures/{connection['capture_id']}", "[data-testid=connection]"),
        "sequence": (
            f"/connections/{connection['id']}?graph=sequence&from=0.7&to=1.5",
            "[data-testid=chart]:not([data-bars='0'])",
        ),
    }


WIDTH, HEIGHT = 1280, 1240


def draw(server: str, token: str, folder: Path) -> None:
    """Writes a picture of each of these pages, in few colours."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(server)
        page.get_by_test_id("token").fill(token)
        page.get_by_test_id("sign-in").click()
        page.get_by_test_id("cell").first.wait_for()
        for name, (address, there) in pictures(server, token).items():
            page.goto(server + address)
            page.locator(there).first.wait_for()
            page.wait_for_load_state("networkidle")
            file = folder / f"{name}.png"
            page.screenshot(path=file)
            with Image.open(file) as picture:
                few = picture.convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE)
                few.save(file, optimize=True)
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", default="0")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="also draw the pictures of docs/dashboards.md")
    args = parser.parse_args()
    up = [sys.executable, str(CHECKOUT / "deploy" / "run.py"), "up", "--detach", "--port", args.port]
    said = subprocess.run(up, capture_output=True, text=True)
    if said.returncode:
        print(said.stderr.strip(), file=sys.stderr)
        return 1
    found = dict(line.split(None, 1) for line in said.stdout.splitlines() if line.startswith(("dashboard", "token")))
    server, token = found["dashboard"].strip().rstrip("/"), found["token"].strip()
    began = time.monotonic()
    count = load(server, token)
    print(f"{count} captures are analysed, after {time.monotonic() - began:.0f} s", flush=True)
    asked = time.monotonic()
    count = predict(server, token)
    print(f"{count} connections are predicted, after {time.monotonic() - asked:.0f} s more")
    print(f"dashboard   {server}/\ntoken       {token}\nmake down stops it; nothing is lost")
    if args.pictures:
        draw(server, token, args.pictures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
