"""Whole jobs over TCP: one that is let in is served as over the socket, and one that is not trains all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.certificates import Authority
from support.daemon import DaemonProcess
from support.jobs import GRAPHS, Rank, Tiny, recorded
from support.scrape import nonzero
from support.tcp import new_token, secured, tcp_address

from inductord.daemon.auth import tokens

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]


def test_a_token_decides_who_is_served_and_nobody_fails(
    tiny: Tiny, start_daemon: Callable[..., DaemonProcess], start_rank: Callable[..., Rank], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    shown, file = authority.issue("daemon"), tmp_path / "tokens"
    known, unknown = new_token(file, "acme"), tokens.new_token()
    daemon = start_daemon(**recorded(tiny), listen="localhost:0", tls_cert=shown.cert, tls_key=shown.key, tokens=file)
    address = tcp_address(daemon)
    ranks = [start_rank(address, **secured(authority.ca, token=token)) for token in (known, unknown)]
    served, alone = (rank.trained() for rank in ranks)
    assert (served.fallbacks, served.count("led")) == ({}, GRAPHS), served.err
    assert (alone.fallbacks, alone.count("led")) == ({"unauthenticated": GRAPHS}, 0), alone.err
    assert "does not know the token" in alone.err
    assert nonzero(daemon, "inductord_auth_failures_total") == {"wrong_token": GRAPHS}
    assert [job.job for job in daemon.status().jobs] == ["acme/job"]
    for said in (daemon.log(), served.err, alone.err):
        assert known not in said
        assert unknown not in said
