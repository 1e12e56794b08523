"""One rank trains decoders that differ in depth alone, as stages of a pipeline do, three steps each.

    python regions.py [--backend inductord] [--regions off|auto|force] [--dynamic DEPTH] DEPTH ...

The decoder of ``--dynamic`` comes last; its batches differ in size. Prints, by depth, losses and a digest of the last
gradients, exact; and how often AOTAutograd ran.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from _deep import Decoder

torch.set_num_threads(1)
VOCABULARY, WIDTH, LENGTH = 32, 32, 16


def train(depth: int, batches: Sequence[int] = (2, 2, 2), **how: Any) -> dict[str, Any]:
    """Exact losses and digest of gradients, with batches of the sizes given."""
    torch.manual_seed(depth)
    model = Decoder(VOCABULARY, depth, WIDTH, 2, LENGTH)
    compiled = torch.compile(model, **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        tokens = torch.randint(0, VOCABULARY, (batch, LENGTH + 1))
        loss = compiled(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    digest = hashlib.sha256(b"".join(gradient.numpy().tobytes() for gradient in gradients)).hexdigest()
    return {"losses": losses, "gradients": digest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--regions")
    parser.add_argument("--dynamic", type=int)
    parser.add_argument("depths", type=int, nargs="+")
    args = parser.parse_args()
    how = {"options": {"inductord_regions": args.regions}} if args.regions else {}
    models = [train(depth, backend=args.backend, **how) for depth in args.depths]
    if args.dynamic:
        models.append(train(args.dynamic, (3, 5, 2), backend=args.backend, dynamic=True, **how))
    print(json.dumps({"models": models, "traced": counters["aot_autograd"]["total"]}))


if __name__ == "__main__":
    main()
