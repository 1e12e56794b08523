"""What the documents say is true where a machine can tell: links, tables, commands, examples."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from support.features import names

from inductord.compiler.adapter import ambient
from inductord.compiler.reasons import Fallback
from inductord.compiler.regions.reasons import WholeReason
from inductord.daemon.cli.app import inductord
from inductord.daemon.config import DaemonConfig
from inductord.v1.compiler_pb2 import Toolchain

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
FIRST_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


JOBS_OF = {"features/test_features.py": "features.py", "features/test_parallel.py": "parallel.py"}
"""Tests whose parameters are the cases of a job."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands_in(text: str) -> Iterator[str]:
    """What stands as code: spans, and lines of indented or shell blocks without their comment."""
    yield from CODE_SPAN.findall(text)
    for line in text.splitlines():
        if line.startswith("    "):
            yield line.split("#")[0].strip().removeprefix("$ ")


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_resolve(document: Path) -> None:
    for link in LINK.findall(document.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def test_every_document_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        document = todo.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        links = (link.partition("#")[0] for link in LINK.findall(document.read_text()) if "://" not in link)
        todo += [(document.parent / link).resolve() for link in links if link]
    assert set(DOCUMENTS) - reached == set()


def test_tables_made_from_the_code_are_fresh() -> None:
    run = subprocess.run(
        [sys.executable, "docs/tables.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_every_reason_has_one_row() -> None:
    rows = Counter(FIRST_CELL.findall((ROOT / "docs" / "fallbacks.md").read_text()))
    assert rows == Counter(reason.value for reason in Fallback)


def test_every_reason_to_compile_a_graph_whole_has_one_row() -> None:
    text = (ROOT / "docs" / "regions.md").read_text()
    rows = Counter(FIRST_CELL.findall(text[text.index("## What is compiled whole") :]))
    assert rows == Counter(reason.value for reason in WholeReason)


def test_the_variables_of_a_rank_are_those_that_it_reads() -> None:
    read = {
        name
        for path in (ROOT / "compiler").rglob("*.py")
        for name in re.findall(r"[\"'](INDUCTORD(?:_[A-Z_]+)?)[\"']", path.read_text())
    }
    text = (ROOT / "docs" / "configuration.md").read_text()
    section = text[text.index("## A rank") :]
    assert {name for name in FIRST_CELL.findall(section) if name.startswith("INDUCTORD")} == read


def test_the_settings_in_a_key_are_listed() -> None:
    text = (ROOT / "docs" / "keys.md").read_text()

    def listed(prefix: str) -> set[str]:
        return set(re.findall(r"`(\w+)`", text.split(f"\n`{prefix}.` parts:")[1].split(".")[0]))

    assert listed("process") == set(ambient.describe())
    assert listed("toolchain") == {field.name for field in Toolchain.DESCRIPTOR.fields}


def test_tests_that_a_case_names_exist() -> None:
    named_tests = re.findall(r"`([\w/]+\.py)(?:::(\w+))?(?:\[([^\]]+)\])?`", (ROOT / "docs/cases.md").read_text())
    assert len(named_tests) > 20
    for file, function, parameter in named_tests:
        text = (ROOT / "tests" / file).read_text()
        if function:
            assert f"def {function}(" in text, (file, function)
        if parameter:
            known = "\n".join(map(repr, names(JOBS_OF[file]))) if file in JOBS_OF else text.replace('"', "'")
            assert repr(parameter) in known, (file, parameter)


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_named_commands_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in commands_in(document.read_text()):
        match command.split():
            case ["make", target, *_]:
                assert target in targets, command
            case ["python", script, *_] if script.endswith(".py"):
                assert (ROOT / script).is_file(), command
            case ["inductord", *words] if words and words[0].islower():
                check_command(words, command)


def check_command(words: list[str], said: str) -> None:
    """The words name a command of ours; its flags, up to ``--``, are flags that it has."""
    command: click.Command = inductord
    while isinstance(command, click.Group) and words and re.fullmatch("[a-z][a-z-]*", words[0]):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, said
        command, words = found, words[1:]
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    flags |= {"-h", "--help", "--version"}
    for word in words:
        if word == "--":
            break
        if word.startswith("-"):
            assert word.split("=")[0] in flags, said


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_examples_are_well_formed(document: Path) -> None:
    for language, example in FENCE.findall(document.read_text()):
        match language:
            case "python":
                ast.parse(example)
            case "yaml":
                assert yaml.safe_load(example)
            case "toml":
                DaemonConfig(**tomllib.loads(example))
            case _:
                assert language in ("ini",), f"nobody checks {language}"


def test_the_readme_opens_with_what_does_everything() -> None:
    text = (ROOT / "README.md").read_text()
    assert 0 < text.index("    make demo") < text.index("    make test") < text.index("## Install")
