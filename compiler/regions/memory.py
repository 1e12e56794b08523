"""Regions that an earlier job traced: how their graphs are called, and the graphs, without AOTAutograd.

What is kept of a region is JSON and the keys of its two graphs. Nothing of it is unpickled; the graphs come as artifacts do.
Whatever is wrong here ends in tracing the region, counted.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from inductord.compiler.adapter import region_cache
from inductord.compiler.adapter.remote_cache import Named
from inductord.compiler.regions.compose import Region
from inductord.compiler.regions.convention import Backward, Convention, Kind, Layout, Origin
from inductord.compiler.regions.cut import Source
from inductord.compiler.remote_caches import RemoteCache

CACHE = RemoteCache.REGIONS
"""Under this name the daemon keeps them, and reports count them."""


class Shelf(Protocol):
    """Keeps values with the graphs that they name. Neither call raises: what cannot be had is absent."""

    def take(self, cache: str, key: str) -> tuple[bytes, Sequence[Named]] | None: ...
    def lay(self, cache: str, key: str, content: bytes, graphs: Sequence[Named] | None) -> None: ...
    def skipped(self, cache: str, message: str) -> None: ...
    def failed(self, cache: str, what: str, error: Exception) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A region that needs no AOTAutograd."""

    region: Region
    convention: Convention


class Memory:
    """Regions by what AOTAutograd's result depends on. ``wanted``: asked for each, whether they are kept at all."""

    def __init__(self, shelf: Shelf, wanted: Callable[[], bool]) -> None:
        self._shelf = shelf
        self._wanted = wanted

    def name(self, source: Source, patches: Mapping[str, Any]) -> region_cache.Name | None:
        """The region's name; None when nothing is kept of it. To be asked before AOTAutograd has the region."""
        if not self._wanted():
            return None
        try:
            return region_cache.name(source.gm, source.static, patches)
        except region_cache.NotKept as reason:
            self._shelf.skipped(CACHE, str(reason))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a cache, the region is traced
            self._shelf.failed(CACHE, "named", error)
        return None

    def recall(self, name: region_cache.Name, patches: Mapping[str, Any]) -> Known | None:
        """The region, or None when it has to be traced."""
        taken = self._shelf.take(CACHE, name.key)
        if taken is None:
            return None
        try:
            content, graphs = taken
            convention, guards = read(content)
            if not region_cache.take_over(guards, name):
                raise LookupError("it was traced for other sizes")
            loaded = [
                region_cache.load(graph, backward=place > 0, patches=patches) for place, graph in enumerate(graphs)
            ]
            if len(loaded) != 1 + (convention.backward is not None) or None in loaded:
                raise LookupError("its graphs are not all there")
            return Known(Region(loaded[0], loaded[1] if convention.backward else None), convention)
        except Exception as error:  # noqa: BLE001 - as above
            self._shelf.failed(CACHE, "used", error)
            return None

    def keep(self, name: region_cache.Name, known: Known) -> None:
        """Keep a region that was traced and compiled."""
        try:
            guards = region_cache.guards(name)
        except region_cache.NotKept as reason:
            self._shelf.skipped(CACHE, str(reason))
            return
        except Exception as error:  # noqa: BLE001 - as above
            self._shelf.failed(CACHE, "written", error)
            return
        graphs = [known.region.forward, known.region.backward][: 1 + (known.convention.backward is not None)]
        made = [named for graph in graphs if (named := region_cache.named(graph)) is not None]
        content = written(known.convention, guards)
        self._shelf.lay(CACHE, name.key, content, made if len(made) == len(graphs) else None)


def written(convention: Convention, guards: str | None) -> bytes:
    """A convention and the guards that it needs as JSON."""
    fields = {"convention": dataclasses.asdict(convention), "guards": guards}
    return json.dumps(fields, default=sorted).encode()  # a set of numbers is no JSON


def read(content: bytes) -> tuple[Convention, str | None]:
    """What was written.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    both = json.loads(content)
    fields, guards = both["convention"], both["guards"]
    if not isinstance(guards, str | None):
        raise TypeError(f"guards are a text, not {guards!r}")
    back = fields.pop("backward")
    for name in ("mutated", "noticed"):
        fields[name] = tuple(fields[name])
    return Convention(**fields, backward=None if back is None else _backward(back)), guards


def _backward(fields: dict[str, Any]) -> Backward:
    return Backward(
        symints=_origins(fields["symints"]),
        saved=_origins(fields["saved"]),
        donated=frozenset(fields["donated"]),
        tangents=tuple(fields["tangents"]),
        layouts=tuple(_layout(each) for each in fields["layouts"]),
        gradients=tuple(fields["gradients"]),
    )


def _origins(values: list[dict[str, Any]]) -> tuple[Origin, ...]:
    return tuple(Origin(Kind(each["kind"]), each["index"]) for each in values)


def _layout(fields: dict[str, Any]) -> Layout:
    size, stride = (None if fields[name] is None else tuple(fields[name]) for name in ("size", "stride"))
    return Layout(size, stride, fields["memory_format"])
