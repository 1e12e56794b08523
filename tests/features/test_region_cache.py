"""What is kept of a region with symbolic sizes: its name, and what was assumed of the sizes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from inductord.compiler.adapter import region_cache
from inductord.compiler.adapter.region_cache import Name

pytestmark = [pytest.mark.features, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def compiled(tracing: Callable[[Name], object], function: Callable[..., Any] = torch.sin) -> tuple[Any, list[Name]]:
    """A function whose graph is named, then traced. Its graphs, as they come, with the names as they were told."""
    torch._dynamo.reset()
    names: list[Name] = []

    def backend(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        names.append(region_cache.name(gm, frozenset(), {}))
        tracing(names[-1])
        return gm.forward

    return torch.compile(lambda x: function(x), backend=backend, dynamic=True), names


def test_what_was_assumed_of_a_size_becomes_a_guard_of_a_later_process() -> None:
    kept: list[str | None] = []

    def first(name: Name) -> None:
        assert name.sizes[0] % 8 == 0
        kept.append(region_cache.guards(name))

    call, _ = compiled(first)
    call(torch.ones(16, 3))
    fits: list[bool] = []
    again, _ = compiled(lambda name: fits.append(region_cache.take_over(kept[0], name)))
    again(torch.ones(16, 3))
    again(torch.ones(24, 3))
    assert fits == [True]
    again(torch.ones(12, 3))
    assert fits == [True, False]


def test_a_size_that_was_settled_is_not_kept() -> None:
    def settle(name: Name) -> None:
        assert name.sizes[0] == 16
        with pytest.raises(region_cache.NotKept, match="settled"):
            region_cache.guards(name)

    call, names = compiled(settle)
    call(torch.ones(16, 3))
    assert names


def test_a_size_that_depends_on_data_is_not_kept() -> None:
    def refused(name: Name) -> None:
        raise AssertionError(name)

    call, _ = compiled(refused, torch.nonzero)
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="none of its inputs"),
    ):
        call(torch.ones(16, 3))
