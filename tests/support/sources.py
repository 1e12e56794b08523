"""The project's own modules as syntax trees: what they import and which names they read. Nothing is imported here."""

import ast
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("compiler", "worker", "daemon")


@dataclasses.dataclass(frozen=True)
class Import:
    """``module``: dotted name; ``names``: what is taken from it, empty for a plain import; ``lazy``: inside a function."""

    module: str
    names: tuple[str, ...]
    lazy: bool
    line: int


@dataclasses.dataclass(frozen=True)
class Module:
    """``name``: as it is imported, e.g. ``inductord.compiler.keys``; ``path``: relative to the project's root."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """compiler, worker or daemon."""
        return self.path.parts[0]

    def imports(self) -> Iterator[Import]:
        """All imports, wherever they stand."""
        lazy = {id(inner) for node in ast.walk(self.tree) if _is_function(node) for inner in ast.walk(node)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(alias.name, (), id(node) in lazy, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno} imports relatively"
                names = tuple(alias.name for alias in node.names)
                yield Import(node.module or "", names, id(node) in lazy, node.lineno)

    def attributes(self) -> Iterator[tuple[str, int]]:
        """Every dotted name that is read, such as ``torch.compile``, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and (name := _dotted(node)):
                yield name, node.lineno


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


@functools.cache
def modules() -> dict[str, Module]:
    """The modules of the project by name, without generated ones."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT)
            parts = relative.with_suffix("").parts
            name = ".".join(("inductord", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            text = path.read_text()
            found[name] = Module(name, relative, text, ast.parse(text))
    return found


def imported_by(imported: Import) -> Iterator[str]:
    """Modules of the project that an import runs: the packages on the way, the module, and submodules taken from it."""
    parts = imported.module.split(".")
    candidates = [".".join(parts[: length + 1]) for length in range(len(parts))]
    candidates += [f"{imported.module}.{name}" for name in imported.names]
    yield from (name for name in candidates if name in modules())


def third_party(start: str, *, lazy: bool) -> dict[str, str]:
    """Top-level packages from outside that importing ``start`` imports, each with the module that does.

    ``lazy``: also what functions import when they are called.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for imported in modules()[name].imports():
            if imported.lazy and not lazy:
                continue
            todo.extend(imported_by(imported))
            top = imported.module.split(".")[0]
            if top != "inductord":
                found.setdefault(top, name)
    return found
