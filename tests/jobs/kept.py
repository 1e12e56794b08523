"""A script that keeps an operator from being lowered before its first compile, and asks for inductord by name."""

import torch
from torch._inductor import lowering


def main() -> None:
    lowering.make_fallback(torch.ops.aten.sin, warn=False)
    compiled = torch.compile(lambda x: x.sin() * 2 + x, backend="inductord")
    torch.manual_seed(0)
    print(compiled(torch.randn(64)).sum().item())


if __name__ == "__main__":
    main()
