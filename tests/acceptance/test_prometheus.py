"""The operator's rules and the dashboard of the service in a Prometheus that scrapes the real API."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from deploy.run import CHECKOUT, Services, free_port, stop_process, wait_for

PROGRAM = shutil.which("prometheus") or str(CHECKOUT / ".local/prometheus/usr/bin/prometheus")
RULES = CHECKOUT / "deploy/prometheus/rewindow.yml"
PANELS = CHECKOUT / "deploy/grafana/dashboards/service.json"


class Prometheus:
    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer; None while there is none. Fails where the query is wrong."""
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:  # it starts
                return None
            pytest.fail(f"{query}: {e.read().decode()}")
        except OSError:
            return None

    def found(self, expression: str) -> list[Any]:
        data = self.ask("query", query=expression)
        return data["result"] if data else []


@pytest.fixture(scope="module")
def prometheus(stack: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder: Path = tmp_path_factory.mktemp("prometheus")
    job = {"job_name": "rewindow", "static_configs": [{"targets": [urlsplit(stack.address).netloc]}]}
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration = folder / "prometheus.yml"
    configuration.write_text(yaml.safe_dump({"global": every, "rule_files": [str(RULES)], "scrape_configs": [job]}))
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    started = Prometheus(f"http://127.0.0.1:{port}")
    try:
        wait_for("two scrapes", lambda: bool(started.found('count_over_time(up{job="rewindow"}[1m]) >= 2')), [process])
        yield started
    finally:
        stop_process(process)


def test_rules_are_evaluated(prometheus: Prometheus) -> None:
    """None has an error, and none fires: the service is well."""
    wanted = {rule["alert"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}

    def evaluated() -> list[Any]:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    wait_for("the rules", evaluated)
    found = {rule["name"]: rule for rule in evaluated()}
    assert found.keys() == wanted
    assert {name: rule.get("lastError") for name, rule in found.items() if rule["health"] != "ok"} == {}
    assert [name for name, rule in found.items() if rule["state"] == "firing"] == []


def test_panels_are_answered(prometheus: Prometheus) -> None:
    panels = json.loads(PANELS.read_text())["panels"]
    assert panels
    found = {}
    for panel in panels:
        expression = panel["targets"][0]["expr"].replace("$__rate_interval", "1m")
        assert "$" not in expression, panel["title"]
        found[panel["title"]] = prometheus.found(expression)
    assert any(found.values()), "none of them has a value"
