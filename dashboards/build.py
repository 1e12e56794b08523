"""Writes what Grafana and Prometheus take: dashboards as JSON, rules as a plain file and as a PrometheusRule.

python dashboards/build.py           writes them anew
python dashboards/build.py --check   says which are stale, and ends with 1 if one is
"""

import argparse
import json
import sys
from pathlib import Path

import _job
import _node
import _overview
import _ray
import _rules
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

_FOLDER = Path(__file__).parent
_MADE = "# Made by dashboards/build.py from dashboards/_rules.py.\n"


def files() -> dict[str, str]:
    """Contents by path below this folder."""
    made = {
        f"grafana/{board.uid}.json": json.dumps(board, cls=JSONEncoder, sort_keys=True, indent=2) + "\n"
        for board in (module.made().build() for module in (_overview, _job, _node, _ray))
    }
    made["rules/inductord.rules.yml"] = _MADE + _yaml({"groups": _rules.groups()})
    made["rules/prometheusrule.yaml"] = _MADE + _yaml(_rules.prometheus_rule())
    return made


def _yaml(content: object) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, width=120)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    made = files()
    stale = []
    for name, content in made.items():
        path = _FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(name)
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
    if args.check and stale:
        sys.exit(f"stale: {', '.join(stale)}. Run: python dashboards/build.py")


if __name__ == "__main__":
    main()
