"""Whether products of matrices are padded is measured by one rank, and all later ones do as it found."""

from pathlib import Path

import pytest
from support.daemon import running_daemon
from support.scrape import nonzero
from support.training import FINDS_SUPPORT, python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_a_rank_that_would_have_decided_otherwise_does_as_the_first(tmp_path: Path) -> None:
    def rank(name: str, *args: str) -> tuple[bool, bool]:
        seen = train(tmp_path / name.replace(" ", "-"), python("padded.py", *args), None, **FINDS_SUPPORT).result
        return seen["pads"], seen["measured"] > 0

    assert rank("padding pays", "pad") == (True, True)
    assert rank("padding does not pay", "leave") == (False, True)
    with running_daemon(tmp_path / "daemon") as daemon:
        assert rank("first", "pad", daemon.address) == (True, True)
        assert rank("later", "leave", daemon.address) == (True, False)
        assert nonzero(daemon, "inductord_kernel_tunings_total") == {"measured": 1, "found": 1}
    # What the daemon said is in PyTorch's own cache.
    assert rank("later", "leave", daemon.address) == (True, False)
    assert rank("without a daemon", "leave", daemon.address) == (False, True)
