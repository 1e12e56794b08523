"""One rank trains the smallest network that has a forward and a backward graph. As a user would write it; it knows nothing
of inductord unless ``--backend`` says so. Prints its losses, exact, after the last step."""

import argparse
import json

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--options", type=json.loads)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    compiled = torch.compile(model, backend=args.backend, options=args.options, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = compiled(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    print(json.dumps({"losses": losses}))


if __name__ == "__main__":
    main()
