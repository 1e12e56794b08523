"""One rank trains a small network and infers once, as a user would. Prints its numbers, exact, and what PyTorch counted of
AOTAutograd and its caches."""

import hashlib
import json
import sys

import torch
from torch import nn
from torch._dynamo.utils import counters


def main() -> None:
    dynamic = "--dynamic" in sys.argv
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(29, 31), nn.GELU(), nn.Linear(31, 2))
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    losses = []
    for batch in (5, 7) if dynamic else (5, 5):
        loss = compiled(torch.randn(batch, 29)).square().mean()
        loss.backward()
        losses.append(loss.item().hex())
    digest = hashlib.sha256(b"".join(each.grad.numpy().tobytes() for each in model.parameters())).hexdigest()
    with torch.no_grad():
        inferred = compiled(torch.ones(5, 29)).sum().item().hex()
    print(
        json.dumps(
            {
                "numbers": [losses, digest, inferred],
                "aot": {name: count for name, count in counters["aot_autograd"].items() if "cache" in name},
                "fx_misses": counters["inductor"]["fxgraph_cache_miss"],
            }
        )
    )


if __name__ == "__main__":
    main()
