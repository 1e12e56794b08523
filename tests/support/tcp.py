"""Clients of a daemon over TCP, each with certificates and a token of its own."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.certificates import Pair
from support.daemon import DaemonProcess
from support.pools import DEADLINE_S, script
from support.rank import key_of

from inductord.compiler.client import Client, Received
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.daemon.auth import tokens
from inductord.v1 import compiler_pb2 as pb


def tcp_address(daemon: DaemonProcess, host: str = "localhost") -> str:
    """Where it listens, by a name that its certificate has."""
    return f"tcp://{host}:{daemon.status().listen.rpartition(':')[2]}"


def secured(ca: Path | None = None, pair: Pair | None = None, token: str = "", **more: str) -> dict[str, str]:
    """The variables of a client."""
    env = dict(more)
    if ca is not None:
        env["INDUCTORD_TLS_CA"] = str(ca)
    if pair is not None:
        env |= {"INDUCTORD_TLS_CERT": str(pair.cert), "INDUCTORD_TLS_KEY": str(pair.key)}
    if token:
        env["INDUCTORD_TOKEN"] = token
    return env


def new_token(file: Path, tenant: str) -> str:
    """A token that the daemon with this file of tokens knows, or will know within a second or so."""
    token = tokens.new_token()
    tokens.add(file, tenant, token)
    return token


@contextlib.contextmanager
def client(address: str, environ: Mapping[str, str]) -> Iterator[Client]:
    """A rank's client."""
    made = Client(address, environ)
    try:
        yield made
    finally:
        made.close()


def ask(
    address: str, environ: Mapping[str, str], graph: bytes, job: str = "job", max_wait: float = DEADLINE_S
) -> Received:
    """What a rank does for one graph."""
    request = pb.OpenCompile(
        client=this_version(),
        key=key_of(graph),
        kind=pb.GRAPH_KIND_FORWARD,
        requester=pb.Requester(job=job, rank=0, world_size=1, pid=1),
        key_parts={"part": key_of(graph)},
    )
    with client(address, environ) as one:
        return one.compile(request, lambda: graph, lambda _: None, max_wait)


def refused(address: str, environ: Mapping[str, str]) -> tuple[Fallback, str]:
    """Why a rank gets nothing, and what it is told."""
    with pytest.raises(Unavailable) as caught:
        ask(address, environ, script(["size", 1]))
    return caught.value.reason, str(caught.value)
