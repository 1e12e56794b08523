"""One rank trains a small network and infers once, as a user would. Prints its numbers, exact, and what PyTorch counted of
AOTAutograd and its caches."""

import hashlib
import json
import sys

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import decomposition, lowering

# As libraries do for operators of their own. None is in a graph here.
LIBRARY = torch.library.Library("again", "DEF")
LIBRARY.define("unused(Tensor x) -> Tensor")
decomposition.register_decomposition(torch.ops.again.unused.default)(lambda x: x)


class Net(nn.Module):
    """Its frame has a place of its own in a file, which Dynamo's profile names it by."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(29, 31), nn.GELU(), nn.Linear(31, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def main() -> None:
    if "--own-lowering" in sys.argv:
        lowering.make_fallback(torch.ops.aten.erf, warn=False)  # in CI, PyTorch would refuse it
    batches = (5, 7) if "--growing" in sys.argv else (5, 5)
    torch.manual_seed(0)
    model = Net()
    compiled = torch.compile(model, fullgraph=True)
    losses = []
    for batch in batches:
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
                "traced": counters["stats"]["unique_graphs"],
            }
        )
    )


if __name__ == "__main__":
    main()
