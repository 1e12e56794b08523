"""Keys of real graphs, without compiling them: prints them by what was changed.

Each graph is captured where Inductor would compile it. What is changed then is either the graph (another dtype, another
shape), or the process (another setting), or what must not matter.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor import config, custom_graph_pass

from inductord.compiler import graph_key
from inductord.compiler.adapter import compiling, seam, tracing, wire
from inductord.compiler.adapter.seam import GraphCall

Change = contextlib.AbstractContextManager[Any]


class Captured(Exception):
    """Ends a compile whose graph was looked at."""


looking: Callable[[GraphCall], None]


def router(call: GraphCall, in_process: Callable[[], Any]) -> Any:
    looking(call)
    raise Captured


def capture(look: Callable[[GraphCall], None], function: Callable[..., Any], *inputs: torch.Tensor, **how: Any) -> None:
    """Call ``look`` with the graph of ``function``, in the tracing context in which it would be compiled."""
    global looking
    looking = look
    seam.install(router)
    torch.compiler.reset()
    torch.manual_seed(0)
    try:
        with config.patch(fx_graph_cache=False):
            torch.compile(function, **how)(*inputs)
    except BackendCompilerFailed as error:
        if not isinstance(error.inner_exception, Captured):
            raise


def network(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softmax((x @ y).sin() + 1.5, -1)


keys: dict[str, str] = {}
parts: dict[str, dict[str, str]] = {}


def note(name: str) -> Callable[[GraphCall], None]:
    def look(call: GraphCall) -> None:
        key = graph_key.identify(call).key
        keys[name], parts[name] = key.digest, dict(key.parts)

    return look


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def in_folder(path: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def donated(indices: list[int] | None) -> Change:
    mode = tracing.current_fake_mode()
    assert mode is not None
    return tracing.restored(mode, indices)


def with_options(call: GraphCall, **options: Any) -> GraphCall:
    return dataclasses.replace(call, options={**call.options, **options})


def look_at_everything(call: GraphCall) -> None:
    """Keys of one graph under changes of the process and of how it is compiled."""
    note("base")(call)
    note("again")(call)
    changes: dict[str, Callable[[], Change]] = {
        "default dtype": lambda: default_dtype(torch.float64),
        "deterministic": deterministic,
        "threads": lambda: threads(3),
        "config": lambda: config.patch(epilogue_fusion=False),
        "nested config": lambda: config.patch({"cpp.simdlen": 256}),
        "donated none": lambda: donated([]),
        "donated first": lambda: donated([0]),
        "same rank": lambda: mock.patch.dict(os.environ, RANK="3", LOCAL_RANK="3", WORLD_SIZE="4", MASTER_PORT="1"),
        "same folder": lambda: in_folder("/"),
        "same cache folder": lambda: mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR="/tmp/elsewhere"),
        "same compile threads": lambda: config.patch(compile_threads=7),
    }
    for name, change in changes.items():
        with change():
            note(name)(call)
    note("same graph id")(with_options(call, graph_id=(call.options.get("graph_id") or 0) + 17))
    note("inference")(with_options(call, is_inference=not call.options.get("is_inference")))
    note("inputs to check")(dataclasses.replace(call, inputs_to_check=[*call.inputs_to_check, 99]))
    note_after_the_wire("same after the wire")(call)


class Pass(custom_graph_pass.CustomGraphPass):
    """One of the user, whose identity is what it was last edited to."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, graph: torch.fx.Graph) -> None:
        """It is never run here."""

    def uuid(self) -> str:
        return self.text


PASSES: dict[str, dict[str, Any]] = {
    "pass before": {"post_grad_custom_pre_pass": Pass("one")},
    "pass edited": {"post_grad_custom_pre_pass": Pass("two")},
    "pass after": {"post_grad_custom_post_pass": Pass("one")},
    "pass on both": {"joint_custom_post_pass": Pass("one")},
    "passes of DDP": {"_fuse_ddp_communication_passes": ["schedule_comm_wait"]},
}
if hasattr(custom_graph_pass, "get_custom_graph_passes"):  # torch 2.11 takes one pass alone
    PASSES["passes"] = {"post_grad_custom_post_pass": [Pass("one"), Pass("two")]}
    PASSES["passes in another order"] = {"post_grad_custom_post_pass": [Pass("two"), Pass("one")]}


def look_at_passes(call: GraphCall) -> None:
    """Keys under passes of the user, by the rank, and by a worker that has them from the wire alone."""
    for name, settings in PASSES.items():
        with config.patch(settings):
            note(name)(call)
            content = wire.dumps(call)
        note_content(f"{name} after the wire", content)


def note_after_the_wire(name: str) -> Callable[[GraphCall], None]:
    """The key that a worker computes of the bytes that a rank sends."""

    def look(call: GraphCall) -> None:
        note_content(name, wire.dumps(call))

    return look


def note_content(name: str, content: bytes) -> None:
    mode = tracing.fresh_fake_mode()
    travelled = wire.loads(content, mode)
    with compiling.configured(travelled.config, 1), tracing.restored(mode, travelled.donated_inputs):
        note(name)(travelled.call())


def main() -> None:
    inputs = torch.randn(8, 16), torch.randn(16, 4)
    capture(look_at_everything, network, *inputs)
    capture(note("same compiled again"), network, *inputs)
    capture(note("dtype"), network, *(each.double() for each in inputs))
    capture(note("shape"), network, torch.randn(9, 16), inputs[1])
    capture(note("stride"), network, torch.randn(16, 8).t(), inputs[1])
    capture(note("constant"), lambda x, y: torch.nn.functional.softmax((x @ y).sin() + 2.5, -1), *inputs)
    capture(note("operator"), lambda x, y: torch.nn.functional.softmax((x @ y).cos() + 1.5, -1), *inputs)
    capture(note("alias of an input"), lambda x, y: (network(x, y), x.view(-1)), *inputs)
    capture(note("dynamic"), network, *inputs, dynamic=True)
    capture(note("dynamic, other size hint"), network, torch.randn(12, 16), inputs[1], dynamic=True)
    capture(note_after_the_wire("dynamic after the wire"), network, *inputs, dynamic=True)
    of_graphs = dict(keys)
    keys.clear()
    capture(look_at_passes, network, *inputs)
    print(json.dumps({"keys": of_graphs, "of_passes": keys, "parts": parts}))


if __name__ == "__main__":
    main()
