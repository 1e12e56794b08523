"""Which workers of a cluster fit a graph."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductord.v1.compiler_pb2 import Toolchain
from inductord.worker.ray_routing import PARTS, label_selector, label_value, misfit

pytestmark = pytest.mark.unit


def test_the_parts_are_the_fields_of_a_toolchain() -> None:
    assert set(PARTS) == {field.name for field in Toolchain.DESCRIPTOR.fields}


@given(st.text(max_size=300))
def test_every_text_becomes_a_label_that_ray_and_kubernetes_take(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", label_value(text))


def test_label_values_can_be_written_by_hand_and_long_ones_stay_apart() -> None:
    assert label_value("2.13.0+cu128") == "2.13.0-cu128"
    assert label_value("x86_64 avx512f #0a1b2c") == "x86_64-avx512f-0a1b2c"
    assert label_value("a" * 70 + "b") != label_value("a" * 70 + "c")


def test_a_graph_selects_by_the_parts_that_nodes_are_labelled_by() -> None:
    toolchain = Toolchain(torch="2.13.0+cpu", cpu="x86_64")
    assert label_selector(toolchain, ["torch", "accelerator"]) == {"inductord.io/torch": "2.13.0-cpu"}
    assert label_selector(toolchain, []) == {}


def test_a_worker_that_compiles_otherwise_is_told_apart() -> None:
    wanted = Toolchain(torch="2.13.0", cxx="g++ 12", accelerator="H100")
    assert misfit(wanted, Toolchain(torch="2.13.0", cxx="g++ 12", cpu="x", accelerator="")) == ""
    assert misfit(wanted, Toolchain()) == ""
    assert misfit(wanted, Toolchain(accelerator="A100")) == "a worker of the cluster has accelerator 'A100', not 'H100'"
    why = misfit(wanted, Toolchain(torch="2.12.0", cxx="g++ 13"))
    assert why == "a worker of the cluster has torch '2.12.0', not '2.13.0'; cxx 'g++ 13', not 'g++ 12'"
