"""Whole jobs over TCP: one that is let in is served as over the socket, and one that is not trains all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.certificates import Authority
from support.daemon import DaemonProcess
from support.jobs import GRAPHS, Rank, Tiny, recorded
from support.scrape import nonzero, page, samples, value
from support.tcp import new_token, secured, tcp_address

from inductord.daemon.auth import tokens

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]


def test_who_has_no_right_to_come_trains_all_the_same(
    tiny: Tiny, start_daemon: Callable[..., DaemonProcess], start_rank: Callable[..., Rank], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    shown, file = authority.issue("daemon"), tmp_path / "tokens"
    known, unknown = new_token(file, "acme"), tokens.new_token()
    certificate, expired = authority.issue("rank"), authority.issue("rank", ended=True)
    daemon = start_daemon(
        **recorded(tiny),
        listen="localhost:0",
        tls_cert=shown.cert,
        tls_key=shown.key,
        tls_client_ca=authority.ca,
        tokens=file,
    )
    address = tcp_address(daemon)
    ranks = [
        start_rank(address, **secured(authority.ca, pair, token))
        for pair, token in ((certificate, known), (certificate, unknown), (expired, known))
    ]
    served, alone, late = (rank.trained() for rank in ranks)
    assert (served.fallbacks, served.count("led")) == ({}, GRAPHS), served.err
    for refused, said in ((alone, "does not know the token"), (late, "does not take our certificate")):
        assert (refused.fallbacks, refused.count("led")) == ({"unauthenticated": GRAPHS}, 0), refused.err
        assert said in refused.err
    # Who fails in the handshake never gets as far as a call, and gRPC says why.
    assert nonzero(daemon, "inductord_auth_failures_total") == {"wrong_token": GRAPHS}
    counted = samples(page(daemon))
    begun, sound = (value(counted, f"inductord_tls_connections{which}_total") for which in ("", "_sound"))
    assert begun > sound > 0
    assert "certificate has expired" in daemon.log()
    assert [job.job for job in daemon.status().jobs] == ["acme/job"]
    secrets = (known, unknown, *(pair.key.read_text().splitlines()[1] for pair in (shown, certificate, expired)))
    for log in (daemon.log(), served.err, alone.err, late.err):
        assert [secret for secret in secrets if secret in log] == []
