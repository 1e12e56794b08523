"""Small models of ``transformers`` composed of regions, against eager mode in float64: one forward and backward each.

python composed.py NAME ...

Prints, by name, what became of the graphs and how far the gradients are from eager mode, relative over all parameters. Inductor
is left out: the graphs of regions are run as they are.
"""

import argparse
import json
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers
from cuts import _IMAGES, MODELS

from inductord.compiler.regions.compile import compile_regions
from inductord.compiler.regions.find import plan
from inductord.compiler.regions.plan import Whole

torch.set_num_threads(1)

# Grouped matrix products know no float64.
IN_FLOAT32 = frozenset({"Mixtral"})


def as_it_is(gm: torch.fx.GraphModule, _: Sequence[Any], **__: Any) -> Callable[[list[Any]], Any]:
    def run(args: list[Any]) -> Any:
        own = list(args)
        args.clear()
        return gm.forward(*own)

    return run


def compose(name: str) -> dict[str, Any]:
    torch.compiler.reset()
    torch.manual_seed(0)
    dtype = torch.float32 if name in IN_FLOAT32 else torch.float64
    model_class, config_class, config = MODELS[name]
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**config)).to(dtype)
    for module in model.modules():
        # Eager mode draws other random numbers.
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for attribute in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)
    graphs: list[Any] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        found = plan(gm)
        if isinstance(found, Whole):
            graphs.append(found.reason)
            return gm.forward
        composed, _ = compile_regions(gm, example_inputs, found, as_it_is, {})
        graphs.append([len(found.pieces), found.distinct])
        return composed

    ids = torch.randint(0, 64, (2, 16))
    images = {"pixel_values": torch.randn(2, 3, 32, 32, dtype=dtype), "labels": torch.arange(2)}
    given = images if name in _IMAGES else {"input_ids": ids, "labels": ids}
    state = {key: value.clone() for key, value in model.state_dict().items()}
    eager = _gradients(model, model, given)
    buffers = {key: value.clone() for key, value in model.named_buffers()}
    model.load_state_dict(state)
    found = _gradients(model, torch.compile(model, backend=backend), given)
    apart = sum((found[key] - eager[key]).square().sum() for key in eager)
    return {
        "graphs": graphs,
        "gradient_error": float((apart / sum(each.square().sum() for each in eager.values())) ** 0.5),
        "buffers_equal": all(torch.allclose(value, buffers[key]) for key, value in model.named_buffers()),
    }


def _gradients(model: torch.nn.Module, call: Callable[..., Any], given: dict[str, Any]) -> dict[str, torch.Tensor]:
    model.train()
    model.zero_grad()
    call(**given).loss.backward()
    return {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    names = parser.parse_args().models
    logging.disable(logging.WARNING)
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = compose(name)
        except Exception:  # noqa: BLE001 - one model's error is that model's result
            found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
