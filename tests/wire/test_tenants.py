"""Tokens and the tenants that they name: what one has is absent for every other, and the owner's is the owner's."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from support.certificates import Authority, replace
from support.daemon import CHANNEL_OPTIONS, DaemonProcess, running_daemon, wait_until
from support.pools import DEADLINE_S, script
from support.rank import Rank, key_of
from support.scrape import nonzero
from support.tcp import ask, client, new_token, refused, secured, tcp_address

from inductord.compiler.channel import Remote
from inductord.compiler.client import CompileFailed
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.daemon.client import AdminClient, ClientError, NotAdmitted, NotFound
from inductord.v1 import cache_pb2
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.cache_pb2_grpc import CacheServiceStub
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

pytestmark = pytest.mark.wire

WRONG = "ind_" + "x" * 43


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A daemon with TLS and tokens, and the environments of two tenants."""
    folder = tmp_path_factory.mktemp("tenants")
    authority = Authority(folder)
    shown = authority.issue("daemon")
    file = folder / "tokens"
    tokens = {tenant: new_token(file, tenant) for tenant in ("acme", "beta")}
    settings: dict[str, Any] = {
        "listen": "localhost:0",
        "tls_cert": shown.cert,
        "tls_key": shown.key,
        "tokens": file,
        "log_level": "debug",
    }
    log = {"SCRIPTED_LOG": str(folder / "compiled")}
    with running_daemon(folder, log, **settings) as daemon:
        tls = secured(authority.ca)
        yield SimpleNamespace(
            daemon=daemon,
            address=tcp_address(daemon),
            tls=tls,
            file=file,
            tokens=tokens,
            acme={**tls, "INDUCTORD_TOKEN": tokens["acme"]},
            beta={**tls, "INDUCTORD_TOKEN": tokens["beta"]},
        )
        # Whatever the tests did: no secret is in the log, not even one that was refused.
        said = daemon.log()
        for secret in (
            *tokens.values(),
            WRONG,
            "PRIVATE KEY",
            *(line.split()[1] for line in file.read_text().splitlines()),
        ):
            assert secret not in said


def failures(shared: SimpleNamespace) -> dict[str, int]:
    return nonzero(shared.daemon, "inductord_auth_failures_total")


@pytest.mark.parametrize(
    ("token", "counted"),
    [("", "no_token"), (WRONG, "wrong_token")],
    ids=["no token", "wrong token"],
)
def test_who_shows_no_sound_token_is_refused(shared: SimpleNamespace, token: str, counted: str) -> None:
    before = failures(shared).get(counted, 0)
    environ = {**shared.tls, "INDUCTORD_TOKEN": token}
    reason, message = refused(shared.address, environ)
    assert reason is Fallback.UNAUTHENTICATED
    assert "token" in message
    assert failures(shared)[counted] == before + 1
    with AdminClient(shared.address, environ=environ) as admin:
        admin.check_health()  # says only whether the daemon serves
        with pytest.raises(NotAdmitted, match="token"):
            admin.status()
    assert failures(shared)[counted] == before + 2


def test_metadata_that_is_no_token(shared: SimpleNamespace) -> None:
    token = shared.tokens["acme"]
    before = failures(shared).get("no_token", 0)
    bad = [
        [("authorization", token)],
        [("authorization", f"Basic {token}")],
        [("authorization", "Bearer ")],
        [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")],
        [("authorization-bin", f"Bearer {token}".encode())],
    ]
    with Remote(shared.address, shared.tls).channel() as channel:
        stub = CompilerServiceStub(channel)
        for metadata in bad:
            with pytest.raises(grpc.RpcError) as caught:
                stub.GetCapabilities(pb.GetCapabilitiesRequest(), metadata=metadata, timeout=DEADLINE_S)
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert failures(shared)["no_token"] == before + len(bad)


def test_what_one_tenant_has_is_a_miss_for_every_other(shared: SimpleNamespace) -> None:
    graph = script(["size", 1001])
    key = key_of(graph)
    compiles = shared.daemon.status().totals.compiles
    served = [ask(shared.address, env, graph).served for env in (shared.acme, shared.beta, shared.acme, shared.beta)]
    assert served == [pb.SERVED_LED, pb.SERVED_LED, pb.SERVED_HIT, pb.SERVED_HIT]
    assert ask(shared.daemon.address, {}, graph).served == pb.SERVED_LED
    assert shared.daemon.status().totals.compiles == compiles + 3
    # A key is looked up in its own tenant's part alone.
    only = script(["size", 1002])
    ask(shared.address, shared.acme, only)
    for environ, state in ((shared.acme, pb.KEY_STATE_STORED), (shared.beta, pb.KEY_STATE_ABSENT)):
        with Remote(shared.address, environ).channel() as channel:
            answer = CompilerServiceStub(channel).Lookup(pb.LookupRequest(keys=[key_of(only)]), timeout=DEADLINE_S)
            assert list(answer.states) == [state]
            # Nor can a tenant name another's.
            with pytest.raises(grpc.RpcError) as caught:
                CompilerServiceStub(channel).Lookup(pb.LookupRequest(keys=[f"acme/{key}"]), timeout=DEADLINE_S)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_tenants_share_neither_a_running_compile_nor_a_failure(shared: SimpleNamespace, tmp_path: Path) -> None:
    graph = script(["wait_for", str(tmp_path / "go")])
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(ask, shared.address, env, graph) for env in (shared.acme, shared.beta) * 2]
        wait_until(lambda: sum(each.waiters for each in shared.daemon.status().compiles) == 4, "all wait")
        assert len(shared.daemon.status().compiles) == 2
        (tmp_path / "go").touch()
        served = sorted(each.result(DEADLINE_S).served for each in waiting)
    assert served == sorted([pb.SERVED_LED, pb.SERVED_JOINED] * 2)
    failing = script(["fail", "no such lowering"])
    for environ, remembered in ((shared.acme, False), (shared.acme, True), (shared.beta, False)):
        with pytest.raises(CompileFailed) as caught:
            ask(shared.address, environ, failing)
        assert caught.value.failure.remembered is remembered


