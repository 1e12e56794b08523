"""Generated code moved to another device: what is found, what is left alone, what is refused."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductord.compiler.relocate import NotRelocatable, Span, Table, apply, find

pytestmark = pytest.mark.unit

KERNEL = """
import triton
@triton_heuristics.pointwise(
    triton_meta={'signature': {'x': '*fp32'}, 'device': DeviceProperties(type='cuda', index=%d, cc=90), 'constants': {0: 0}},
    inductor_meta={'kernel_name': 'triton_0', 'note': 'é'},
)
@triton.jit
def triton_0(x, XBLOCK: tl.constexpr):
    stream0 = 0  # not a stream of a device
"""
WRAPPER = """
# a comment that names cuda:0 and stream0
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
triton_0 = async_compile.triton('triton_0', '''{kernel}''', device_str='cuda')

def call(args):
    with torch.cuda._DeviceGuard({index}):
        torch.cuda.set_device({index})
        buf0 = empty_strided_cuda((0, 0), (1, 1), torch.float32)
        stream{index} = get_raw_stream({index})
        triton_0.run(buf0, 0, stream=stream{index})
        other = torch.empty(3, device=torch.device(type='cuda', index={index}))
        host = torch.empty(0, device=torch.device(type='cpu', index=0))
        again = rand_strided((2, 0), (1, 0), device='cuda:{index}', dtype=torch.float32)
    return (buf0,)
"""


def wrapper(index: int) -> str:
    return WRAPPER.format(kernel=KERNEL % index, index=index)


@given(st.integers(0, 20), st.integers(0, 20))
def test_what_is_moved_is_what_would_have_been_generated_there(before: int, after: int) -> None:
    source = wrapper(before)
    table = find(source, "cuda", before)
    moved, kernels = apply(source, table, before, after)
    assert ast.dump(ast.parse(moved)) == ast.dump(ast.parse(wrapper(after)))
    assert kernels == {KERNEL % before: KERNEL % after}
    assert find(moved, "cuda", after) == find(wrapper(after), "cuda", after)


def test_another_device_and_other_numbers_are_left_alone() -> None:
    source = (
        "with torch.cuda._DeviceGuard(1):\n    x = f('cuda:1', 0, index=0)\n    y = torch.device(type='cpu', index=0)\n"
    )
    assert find(source, "cuda", 0) == Table((), ())
    assert find(source, "xpu", 1) != find(source, "cuda", 1)


def test_what_is_no_python_has_no_records() -> None:
    with pytest.raises(NotRelocatable, match="no Python"):
        find("int main() { return 0; }", "cuda", 0)


@pytest.mark.parametrize(
    "records", [(Span(0, 1),), (Span(29, 30), Span(29, 30)), (Span(500, 501),)], ids=["wrong", "twice", "outside"]
)
def test_records_that_do_not_fit_are_refused(records: tuple[Span, ...]) -> None:
    source = "with torch.cuda._DeviceGuard(0): pass"
    assert source[29] == "0"
    with pytest.raises(NotRelocatable):
        apply(source, Table(records, ()), 0, 3)
