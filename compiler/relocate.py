"""Generated code that was made for one device, moved to another, as a linker moves object code. No torch.

A worker generates code for device 0. Where the index of that device stands in the text is found by parsing the text, also
the kernel sources that are strings in it, and kept as relocation records. A rank puts its own index there.
"""

import ast
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

_KERNEL_LOADER = "triton"
_POSITIONAL = {
    "_DeviceGuard": 0,
    "set_device": 0,
    "get_raw_stream": 0,
    "synchronize": 0,
    "current_stream": 0,
    "default_stream": 0,
}
"""Calls of the wrapper that take the index of a device, and which argument it is."""

_KEYWORD = {"DeviceProperties": "index", "device": "index", "Stream": "device", "use_mem_pool": "device"}


class NotRelocatable(ValueError):
    """The text is no Python, or does not hold what a record says."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Span:
    """Bytes ``start`` to ``end`` of the text, the latter not included."""

    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """``records``: where the text holds the index of the own device, in order; ``kernels``: where sources of kernels stand."""

    records: tuple[Span, ...]
    kernels: tuple[Span, ...]


def find(source: str, device_type: str, index: int) -> Table:
    """Where ``source``, a wrapper that Inductor generated, names the device ``device_type:index``.

    Raises:
        NotRelocatable: it is no Python.
    """
    finder = _Finder(source, device_type, index)
    return Table(tuple(sorted(finder.records())), tuple(finder.kernels))


def apply(source: str, table: Table, before: int, after: int) -> tuple[str, dict[str, str]]:
    """``source`` with ``after`` in place of ``before`` at each record, and each kernel's old source to its new one.

    Raises:
        NotRelocatable: something else stands there.
    """
    text = source.encode()
    old, new = str(before).encode(), str(after).encode()
    starts = [record.start for record in table.records]
    if any(text[record.start : record.end] != old for record in table.records):
        raise NotRelocatable(f"a record does not point at device {before}")
    if any(a >= b for a, b in itertools.pairwise(starts)):
        raise NotRelocatable("the records are not in order")
    moved = _spliced(text, table.records, new)
    kernels = {}
    for span in table.kernels:
        inside = [
            Span(r.start - span.start, r.end - span.start) for r in table.records if span.start <= r.start < span.end
        ]
        kernel = text[span.start : span.end]
        kernels[_value(kernel)] = _value(_spliced(kernel, inside, new))
    return moved.decode(), kernels


def _spliced(text: bytes, records: Sequence[Span], new: bytes) -> bytes:
    pieces, position = [], 0
    for record in records:
        pieces += [text[position : record.start], new]
        position = record.end
    return b"".join([*pieces, text[position:]])


def _value(literal: bytes) -> str:
    """What Python makes of the text between the quotes."""
    value = ast.literal_eval("'''" + literal.decode() + "'''")
    assert isinstance(value, str)
    return value


class _Finder:
    def __init__(self, source: str, device_type: str, index: int) -> None:
        self._text = source.encode()
        self._type = device_type
        self._index = index
        self._types = {device_type, "hip"} if device_type == "cuda" else {device_type}
        self.kernels: list[Span] = []

    def records(self) -> Iterator[Span]:
        yield from self._in(self._text, 0)

    def _in(self, text: bytes, base: int) -> Iterator[Span]:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise NotRelocatable(f"generated code that is no Python: {error}") from error
        place = _Places(text, base)
        names = set(self._stream_names(tree))
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=attribute) as function, args=[_, ast.Constant(value=str()) as kernel, *_]
                ) if attribute == _KERNEL_LOADER and isinstance(function.value, ast.Name):
                    yield from self._in_kernel(text, place, kernel)
                case ast.Call():
                    yield from self._in_call(node, place)
                case ast.Constant(value=str(value)) if value == f"{self._type}:{self._index}":
                    end = place.end(node)
                    yield Span(end - 1 - len(str(self._index)), end - 1)  # before the closing quote
                case ast.Name(id=name) if name in names:
                    end = place.end(node)
                    yield Span(end - len(str(self._index)), end)

    def _in_kernel(self, text: bytes, place: "_Places", literal: ast.Constant) -> Iterator[Span]:
        start, end = place.start(literal), place.end(literal)
        if self._text[start : start + 3] != b"'''":
            raise NotRelocatable("the source of a kernel is not in triple quotes")
        self.kernels.append(Span(start + 3, end - 3))
        yield from self._in(self._text[start + 3 : end - 3], start + 3)

    def _in_call(self, call: ast.Call, place: "_Places") -> Iterator[Span]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if (position := _POSITIONAL.get(name)) is not None and len(call.args) > position:
            yield from self._index_at(call.args[position], place)
        if (keyword := _KEYWORD.get(name)) is not None:
            given = {entry.arg: entry.value for entry in call.keywords}
            kind = given.get("type") or (call.args[0] if call.args else None)
            if kind is not None and not (isinstance(kind, ast.Constant) and kind.value in self._types):
                return  # a device of another kind
            if keyword in given:
                yield from self._index_at(given[keyword], place)
            elif name == "device" and len(call.args) > 1:
                yield from self._index_at(call.args[1], place)

    def _index_at(self, node: ast.expr, place: "_Places") -> Iterator[Span]:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value == self._index:
            yield Span(place.start(node), place.end(node))

    def _stream_names(self, tree: ast.AST) -> Iterator[str]:
        """Variables that hold the stream of the device and end with its index: ``stream0 = get_raw_stream(0)``."""
        for node in ast.walk(tree):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Name(id="get_raw_stream"), args=[ast.Constant(value=index)]),
                ) if index == self._index and name.endswith(f"stream{index}"):
                    yield name


class _Places:
    """Byte offsets of nodes in the whole text; ``ast`` gives lines and UTF-8 columns."""

    def __init__(self, text: bytes, base: int) -> None:
        self._lines = [0, *itertools.accumulate(len(line) for line in text.splitlines(keepends=True))]
        self._base = base

    def start(self, node: ast.expr) -> int:
        return self._base + self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._base + self._lines[node.end_lineno - 1] + node.end_col_offset
