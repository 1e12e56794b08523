"""What scripts of features have in common: cases by name, what they run their functions with, and what came out.

It knows nothing of inductord.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

torch.set_num_threads(1)

Case = Callable[[], Iterable[Any]]
CASES: dict[str, Case] = {}
"""Feature to a function that uses it and returns the tensors that it made."""


def case(name: str) -> Callable[[Case], Case]:
    """Enter a function under a name."""

    def enter(function: Case) -> Case:
        CASES[name] = function
        return function

    return enter


def digest(values: Iterable[Any]) -> str:
    """SHA-256 over type, shape and exact bits."""
    sha = hashlib.sha256()
    for value in values:
        if not isinstance(value, Tensor):
            sha.update(repr(value).encode())
            continue
        value = value.detach().cpu()
        if value.is_nested:
            value = value.values()
        sha.update(f"{value.dtype} {tuple(value.shape)} {value.stride()}".encode())
        sha.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def through(function: Callable[..., Any], *inputs: Any, **how: Any) -> list[Any]:
    """Compile, run, go backward; outputs and gradients of the inputs and of a module's parameters."""
    output = torch.compile(function, **how)(*inputs)
    outputs = list(output) if isinstance(output, (tuple, list)) else [output]
    wanted = [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]
    if isinstance(function, nn.Module):
        wanted += list(function.parameters())
    if wanted:
        differentiable = [value for value in outputs if isinstance(value, Tensor) and value.requires_grad]
        total: Any = sum((value.values() if value.is_nested else value).abs().sum() for value in differentiable)
        if differentiable:
            total.backward()
    return [*outputs, *(value.grad for value in wanted if value.grad is not None)]


def mlp(*middle: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), *middle, nn.Linear(16, 4))


def scaled_step(rows: int, dtype: torch.dtype) -> list[Any]:
    """One training step under autocast to ``dtype`` with a GradScaler: the loss, then the parameters."""
    model, device = mlp(nn.ReLU()), torch.get_default_device().type
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=64.0)

    def step(x: Tensor) -> Tensor:
        with torch.autocast(device, dtype):
            out: Tensor = model(x)
        return out.float().square().mean()

    loss = torch.compile(step)(torch.randn(rows, 8))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return [loss, *model.parameters()]


@dataclasses.dataclass(eq=False)
class Listener(logging.Handler):
    """Notes what the package says on its logger, which in a job without it is nothing: of graphs that the rank compiled, and
    the tracebacks of workers that failed."""

    said: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        message = record.getMessage()
        if "is compiled by this rank" in message:
            self.said.append(message)
        elif "the worker's traceback" in message:
            self.failed.append(message)


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """What is said inside."""
    logger, listener = logging.getLogger("inductord"), Listener()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(listener)
    try:
        yield listener
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)


def run(function: Case) -> dict[str, Any]:
    """Run a case, seeded with 0: its digest or error, what was heard, and the kernels that this process compiled."""
    torch.compiler.reset()
    torch.manual_seed(0)
    with listening() as heard, counting_kernels() as kernels:
        try:
            found = {"digest": digest(function())}
        except Exception:  # noqa: BLE001 - one feature's error is that feature's result
            found = {"error": traceback.format_exc()}
    return {**found, "said": heard.said, "failed": heard.failed, "kernels": kernels}


@contextlib.contextmanager
def counting_kernels() -> Iterator[list[str]]:
    """The names of kernels that Triton compiles inside, not those that it finds in its cache."""
    compiled: list[str] = []
    if importlib.util.find_spec("triton") is None:
        yield compiled
        return
    import triton

    def listen(*, src: Any, cache_hit: bool, **_: Any) -> None:
        if not cache_hit:
            compiled.append(src.name)

    triton.knobs.compilation.listener = listen
    try:
        yield compiled
    finally:
        triton.knobs.compilation.listener = None


def main(summary: str) -> None:
    """Run the cases that the command line names, or all, on a device: prints results by name. ``summary``: of the script."""
    parser = argparse.ArgumentParser(description=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type != "cpu":  # a mode over all functions, which a job on the CPU does not have
        torch.set_default_device(device)
    results = {}
    for name in args.names or CASES:
        print(f"--- {name}", file=sys.stderr, flush=True)
        results[name] = run(CASES[name])
    print(json.dumps(results))
