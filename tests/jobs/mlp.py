"""One rank trains a small network for a few steps. As a user would write it; it knows nothing of inductord unless
``--backend`` says so. Prints losses and a digest of all gradients, exact."""

import argparse
import hashlib
import json

import torch
from torch import nn


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 8, 8])
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--mode")
    parser.add_argument("--options", type=json.loads)
    parser.add_argument("--dynamic", action="store_true", default=None)
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.manual_seed(0)
    width = args.width
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, 1))
    compiled = torch.compile(
        model, backend=args.backend, mode=args.mode, options=args.options, dynamic=args.dynamic, fullgraph=True
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for batch in args.batches:
        loss = compiled(torch.randn(batch, width)).square().mean()
        loss.backward()
        losses.append(loss.item().hex())
        optimizer.step()
        gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        optimizer.zero_grad()
    digest = hashlib.sha256(b"".join(gradient.numpy().tobytes() for gradient in gradients)).hexdigest()
    with torch.no_grad():
        inferred = compiled(torch.ones(args.batches[-1], width)).sum().item().hex()
    print(json.dumps({"losses": losses, "gradients": digest, "inferred": inferred}))


if __name__ == "__main__":
    main()
