"""Who measures: a worker with a device, or a rank."""

import dataclasses

import pytest

from inductord.daemon.devices import WorkerDevices
from inductord.daemon.orders import Order
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import PoolStatus

pytestmark = pytest.mark.unit

ORDER = Order(
    key="a" * 64,
    toolchain=pb.Toolchain(accelerator="H100"),
    kind=pb.GRAPH_KIND_FORWARD,
    nodes=1,
    job="job",
    rank=0,
    speculative=False,
    key_parts={},
    needs_device=True,
)


class Pool:
    """A pool with devices, and time."""

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.now = 0.0
        self.measuring = WorkerDevices(lambda: PoolStatus(devices=self.devices), lambda: self.now)

    def failed(self, order: Order, kind: pb.FailureKind) -> bool:
        return self.measuring.rank_shall_compile(order, pb.CompileFailure(kind=kind))


def test_a_worker_measures_what_needs_it_when_the_pool_has_a_device() -> None:
    pool = Pool(0)
    assert not pool.measuring.measures(ORDER)
    pool.devices = 1
    assert pool.measuring.measures(ORDER)
    assert not pool.measuring.measures(dataclasses.replace(ORDER, needs_device=False))


@pytest.mark.parametrize("kind", [pb.FAILURE_KIND_POOL_UNAVAILABLE, pb.FAILURE_KIND_UNLOADABLE])
def test_a_pool_that_has_none_of_the_model_is_left_alone_for_a_while(kind: pb.FailureKind) -> None:
    pool = Pool(1)
    assert pool.failed(ORDER, kind)
    same_model = dataclasses.replace(ORDER, key="b" * 64)
    other_model = dataclasses.replace(ORDER, key="c" * 64, toolchain=pb.Toolchain(accelerator="A100"))
    assert [pool.measuring.measures(order) for order in (ORDER, same_model, other_model)] == [False, False, True]
    pool.now += 301
    assert pool.measuring.measures(ORDER)


def test_a_worker_that_dies_over_a_graph_gets_others() -> None:
    pool = Pool(1)
    assert pool.failed(ORDER, pb.FAILURE_KIND_WORKER_DIED)
    assert not pool.measuring.measures(ORDER)
    assert pool.measuring.measures(dataclasses.replace(ORDER, key="b" * 64))


def test_a_rank_is_not_asked_for_what_it_could_not_do_either_nor_twice() -> None:
    pool = Pool(1)
    assert not pool.failed(ORDER, pb.FAILURE_KIND_COMPILE_ERROR)
    assert not pool.failed(dataclasses.replace(ORDER, needs_device=False), pb.FAILURE_KIND_UNLOADABLE)
    assert pool.failed(ORDER, pb.FAILURE_KIND_UNLOADABLE)
    assert not pool.failed(ORDER, pb.FAILURE_KIND_UNLOADABLE)
