"""One rank trains a small network for a few steps, once for each variant. As a user would write it; it knows nothing of
inductord unless ``--backend`` says so.

Prints, by variant, losses and a digest of the last gradients, exact, and the output of an inference at the end.
"""

import argparse
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def train(width: int, backend: str, variant: Mapping[str, Any]) -> dict[str, Any]:
    """``variant``: sizes of the batches, and arguments of ``torch.compile``."""
    how = dict(variant)
    batches = how.pop("batches", [8, 8, 8])
    torch.compiler.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, 1))
    compiled = torch.compile(model, backend=backend, fullgraph=True, **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = compiled(torch.randn(batch, width)).square().mean()
        loss.backward()
        losses.append(loss.item().hex())
        optimizer.step()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    digest = hashlib.sha256(b"".join(gradient.numpy().tobytes() for gradient in gradients)).hexdigest()
    with torch.no_grad():
        inferred = compiled(torch.ones(batches[-1], width)).sum().item().hex()
    return {"losses": losses, "gradients": digest, "inferred": inferred}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--variants", type=json.loads, default=[{}], help="a JSON list of objects")
    args = parser.parse_args()
    print(json.dumps([train(args.width, args.backend, variant) for variant in args.variants]))


if __name__ == "__main__":
    main()
