"""Which graphs may not travel, and why. Prints the reason by case; null for those that may."""

import contextlib
import copy
import dataclasses
import json
import os
import threading
from collections.abc import Callable, Generator
from unittest import mock

import torch
from keys import Change, capture, network
from torch._higher_order_ops.strict_mode import strict_mode_op
from torch._inductor import config, lowering, pattern_matcher, select_algorithm
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen import common
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.utils import add_scheduler_init_hook
from torch._inductor.virtualized import V
from torch._logging import _internal as _logging

from inductord.compiler.adapter import bypass, fingerprint, opaque, placement, replaced_parts, tracing, wire
from inductord.compiler.adapter.seam import GraphCall

seen: dict[str, str | None] = {}


IN_NO_KEY = next(filter(config._config.__contains__, bypass._IN_NO_KEY))


class OwnChoices(InductorChoices):
    """A user's heuristics."""


class OwnPass(CustomGraphModulePass):
    """A pass of a user's code generator."""

    def __call__(self, gm: torch.fx.GraphModule) -> None: ...

    def uuid(self) -> str:
        return "a version"


class OwnScheduling(CppScheduling):
    """A user's code generator."""


@torch.library.custom_op("bypass::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator of the user."""
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@contextlib.contextmanager
def own_lowering(register: Callable[[], object]) -> Generator[None]:
    """Inside, what ``register`` puts into Inductor's table of lowerings is there."""
    with mock.patch.dict(lowering.lowerings):
        register()
        yield


@contextlib.contextmanager
def own_pattern(table: pattern_matcher.PatternMatcherPass) -> Generator[None]:
    """Inside, a pattern of the user is in one of Inductor's tables; beside it are all of Inductor's own."""
    joint_graph.lazy_init()
    post_grad.lazy_init()
    with mock.patch.dict(table.patterns):
        example = [torch.empty(3)]
        pattern_matcher.register_replacement(
            lambda x: x.sin().cos(), lambda x: x.sinh(), example, pattern_matcher.fwd_only, table
        )
        seen.setdefault("patterns", json.dumps(replaced_parts.found()))
        yield


@contextlib.contextmanager
def own_backend() -> Generator[None]:
    common.init_backend_registration()
    before = common.device_codegens["cpu"]
    common.register_backend_for_device("cpu", OwnScheduling, PythonWrapperCodegen)
    try:
        yield
    finally:
        common.device_codegens["cpu"] = before


@contextlib.contextmanager
def on_choices(register: Callable[[Callable[..., None]], None]) -> Generator[None]:
    """Inside, a function of the user is given the kernels that Inductor may choose from, or told how fast they were."""
    register(lambda *_: None)
    try:
        yield
    finally:
        select_algorithm.clear_preprocessing_fns()
        select_algorithm.clear_feedback_savers()


def reason(call: GraphCall) -> str | None:
    try:
        bypass.check(call)
        fingerprint.parts(call, placement.of(call))
    except bypass.Bypass as why:
        return why.reason.value
    except placement.Unsupported:
        return "device_unsupported"
    return None


def under(name: str, change: Callable[[], Change] = contextlib.nullcontext) -> Callable[[GraphCall], None]:
    def look(call: GraphCall) -> None:
        with change():
            seen[name] = reason(call)

    return look


def on_another_device(call: GraphCall) -> None:
    seen["another device"] = reason(dataclasses.replace(call, example_inputs=[torch.empty(2, device="meta")]))


def with_a_lock(call: GraphCall) -> None:
    try:
        wire.dumps(dataclasses.replace(call, options={**call.options, "lock": threading.Lock()}))
    except wire.NotSerializable as why:
        seen["a lock"] = str(why)


def with_an_operator_of_its_own_kind(call: GraphCall) -> None:
    graph = copy.deepcopy(call.gm)
    with graph.graph.inserting_before(graph.graph.output_node()):
        graph.graph.call_function(strict_mode_op, (None, ()))
    seen["marked by nobody"] = reason(dataclasses.replace(call, gm=graph))


def holding_an_object(call: GraphCall) -> None:
    graph = copy.deepcopy(call.gm)
    graph.mesh = opaque.empty("a.Mesh")
    seen["holds an object"] = reason(dataclasses.replace(call, gm=graph))


def guards(call: GraphCall) -> None:
    """What a worker states about symbolic sizes holds for the rank's own sizes, and what does not hold is found out."""
    expression = tracing.guards_expression(call.example_inputs)
    own = tracing.take_over_guards(expression, call.example_inputs)
    wrong = tracing.take_over_guards("1 > 2", call.example_inputs)
    seen["guards"] = json.dumps([bool(expression), own, wrong])


def branching(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return out + y.sum()


def of_an_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = twice(x) @ y
    return out


@contextlib.contextmanager
def logging_of(logs: str) -> Generator[None]:
    """As if ``TORCH_LOGS`` asked for these."""
    with mock.patch.dict(os.environ, {"TORCH_LOGS": logs}):
        _logging._init_logs()
    try:
        yield
    finally:
        _logging._init_logs()


def main() -> None:
    inputs = torch.randn(8, 16), torch.randn(16, 4)
    cases: dict[str, Callable[[], Change]] = {
        "plain": contextlib.nullcontext,
        "debug trace": lambda: config.patch({"trace.enabled": True}),
        "log of the compile": lambda: logging_of("+dynamo,schedule"),
        "metrics of the compile": lambda: logging_of("inductor_metrics"),
        "log of the rank": lambda: logging_of("graph_code"),
        "without caches": lambda: config.patch(force_disable_caches=True),
        "ahead of time": lambda: V.set_aot_compilation(True),
        "own choices": lambda: V.set_choices_handler(OwnChoices()),
        "own code generator": own_backend,
        "own pass of a code generator": lambda: mock.patch.dict(common.custom_backend_passes, cpu=OwnPass()),
        "own pattern": lambda: own_pattern(post_grad.pass_patterns[1]),
        "own pattern of the joint graph": lambda: own_pattern(joint_graph.pass_patterns[1]),
        "Inductor's own patterns": contextlib.nullcontext,
        "own lowering": lambda: own_lowering(lambda: lowering.register_lowering(torch.ops.aten.sin)(lowering.square)),
        "kept from lowering": lambda: own_lowering(lambda: lowering.make_fallback(torch.ops.aten.sin, warn=False)),
        "of no use here": lambda: own_lowering(
            lambda: lowering.register_lowering(torch.ops.bypass.twice)(lowering.square)
        ),
        "own method of the scheduler": lambda: add_scheduler_init_hook(lambda scheduler, nodes: None),
        "hears of compiled graphs": lambda: mock.patch.object(CompiledFxGraph, "__init__"),
        "sifts choices": lambda: on_choices(select_algorithm.add_preprocessing_fn),
        "hears of choices": lambda: on_choices(select_algorithm.add_feedback_saver),
        "setting in no key": lambda: config.patch({IN_NO_KEY: True}),
        "Inductor's own functions on choices": contextlib.nullcontext,
        "code looked at": lambda: mock.patch.object(GraphLowering, "save_output_code"),
        "own function": lambda: config.patch(_post_fusion_custom_pass=branching),
        "own functions": lambda: config.patch(external_matmul=[branching]),
        "own pass": lambda: config.patch(post_grad_custom_post_pass=lambda graph: None),
    }
    for name, change in cases.items():
        capture(under(name, change), network, *inputs)
    operators = {
        "an operator of the user": contextlib.nullcontext,
        "not lowered": lambda: own_lowering(lambda: lowering.make_fallback(torch.ops.bypass.twice, warn=False)),
        "lowered by the user": lambda: own_lowering(
            lambda: lowering.register_lowering(torch.ops.bypass.twice)(lambda x: lowering.mul(x, 2))
        ),
        "lowered as another": lambda: own_lowering(
            lambda: lowering.register_lowering(torch.ops.bypass.twice)(lowering.square)
        ),
    }
    for name, change in operators.items():
        capture(under(name, change), of_an_operator, *inputs)
    capture(under("branch"), branching, *inputs)
    capture(with_an_operator_of_its_own_kind, branching, *inputs)
    capture(holding_an_object, network, *inputs)
    capture(on_another_device, network, *inputs)
    capture(with_a_lock, network, *inputs)
    capture(guards, network, *inputs, dynamic=True)
    print(json.dumps(seen))


main()