def test_a_tenant_sees_what_is_its_own(shared: SimpleNamespace) -> None:
    graph, other = script(["size", 2001]), script(["size", 2002])
    ask(shared.address, shared.acme, graph, job="llama")
    ask(shared.address, shared.beta, other, job="llama")
    with (
        AdminClient(shared.address, environ=shared.acme) as acme,
        AdminClient(shared.address, environ=shared.beta) as beta,
    ):
        keys = {entry.key for entry in acme.entries()}
        assert key_of(graph) in keys
        assert key_of(other) not in keys
        assert keys.isdisjoint({f"beta/{key_of(other)}"})
        assert acme.entry(key_of(graph)[:12]).key_parts == {"part": key_of(graph)}
        for name in (key_of(graph)[:12], key_of(graph)):
            with pytest.raises(NotFound):
                beta.entry(name)
        with pytest.raises(ClientError, match="hex digits"):
            beta.entry(f"acme/{key_of(graph)[:12]}")
        # Pages, too, go through a tenant's own entries alone.
        assert [entry.key for entry in acme.entries(1)] == [key_of(graph)]
        ask(shared.address, shared.acme, script(["size", 2003]), job="only acme's")
        assert acme.job("only acme's").ranks == 1
        with pytest.raises(NotFound):
            beta.job("only acme's")
        seen = beta.status()
        assert {job.job for job in seen.jobs}.isdisjoint({"only acme's", "acme/llama", "beta/llama"})
        assert "llama" in {job.job for job in seen.jobs}
        assert seen.store.entries == len(list(beta.entries()))
        assert (seen.pid, seen.store.path, seen.rss_bytes, seen.address) == (0, "", 0, f"tcp://{seen.listen}")
        assert seen.totals.requests < shared.daemon.status().totals.requests
    with AdminClient(shared.daemon.address) as owner:
        assert {f"acme/{key_of(graph)}", f"beta/{key_of(other)}"} <= {entry.key for entry in owner.entries()}
        assert owner.entry(f"acme/{key_of(graph)[:12]}").key == f"acme/{key_of(graph)}"
        with pytest.raises(NotFound):
            owner.entry(key_of(graph)[:12])
        assert owner.job("beta/llama").ranks == 1


def test_what_concerns_the_whole_daemon_is_the_owners(shared: SimpleNamespace) -> None:
    before = failures(shared).get("permission", 0)
    with AdminClient(shared.address, environ=shared.acme) as acme:
        for forbidden in (acme.verify, lambda: acme.collect(0), lambda: acme.shutdown(0)):
            with pytest.raises(NotAdmitted, match="owner"):
                forbidden()
    assert failures(shared)["permission"] == before + 3
    assert not shared.daemon.status().draining


