"""Caches of these tests, away from the user's."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As in a worker: no GPU is visible."""
    folder = tmp_path_factory.mktemp("codegen")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
        patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
        patch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
        patch.setenv("TRITON_HOME", str(folder))
        yield
