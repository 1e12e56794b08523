"""The nodes of a graph and of all graphs within it, such as the branches of ``cond``."""

from collections.abc import Iterator

import torch


def all_nodes(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Graph after graph, each in its order."""
    for module in gm.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes
