"""A real Prometheus that scrapes a daemon with the project's own configuration and rules, only more often."""

import contextlib
import json
import math
import os
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml
from support.daemon import wait_until
from support.needs import needs_program

DASHBOARDS = Path(__file__).resolve().parents[2] / "dashboards"
_INTERVAL = "1s"


class Prometheus:
    """A running one at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def api(self, path: str, **arguments: str) -> Any:
        """The data of one answer of its HTTP API."""
        query = urllib.parse.urlencode(arguments)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
            return json.load(answer)["data"]

    def values(self, expr: str) -> list[float]:
        """The numbers that an expression has now, without those that are none."""
        found = [float(series["value"][1]) for series in self.api("query", query=expr)["result"]]
        return [value for value in found if not math.isnan(value)]

    def empty_panels(self, boards: Iterable[str]) -> set[str]:
        """Titles of panels with an expression that finds nothing, with everything chosen, over more time than a test takes."""
        found = set()
        for board in boards:
            for panel in json.loads((DASHBOARDS / "grafana" / f"{board}.json").read_text())["panels"]:
                if not all(self.values(_filled(target["expr"])) for target in panel.get("targets", [])):
                    found.add(panel["title"])
        return found


def _filled(expr: str) -> str:
    expr = re.sub(r"\$(cluster|namespace|node|job)\b", ".*", expr)
    return expr.replace("$__rate_interval", "1h").replace("$__range", "1h")


@contextlib.contextmanager
def running_prometheus(folder: Path, *targets: str, ray: Path | None = None) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``targets``, and what the file ``ray`` lists, with its data in ``folder``, until the context
    ends."""
    needs_program("prometheus", "prometheus")
    folder.mkdir()
    config = yaml.safe_load((DASHBOARDS / "prometheus.yml").read_text())
    config["global"] |= {"scrape_interval": _INTERVAL, "scrape_timeout": _INTERVAL, "evaluation_interval": _INTERVAL}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = list(targets)
    # Nothing else of this machine is scraped, whatever cluster may run there.
    config["scrape_configs"][1]["file_sd_configs"][0]["files"] = [str(ray or folder / "no_ray.json")]
    rules = yaml.safe_load((DASHBOARDS / "rules" / "inductord.rules.yml").read_text())
    for group in rules["groups"]:
        group["interval"] = _INTERVAL
    (folder / "rules").mkdir()
    (folder / "rules" / "inductord.rules.yml").write_text(yaml.safe_dump(rules))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--enable-feature=exemplar-storage",
        "--web.listen-address=127.0.0.1:0",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Prometheus(_url(process, folder / "log"))
        finally:
            process.terminate()


def _url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    found: list[str] = []

    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        ports = [
            connection.laddr.port
            for connection in psutil.Process(process.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        found[:] = [f"http://127.0.0.1:{port}" for port in ports]
        if not found:
            return False
        try:
            with urllib.request.urlopen(f"{found[0]}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    wait_until(ready, f"Prometheus answers; its log is {log}, {os.path.getsize(log)} bytes")
    return found[0]
