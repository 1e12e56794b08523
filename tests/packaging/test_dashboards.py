"""Dashboards and rules: made from their source, valid, by the conventions. Whether their expressions find data is tested in
``integration/test_monitoring.py``."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.needs import needs, needs_module, needs_program

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).resolve().parents[2]
DASHBOARDS = sorted((ROOT / "dashboards" / "grafana").glob("*.json"))
RULES = ROOT / "dashboards" / "rules" / "inductord.rules.yml"
OPERATOR = RULES.with_name("prometheusrule.yaml")
TESTS = ROOT / "tests" / "rules" / "alerts.yml"
SHARED = ROOT.parent / "shared"

each_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def loaded(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def panels(path: Path) -> Iterator[dict[str, Any]]:
    """Panels that show something."""
    return (panel for panel in loaded(path)["panels"] if panel["type"] != "row")


def run(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_made_is_fresh() -> None:
    needs_module("grafana_foundation_sdk")
    run(sys.executable, "dashboards/build.py", "--check", cwd=ROOT)


@each_dashboard
def test_a_dashboard_fits_grafanas_schema(path: Path) -> None:
    schema = SHARED / "grafana" / "dashboard.jsonschema.json"
    needs_module("jsonschema")
    if not schema.is_file():
        pytest.skip("Grafana's schema of dashboards does not lie beside this checkout, in shared/grafana")
    import jsonschema

    validator = jsonschema.Draft7Validator(json.loads(schema.read_text()))
    assert [error.message for error in validator.iter_errors(loaded(path))] == []


@each_dashboard
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2")
def test_a_dashboard_is_the_same_after_the_sdk_has_read_it(path: Path) -> None:
    needs_module("grafana_foundation_sdk")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    again = json.dumps(Dashboard.from_json(loaded(path)), cls=JSONEncoder, sort_keys=True, indent=2) + "\n"
    assert again == path.read_text()


@each_dashboard
def test_a_dashboard_keeps_the_conventions(path: Path) -> None:
    board = loaded(path)
    assert (board["uid"], board["editable"], board["tags"]) == (path.stem, False, ["inductord"])
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", "namespace", "node", "job"]
    assert [name for name, variable in variables.items() if variable.get("multi")] == ["node", "job"]
    (link,) = board["links"]
    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards",
        ["inductord"],
        True,
        True,
    )
    titles = Counter(panel["title"] for panel in panels(path))
    assert max(titles.values()) == 1, titles.most_common(2)
    for panel in panels(path):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        for target in panel["targets"]:
            expr = target["expr"]
            assert not re.search(r"\[\d+[smhd]\]", expr), f"a fixed window: {expr}"
            if "ray_" not in expr:
                assert 'cluster=~"$cluster",namespace=~"$namespace",node=~"$node"' in expr, expr


def test_each_uid_is_one_dashboards() -> None:
    assert len(DASHBOARDS) == 4
    assert len({loaded(path)["uid"] for path in DASHBOARDS}) == 4
    assert {loaded(path)["schemaVersion"] for path in DASHBOARDS} == {42}


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_rules_are_well_formed() -> None:
    needs_program("promtool", "prometheus")
    run("promtool", "check", "rules", RULES)
    run("promtool", "check", "config", ROOT / "dashboards" / "prometheus.yml")
    records = {
        rule["record"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    assert [name for name in records if not re.fullmatch(r"(instance|job):inductord_\w+:\w+", name)] == []


def test_the_operator_gets_the_same_rules() -> None:
    rule = yaml.safe_load(OPERATOR.read_text())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())
    script = SHARED / "tools" / "validate_crds.py"
    if not script.is_file():
        pytest.skip("the CRDs do not lie beside this checkout, in shared/crds")
    run(sys.executable, script, SHARED / "crds", OPERATOR)


def test_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    needs_program("promtool", "prometheus")
    # promtool looks for rule files beside the tests.
    shutil.copy(RULES, tmp_path)
    shutil.copy(TESTS, tmp_path)
    run("promtool", "test", "rules", TESTS.name, cwd=tmp_path)
    fired, silent = set(), set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fired if case["exp_alerts"] else silent).add(case["alertname"])
    assert fired == silent == set(alerts())


def test_each_alert_says_what_to_do() -> None:
    listed = (ROOT / "docs" / "monitoring.md").read_text()
    pages = set()
    for name, rule in alerts().items():
        assert rule["for"], name
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert rule["annotations"]["summary"].endswith("."), name
        assert rule["annotations"]["description"].endswith("."), name
        where, _, page_name = rule["annotations"]["runbook_url"].rpartition("/")
        assert where == '{{ or $externalLabels.inductord_runbooks "docs/runbooks" }}'
        page = ROOT / "docs" / "runbooks" / page_name
        pages.add(page)
        text = page.read_text()
        assert f"Alert `{name}`." in text
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["What it means", "How to check", "How to mend"]
        assert f"| {name} | {rule['labels']['severity']} |" in listed
    assert set((ROOT / "docs" / "runbooks").glob("*.md")) == pages


def test_dashboards_have_the_preview_that_the_docs_show() -> None:
    shown = set(re.findall(r"\(images/(dashboard-\w+\.png)\)", (ROOT / "docs" / "monitoring.md").read_text()))
    assert shown == {f"dashboard-{path.stem.removeprefix('inductord-')}.png" for path in DASHBOARDS}
    needs(shutil.which("git") is not None, "git")
    for name in shown:
        assert (ROOT / "docs" / "images" / name).read_bytes().startswith(b"\x89PNG")
