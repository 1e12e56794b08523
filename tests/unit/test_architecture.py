"""Which part may know of which. These rules keep private PyTorch in one place and the daemon free of torch."""

import ast
import re
import sys
import tomllib

import pytest
from packaging.specifiers import SpecifierSet
from support.sources import ROOT, Module, modules, third_party

from inductord.compiler import adapter
from inductord.compiler.reasons import Fallback

pytestmark = pytest.mark.unit

MAX_LINES = 400
LONGER: dict[str, str] = {}
"""Modules above that, each with the reason."""

ONE_WAY = {"compiler": {"v1", "compiler"}, "worker": {"v1", "compiler", "worker"}}
"""What each package may import of the project; the daemon may import all."""

ADAPTER = "inductord.compiler.adapter"
RANK_LIBRARIES = {"torch", "grpc", "google"}
"""The base install; google is protobuf."""

DAEMON_STARTS = ["inductord.daemon.__main__", "inductord.daemon.cli.app", "inductord.worker.__main__"]
RANK_STARTS = ["inductord.compiler.hook", "inductord.compiler.backend", "inductord.compiler.offload"]

every_module = pytest.mark.parametrize("module", modules().values(), ids=lambda module: str(module.path))


def outside(names: dict[str, str]) -> dict[str, str]:
    return {top: by for top, by in names.items() if top not in sys.stdlib_module_names}


def private(dotted: str) -> bool:
    """Whether a dotted name leads through a private one of torch."""
    first, *rest = dotted.split(".")
    return first == "torch" and any(part.startswith("_") and not part.startswith("__") for part in rest)


def in_adapter(module: Module) -> bool:
    return module.name == ADAPTER or module.name.startswith(f"{ADAPTER}.")


@every_module
def test_private_torch_is_touched_by_the_adapter_alone(module: Module) -> None:
    if in_adapter(module):
        return
    imported = [
        f"line {each.line}: {each.module}"
        for each in module.imports()
        if private(each.module) or any(private(f"{each.module}.{name}") for name in each.names)
    ]
    read = [f"line {line}: {name}" for name, line in module.attributes() if private(name)]
    assert imported + read == []


def test_only_the_hook_names_a_private_module() -> None:
    """It must know whose import to wait for. A name in text could otherwise go round the rule above."""
    naming = {
        str(module.path): [
            node.value
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"torch\.[\w.]+", node.value)
            and private(node.value)
        ]
        for module in modules().values()
        if not in_adapter(module)
    }
    assert {path: names for path, names in naming.items() if names} == {
        "compiler/hook.py": [
            "torch._inductor.compile_fx",
            "torch._inductor.decomposition",
            "torch._inductor.lowering",
            "torch._dynamo.pgo",
        ]
    }


@every_module
def test_imports_of_the_project_point_one_way(module: Module) -> None:
    allowed = ONE_WAY.get(module.package)
    if allowed is None:
        return
    parts = [each.module.split(".")[1] for each in module.imports() if each.module.startswith("inductord.")]
    parts += [name for each in module.imports() if each.module == "inductord" for name in each.names]
    assert set(parts) - {"__version__"} <= allowed


@every_module
def test_the_project_is_imported_by_its_own_name(module: Module) -> None:
    assert [each for each in module.imports() if each.module.split(".")[0] in ("compiler", "worker", "daemon")] == []


@pytest.mark.parametrize("start", DAEMON_STARTS)
def test_starting_the_daemon_or_a_worker_imports_neither_torch_nor_ray(start: str) -> None:
    assert not {"torch", "ray", "numpy"} & third_party(start, lazy=False).keys()


def test_the_daemon_reaches_torch_through_the_task_of_a_worker_alone() -> None:
    lazily = {
        (module.name, each.module, each.names)
        for module in modules().values()
        if module.package in ("daemon", "worker")
        for each in module.imports()
        if "torch" in third_party_of(each.module, each.names)
    }
    assert lazily == {("inductord.worker.compile_task", "inductord.compiler", ("task",))}