async def test_a_replayed_request_means_what_it_means_for_who_sends_it(shared: SimpleNamespace) -> None:
    graph = script(["size", 3001])
    opening = pb.CompileRequest(
        open=pb.OpenCompile(client=this_version(), key=key_of(graph), kind=pb.GRAPH_KIND_FORWARD, reads_files=True)
    ).SerializeToString()
    credentials = grpc.ssl_channel_credentials(Path(shared.tls["INDUCTORD_TLS_CA"]).read_bytes())
    target = shared.address.removeprefix("tcp://")

    async def first_answer(token: str | None) -> str | None:
        metadata = [("authorization", f"Bearer {token}")] if token else []
        async with grpc.aio.secure_channel(target, credentials, CHANNEL_OPTIONS) as channel:
            call = channel.stream_stream(
                "/inductord.v1.CompilerService/Compile", response_deserializer=pb.CompileResponse.FromString
            )(metadata=metadata, timeout=DEADLINE_S)
            if token:  # without one the call is over before anything can be written
                await call.write(opening)
            answer = await call.read()
            call.cancel()
            # A file is for who shares the daemon's machine, which TCP does not say.
            assert not answer.artifact.path
            kind: str | None = answer.WhichOneof("message")
            return kind

    await asyncio.to_thread(ask, shared.address, shared.acme, graph)
    assert await first_answer(shared.tokens["acme"]) == "artifact"
    assert await first_answer(shared.tokens["beta"]) == "send_graph"
    with pytest.raises(grpc.RpcError) as caught:
        await first_answer(None)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_tokens_come_and_go_while_the_daemon_runs(shared: SimpleNamespace) -> None:
    token = new_token(shared.file, "late")
    environ = {**shared.tls, "INDUCTORD_TOKEN": token}

    def known() -> bool:
        with AdminClient(shared.address, environ=environ) as admin:
            try:
                admin.status()
            except NotAdmitted:
                return False
        return True

    wait_until(known, "the new token is taken")
    lines = shared.file.read_text().splitlines(keepends=True)
    replace(shared.file, "".join([*lines[:-1], "# withdrawn\n"]).encode())
    wait_until(lambda: not known(), "the withdrawn token is refused")
    # Half a file withdraws nobody's.
    replace(shared.file, "".join([*lines[:-1], "beta 12\n"]).encode())
    wait_until(lambda: not known() and "cannot be used: line 3" in shared.daemon.log(), "the bad file is noticed")
    assert ask(shared.address, shared.acme, script(["size", 4001])).artifact
    replace(shared.file, "".join(lines[:-1]).encode())
    assert "acme" in shared.file.read_text()


def test_a_token_is_read_from_its_file_at_each_connect(shared: SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "token"
    environ = {**shared.tls, "INDUCTORD_TOKEN_FILE": str(file)}
    with client(shared.address, environ) as one:
        for content, said in (("", "is empty"), (f"{WRONG}\n", "does not know the token")):
            file.write_text(content)
            with pytest.raises(Unavailable, match=said) as caught:
                one.capabilities()
            assert caught.value.reason is Fallback.UNAUTHENTICATED
        file.write_text(shared.tokens["acme"] + "\n")
        assert one.capabilities().pool == "local"


async def test_an_open_listener_is_for_clients_of_the_owner(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(listen="127.0.0.1:0", insecure=True)
    address = f"tcp://{daemon.status().listen}"
    graph = script(["size", 5001])
    assert (await asyncio.to_thread(ask, address, {}, graph)).served == pb.SERVED_LED
    assert (await asyncio.to_thread(ask, daemon.address, {}, graph)).served == pb.SERVED_HIT
    async with grpc.aio.insecure_channel(daemon.status().listen, CHANNEL_OPTIONS) as channel:
        answer = await Rank(channel).compile(graph, reads_files=True)
        assert (answer.served, len(answer.artifact)) == (pb.SERVED_HIT, 5001)
    with AdminClient(address, environ={}) as admin, pytest.raises(NotAdmitted, match="owner"):
        admin.shutdown(0)
    assert "insecure: who reaches" in daemon.log()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "--insecure"),
        ({"tokens": "{tokens}"}, "in clear"),
        ({"tls_cert": "{cert}", "tls_key": "{key}"}, "tls_client_ca"),
    ],
    ids=["nothing", "tokens in clear", "TLS that takes everybody"],
)
def test_a_daemon_does_not_listen_openly_by_accident(
    tmp_path: Path, shared: SimpleNamespace, settings: dict[str, str], said: str
) -> None:
    pair = Authority(tmp_path).issue("daemon")
    named = {"tokens": shared.file, "cert": pair.cert, "key": pair.key}
    daemon = DaemonProcess(
        tmp_path / "d", {"listen": "127.0.0.1:0", **{name: text.format(**named) for name, text in settings.items()}}
    )
    try:
        daemon.spawn()
        assert daemon.wait() == 1
        assert said in daemon.log()
        assert "Traceback" not in daemon.log()
    finally:
        daemon.close()


def test_two_daemons_do_not_share_a_port(start_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    first = start_daemon(listen="127.0.0.1:0", insecure=True)
    second = DaemonProcess(tmp_path / "second", {"listen": first.status().listen, "insecure": True})
    try:
        second.spawn()
        assert second.wait() == 1
        assert f"cannot listen on {first.status().listen}" in second.log()
    finally:
        second.close()


def test_values_of_pytorchs_remote_caches_are_each_tenants_own(shared: SimpleNamespace) -> None:
    for tenant in ("acme", "beta"):
        with client(shared.address, getattr(shared, tenant)) as rank:
            stub = CacheServiceStub(rank.channel())
            get = cache_pb2.GetBlobRequest(cache="pgo", key="job")
            assert not stub.GetBlob(get, timeout=DEADLINE_S).HasField("value")
            put = cache_pb2.PutBlobRequest(cache="pgo", key="job", value=tenant.encode())
            assert stub.PutBlob(put, timeout=DEADLINE_S).kept
            assert stub.GetBlob(get, timeout=DEADLINE_S).value == tenant.encode()
    with shared.daemon.channel() as channel:
        assert not CacheServiceStub(channel).GetBlob(get, timeout=DEADLINE_S).HasField("value")
