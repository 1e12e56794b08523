import subprocess
import sys
from pathlib import Path

import pytest

from inductord.worker.scratch import Scratch

pytestmark = pytest.mark.unit


def test_each_worker_has_its_own_folder_and_all_goes_with_the_pool(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "made" / "here")
    folders = {scratch.for_worker() for _ in range(3)}
    assert len(folders) == 3
    assert all((folder / "tmp").is_dir() for folder in folders)
    assert scratch.path.stat().st_mode & 0o077 == 0
    scratch.close()
    assert list((tmp_path / "made" / "here").iterdir()) == []


def test_a_second_pool_leaves_the_first_ones_folder_alone(tmp_path: Path) -> None:
    first = Scratch(tmp_path)
    folder = first.for_worker()
    second = Scratch(tmp_path)
    assert folder.is_dir()
    second.close()
    assert folder.is_dir()
    first.close()


def test_what_a_dead_daemon_left_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys; from inductord.worker.scratch import Scratch; "
        "(Scratch(pathlib.Path(sys.argv[1])).for_worker() / 'left').write_text('x'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert len(list(tmp_path.glob("pool-*/worker-*/left"))) == 1
    stranger = tmp_path / "somebody-elses"
    stranger.mkdir()

    scratch = Scratch(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([scratch.path, stranger])
    scratch.close()
