"""Small models whose graphs cover what names a device in generated code; each is captured once."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from support.gpu_graphs import capture
from torch import nn
from torch.nn import functional

from inductord.compiler.adapter.seam import GraphCall

Case = tuple[Callable[..., torch.Tensor], Sequence[Any]]


def _masked() -> Case:
    weights = torch.randn(64, 128, requires_grad=True), torch.randn(128, 64, requires_grad=True)

    def run(x: torch.Tensor, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        hidden = torch.softmax(functional.gelu(x @ one), -1)
        mask = torch.arange(64, device=x.device) > 3
        return ((hidden @ two) * mask).float().sum()

    return run, (torch.randn(32, 64), *weights)


def _elementwise() -> Case:
    return (lambda x: (x.sin() * 2).sum()), (torch.randn(64, 64, requires_grad=True),)


def _llama() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    return _language_model(LlamaForCausalLM(config))


def _gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=128, n_positions=64, n_embd=64, n_layer=2, n_head=4, attn_implementation="eager",
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return _language_model(GPT2LMHeadModel(config))


def _language_model(model: nn.Module) -> Case:
    tokens = torch.randint(128, (2, 16))

    def run(ids: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=ids, use_cache=False).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return run, (tokens,)


def _convolution() -> Case:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, stride=2), nn.Flatten(),
        nn.LazyLinear(10),
    )  # fmt: skip
    images = torch.randn(2, 3, 20, 20)
    net(images)
    return (lambda x: net(x).square().mean()), (images,)


def _dropout() -> Case:
    body = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.3), nn.LayerNorm(64))
    return (lambda x: body(x).sum()), (torch.randn(8, 32),)


MODELS: dict[str, Callable[[], Case]] = {
    "masked": _masked,
    "elementwise": _elementwise,
    "llama": _llama,
    "gpt2": _gpt2,
    "convolution": _convolution,
    "dropout": _dropout,
}


def _flex_attention() -> Case:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 128, 128, "cpu")

    def attend(*given: torch.Tensor) -> Any:
        return flex_attention(*given, score_mod=lambda score, b, h, q, k: score + (q - k), block_mask=mask)

    return attend, [torch.randn(1, 2, 128, 16) for _ in range(3)]


def _overlapping() -> Case:
    """Its input's base is written through views of it."""
    base = torch.randn(10)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    return change, (base[:6], base[3:9])


FUNCTIONS: dict[str, Callable[[], Case]] = {
    "FlexAttention": _flex_attention,
    "overlapping inputs": _overlapping,
}
"""Without a backward."""


@functools.cache
def graphs(name: str) -> list[GraphCall]:
    """Forward and backward of a model, or the graph of a function, as they are on the CPU."""
    torch.manual_seed(0)
    run, arguments = (MODELS | FUNCTIONS)[name]()
    return capture(run, *arguments, backward=name in MODELS, runs=name != "FlexAttention")
