"""How small models of ``transformers`` are cut, and that their pieces, run one after the other, give what the graph gives.

python cuts.py NAME ...

Prints, by name, a list with one entry for each graph of Dynamo: nodes, pieces, how often each shape occurs, or the reason for
none; or the traceback if results or gradients are not bitwise those of the graph.
"""

import argparse
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

import torch
import transformers
from support.pieces import check, counts, same_when_run
from torch import fx

from inductord.compiler.regions.find import plan
from inductord.compiler.regions.plan import Whole

torch.set_num_threads(1)

_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 4}
_TEXT = {"vocab_size": 64, "bos_token_id": None, "eos_token_id": None, "use_cache": False}
_DECODER = {**_SMALL, **_TEXT, "num_key_value_heads": 1}
_TRANSLATOR = {"vocab_size": 64, "d_model": 32, "d_ff": 64, "d_kv": 16, "num_layers": 4, "num_heads": 2}
_STAGES = {"hidden_sizes": [8, 16, 32, 64], "num_stages": 4}
_STARTS = {"decoder_start_token_id": 0, "pad_token_id": 0, "use_cache": False}

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", _DECODER),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_DECODER, "head_dim": 16}),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", {**_TEXT, "n_embd": 32, "n_layer": 4, "n_head": 2, "n_positions": 64}),
    "BERT": ("BertForMaskedLM", "BertConfig", {**_SMALL, "vocab_size": 64}),
    "T5": ("T5ForConditionalGeneration", "T5Config", {**_TRANSLATOR, **_STARTS}),
    "Mixtral": ("MixtralForCausalLM", "MixtralConfig", {**_DECODER, "num_local_experts": 4}),
    "ViT": ("ViTForImageClassification", "ViTConfig", {**_SMALL, "image_size": 32, "patch_size": 8}),
    "ConvNeXt": ("ConvNextForImageClassification", "ConvNextConfig", {**_STAGES, "depths": [3, 3, 9, 3]}),
    "ResNet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"hidden_sizes": [8, 16, 32, 64], "depths": [3, 4, 6, 3], "embedding_size": 8},
    ),
}
VARIANTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Llama, dynamic": ("Llama", lambda model: model),
    "Llama, checkpointing": ("Llama", lambda model: model.gradient_checkpointing_enable() or model),
    "Llama, autocast": ("Llama", lambda model: torch.autocast("cpu", torch.bfloat16)(model.forward)),
}
_IMAGES = {"ViT", "ConvNeXt", "ResNet"}


def cut(name: str) -> list[dict[str, Any]]:
    torch.compiler.reset()
    torch.manual_seed(0)
    base, changed = VARIANTS.get(name, (name, lambda model: model))
    model_class, config_class, config = MODELS[base]
    model = changed(getattr(transformers, model_class)(getattr(transformers, config_class)(**config)).train())
    graphs: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append((graph, inputs))
        return graph.forward

    ids = torch.randint(0, 64, (2, 16))
    if name.endswith("dynamic"):
        torch._dynamo.mark_dynamic(ids, 1)
    images = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.arange(2)}
    given = images if base in _IMAGES else {"input_ids": ids, "labels": ids}
    torch.compile(model, backend=backend)(**given)
    return [_row(graph, inputs) for graph, inputs in graphs]


def _row(graph: fx.GraphModule, inputs: list[Any]) -> dict[str, Any]:
    found = plan(graph)
    row: dict[str, Any] = {"nodes": sum(node.op.startswith("call_") for node in graph.graph.nodes)}
    if isinstance(found, Whole):
        return row | {"whole": found.reason, "message": found.message}
    check(graph, found)
    same_when_run(graph, found, inputs)
    distinct = {piece.shape: len(piece.nodes) for piece in found.pieces}
    return row | {
        "pieces": len(found.pieces),
        "distinct": found.distinct,
        "compiled": sum(distinct.values()),
        "counts": counts(found),
        "note": found.note,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[*MODELS, *VARIANTS])
    names = parser.parse_args().models
    logging.disable(logging.WARNING)
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = cut(name)
        except Exception:  # noqa: BLE001 - one model's error is that model's result
            found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
