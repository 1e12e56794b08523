"""Keeps the graphs that this rank asks for in a folder, for ``inductord record``: also those that were found stored.

Nothing of the protocol is touched: a rank that got its artifact has the graph at hand, while a daemon that had the
artifact never saw it. Of all ranks of a node one writes a graph. Whatever goes wrong here is said and costs no more than
that graph: the command that reads the folder counts the keys that lack one.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from inductord.v1.admin_pb2 import Entry
from inductord.v1.compiler_pb2 import OpenCompile
from inductord.v1.sealed_pb2 import RecordedGraph

log = logging.getLogger("inductord")


class Recorder:
    """``folder``: where graphs go, as ``KEY.graph``; None keeps none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def keep(self, request: OpenCompile, graph: Callable[[], bytes]) -> None:
        """Keep the graph of ``request`` unless it is there or another rank is at it. ``graph`` gives its payload."""
        if self._folder is None:
            return
        part = self._folder / f"{request.key}.part"
        try:
            # The claim stays behind when this process is killed: better one graph less than each rank at each graph.
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_recorded(request, graph()))
            os.link(part, self._folder / f"{request.key}.graph")
        except FileExistsError:
            return
        except Exception as error:  # noqa: BLE001 -- of no concern to training; counted by who reads the folder
            log.warning("inductord: the graph %s was not recorded: %s", request.key[:12], error)


def _recorded(request: OpenCompile, graph: bytes) -> bytes:
    entry = Entry(
        key=request.key,
        kind=request.kind,
        size=len(graph),
        sha256=hashlib.sha256(graph).digest(),
        toolchain=request.toolchain,
        key_parts=request.key_parts,
        nodes=request.nodes,
        job=request.requester.job,
    )
    return RecordedGraph(entry=entry, graph=graph).SerializeToString()
