"""Draws the dashboards from what a running Prometheus says, without Grafana: a page each, and a picture of it.

    python dashboards/preview/preview.py --prometheus http://127.0.0.1:9090 --out docs/images [--minutes 15] [--job NAME]
        [--only BOARD]

Needs the Python package plotly and Chromium. It knows the kinds of panels that the dashboards here have, and no more.
"""

import argparse
import json
import math
import re
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

_FOLDER = Path(__file__).parent
_DASHBOARDS = _FOLDER.parent / "grafana"
_COLUMN, _ROW, _GAP = 66, 34, 8
_POINTS = 180
_ANY = ".*"


def step_of(minutes: float) -> int:
    """Seconds between two points."""
    return max(1, round(minutes * 60 / _POINTS))


def query(url: str, expr: str, minutes: float, *, job: str, now: float) -> list[dict[str, Any]]:
    """Series of an expression over the last minutes, on all nodes."""
    step = step_of(minutes)
    expr = re.sub(r"\$(cluster|namespace|node)\b", ".*", expr).replace("$job", job)
    expr = expr.replace("$__rate_interval", f"{math.ceil(4 * max(step, 5))}s").replace(
        "$__range", f"{round(minutes * 60)}s"
    )
    arguments = {"query": expr, "start": now - minutes * 60, "end": now, "step": step}
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{urllib.parse.urlencode(arguments)}", timeout=60) as answer:
        result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return result


def legend(pattern: str, labels: dict[str, str]) -> str:
    """The name of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern).replace("__auto", "")


def drawn(panel: dict[str, Any], url: str, minutes: float, job: str, now: float) -> dict[str, Any]:
    """What the page needs to draw a panel."""
    series = [
        {"name": legend(target["legendFormat"], each["metric"]), "labels": each["metric"], "values": each["values"]}
        for target in panel["targets"]
        for each in query(url, target["expr"], minutes, job=job, now=now)
    ]
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    grid = panel["gridPos"]
    return {
        "type": panel["type"],
        "title": panel["title"],
        "unit": defaults.get("unit", ""),
        "stacked": stacked,
        "steps": defaults.get("thresholds", {}).get("steps", []),
        "series": series,
        "box": [grid["x"] * _COLUMN, grid["y"] * _ROW, grid["w"] * _COLUMN - _GAP, grid["h"] * _ROW - _GAP],
    }


def page(board: dict[str, Any], url: str, minutes: float, job: str) -> tuple[str, int]:
    """The page of a dashboard, and its height in pixels."""
    now = round(time.time())
    panels = [
        {"type": "row", "title": panel["title"], "box": [0, panel["gridPos"]["y"] * _ROW, 24 * _COLUMN, _ROW]}
        if panel["type"] == "row"
        else drawn(panel, url, minutes, job, now)
        for panel in board["panels"]
    ]
    span = {"from": now - minutes * 60, "to": now, "step": step_of(minutes)}
    data = json.dumps({"title": board["title"], "panels": panels, **span})
    text = (_FOLDER / "page.html").read_text(encoding="utf-8")
    text = text.replace("/*plotly*/", get_plotlyjs()).replace("/*data*/", data.replace("</", "<\\/"))
    return text, max(panel["box"][1] + panel["box"][3] for panel in panels) + 80


def picture(text: str, height: int, file: Path) -> None:
    """Have Chromium draw a page."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        source.write_text(text, encoding="utf-8")
        subprocess.run(
            [
                *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *(f"--user-data-dir={folder}/profile", f"--window-size={24 * _COLUMN + 24},{height}"),
                *("--virtual-time-budget=20000", f"--screenshot={file.resolve()}", source.as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=300,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--job", default=_ANY, help="job that the dashboard of jobs shows")
    parser.add_argument("--only", default="*", metavar="BOARD", help="one dashboard, such as inductord-ray")
    args = parser.parse_args()
    for path in sorted(_DASHBOARDS.glob(f"{args.only}.json")):
        text, height = page(json.loads(path.read_text(encoding="utf-8")), args.prometheus, args.minutes, args.job)
        file = args.out / f"dashboard-{path.stem.removeprefix('inductord-')}.png"
        picture(text, height, file)
        print(file)


if __name__ == "__main__":
    main()
