"""Graphs that are asked for now and fetched later: how the two calls of Inductor for one graph find each other."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Generator
from typing import Any

import torch

from inductord.compiler.adapter.placement import Placement
from inductord.compiler.errand import Errand, Give
from inductord.compiler.reasons import Fallback
from inductord.compiler.timeline import SpanRecorder
from inductord.v1.compiler_pb2 import OpenCompile


class FallBack(Exception):
    """This graph is compiled here, because of ``reason``."""

    def __init__(self, reason: Fallback, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A graph that the daemon was asked for. ``give``: its payload, or the artifact that is compiled of it here, each made
    once; ``placement``: where it runs; ``made_here``: the compiled graph, when this rank was asked to compile it for all."""

    request: OpenCompile
    give: Give
    errand: Errand
    placement: Placement
    made_here: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False, slots=True)
class Ticket:
    """A graph that was begun: asked for, or known to be compiled here. ``span``: its record, which ends when ``record`` is
    closed."""

    gm: torch.fx.GraphModule
    sent: Sent | FallBack
    span: SpanRecorder
    record: contextlib.ExitStack


class Begun(BaseException):
    """Leaves Inductor's ``compile_fx_inner`` in the middle: ``ticket`` fetches the graph later.

    No ``Exception``: on its way out nobody may take it for a failure of the compile.
    """

    def __init__(self, ticket: Ticket) -> None:
        super().__init__()
        self.ticket = ticket


_beginning: contextvars.ContextVar[bool] = contextvars.ContextVar("inductord_beginning", default=False)
_fetching: contextvars.ContextVar[Ticket | None] = contextvars.ContextVar("inductord_fetching", default=None)


@contextlib.contextmanager
def beginning() -> Generator[None]:
    """Graphs that come to the seam inside are not waited for: it raises ``Begun``."""
    token = _beginning.set(True)
    try:
        yield
    finally:
        _beginning.reset(token)


@contextlib.contextmanager
def fetching(ticket: Ticket) -> Generator[None]:
    """The graph that comes to the seam inside is the one of the ticket."""
    token = _fetching.set(ticket)
    try:
        yield
    finally:
        _fetching.reset(token)


def only_begin() -> bool:
    """Whether graphs are not waited for."""
    return _beginning.get()


def ticket_of(gm: torch.fx.GraphModule) -> Ticket | None:
    """The ticket of this graph, when it was begun before."""
    ticket = _fetching.get()
    return ticket if ticket is not None and ticket.gm is gm else None
