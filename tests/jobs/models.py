"""Trains small models of ``transformers`` from a random start, three steps each, as a user would.

python models.py [--dynamic] NAME ...

Prints, by model, exact digests of outputs and gradients of each step. With ``--dynamic`` each step has another batch size and
length, after shapes were asked to be symbolic.
"""

import argparse
import hashlib
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch
import transformers

torch.set_num_threads(1)

# Batch size and sequence length, or image size, of each step.
STATIC = [(2, 16, 32)] * 3
DYNAMIC = [(2, 16, 32), (3, 24, 32), (5, 9, 32)]

# With symbolic image sizes Inductor itself cannot order the strides of this one (torch 2.13, CPU), so its batch alone is.
SYMBOLIC_BATCH = frozenset({"convnext"})

# Else the first step finds it out, and the second compiles everything anew.
_CLASSES = {"problem_type": "single_label_classification"}
_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
Inputs = Callable[[int, int, int], dict[str, torch.Tensor]]


def tokens(batch: int, length: int, _: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 64, (batch, length))
    return {"input_ids": ids, "labels": ids}


def images(batch: int, _: int, size: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.arange(batch) % 2}


MODELS: dict[str, tuple[str, str, dict[str, Any], Inputs]] = {
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_SMALL, "vocab_size": 64, "num_hidden_layers": 1, "num_key_value_heads": 1, "use_cache": False},
        tokens,
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64, "use_cache": False},
        tokens,
    ),
    "bert": ("BertForMaskedLM", "BertConfig", {**_SMALL, "vocab_size": 64, "num_hidden_layers": 1}, tokens),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": 64,
            "d_model": 32,
            "d_ff": 64,
            "d_kv": 16,
            "num_layers": 1,
            "num_heads": 2,
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
            "use_cache": False,
        },
        tokens,
    ),
    "vit": (
        "ViTForImageClassification",
        "ViTConfig",
        {**_SMALL, **_CLASSES, "num_hidden_layers": 1, "image_size": 32, "patch_size": 8},
        images,
    ),
    "convnext": (
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {**_CLASSES, "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
        images,
    ),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {**_CLASSES, "hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8},
        images,
    ),
}


def digest(tensors: Iterable[torch.Tensor]) -> str:
    """SHA-256 over the exact bits of tensors, in order."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().contiguous().numpy().tobytes())
    return sha.hexdigest()


def train(name: str, dynamic: bool) -> list[dict[str, str]]:
    """Outputs and gradients of each step."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model_class, config_class, config, inputs = MODELS[name]
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**config)).train()
    compiled = torch.compile(model, dynamic=True if dynamic and name not in SYMBOLIC_BATCH else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    steps = []
    for shape in DYNAMIC if dynamic else STATIC:
        given = inputs(*shape)
        if dynamic and name in SYMBOLIC_BATCH:
            for tensor in given.values():
                torch._dynamo.mark_dynamic(tensor, 0)
        output = compiled(**given)
        output.loss.backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        steps.append(
            {
                "loss": output.loss.item().hex(),
                "logits": digest([output.logits]),
                "gradients": digest(gradients),
                "buffers": digest(model.buffers()),
            }
        )
        optimizer.step()
        optimizer.zero_grad()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], default=list(MODELS))
    args = parser.parse_args()
    trained: dict[str, Any] = {}
    for name in args.models:
        print(f"--- {name}", file=sys.stderr, flush=True)
        try:
            trained[name] = train(name, args.dynamic)
        except Exception:  # noqa: BLE001 - one model's error is that model's result
            trained[name] = traceback.format_exc()
    print(json.dumps(trained))


if __name__ == "__main__":
    main()