def third_party_of(module: str, names: tuple[str, ...]) -> set[str]:
    if module.split(".")[0] == "torch":
        return {"torch"}
    starts = [name for name in (module, *(f"{module}.{each}" for each in names)) if name in modules()]
    return {top for start in starts if modules()[start].package == "compiler" for top in third_party(start, lazy=False)}


def test_the_daemon_has_no_ray() -> None:
    """Ray unpickles what it is sent. It lives in the bridge, which the daemon starts and never imports."""
    assert "ray" not in third_party("inductord.daemon.cli.app", lazy=True)


def test_ray_is_imported_by_the_ray_pool_alone() -> None:
    importing = {
        str(module.path)
        for module in modules().values()
        if any(each.module.split(".")[0] == "ray" for each in module.imports())
    }
    assert importing
    assert all(path.startswith("worker/ray_") for path in importing)


@every_module
def test_the_daemon_and_the_pools_do_not_unpickle(module: Module) -> None:
    if module.package == "compiler":
        return
    if str(module.path) == "worker/ray_blob.py":
        # Ray's own processes hand it buffers; it names no function that reads a pickle.
        assert {name for each in module.imports() if each.module == "pickle" for name in each.names} == {"PickleBuffer"}
        return
    serialisers = {"pickle", "marshal", "shelve", "cloudpickle", "dill"}
    assert not serialisers & {each.module.split(".")[0] for each in module.imports()}


@pytest.mark.parametrize("start", RANK_STARTS)
def test_a_rank_needs_the_base_install_alone(start: str) -> None:
    assert outside(third_party(start, lazy=False)).keys() <= RANK_LIBRARIES
    # Where a graph calls Triton kernels of the user, Triton is there already.
    assert outside(third_party(start, lazy=True)).keys() <= RANK_LIBRARIES | {"opentelemetry", "triton"}


def test_opentelemetry_is_imported_by_the_exporting_side_alone() -> None:
    importing = {
        str(module.path)
        for module in modules().values()
        if any(each.module.split(".")[0] == "opentelemetry" for each in module.imports())
    }
    assert importing == {"compiler/otel_export.py"}
    lazily = {
        (str(module.path), each.lazy)
        for module in modules().values()
        for each in module.imports()
        if each.module == "inductord.compiler.otel_export"
    }
    assert lazily == {("compiler/otel.py", True)}


def test_the_hook_imports_nothing_before_it_is_asked() -> None:
    assert outside(third_party("inductord.compiler.hook", lazy=False)) == {}


@every_module
def test_no_module_is_long_without_a_reason(module: Module) -> None:
    lines = len(module.text.splitlines())
    assert lines <= MAX_LINES or LONGER.get(str(module.path)), f"{lines} lines"


def test_no_reason_is_left_for_a_module_that_became_short() -> None:
    lengths = {str(module.path): len(module.text.splitlines()) for module in modules().values()}
    assert [path for path in LONGER if lengths.get(path, 0) <= MAX_LINES] == []


@every_module
def test_every_module_says_what_it_is_for(module: Module) -> None:
    assert (ast.get_docstring(module.tree) or "").strip()


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("2.10.2", False),
        ("2.11.0", True),
        ("2.13.0+cpu", True),
        ("2.15.1+cu126", True),
        ("2.14.0a0+git1234567", True),
        ("2.16.0", False),
        ("3.0", False),
        ("1.13.1", False),
    ],
)
def test_the_torch_that_the_adapter_knows_is_the_torch_that_may_be_installed(version: str, known: bool) -> None:
    assert adapter.supported(version) is known
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = [line for line in project["dependencies"] if line.startswith("torch")]
    assert SpecifierSet(torch.removeprefix("torch")).contains(version.partition("a0")[0]) is known


def test_every_reason_for_a_local_compile_is_given_somewhere() -> None:
    given = {
        name.removeprefix("Fallback.")
        for module in modules().values()
        if module.package == "compiler"
        for name, _ in module.attributes()
        if name.startswith("Fallback.")
    }
    assert {reason.name for reason in Fallback} - given == set()
