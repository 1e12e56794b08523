"""Contexts such as autocast and `no_grad`, which a Dynamo graph enters and leaves by calls.

Autocast may be cut open: each piece that runs in it enters it again and leaves it. Any other context stays in one piece.
"""

from typing import Any

from torch import fx

_HARMLESS = frozenset({"log_api_usage_once"})
"""Take nothing from the graph, give it nothing, and do not change how it computes."""


class Contexts:
    """Follows the calls of one graph, in order.

    ``closed``: by the place of each call that entered autocast, the place of the one that left it.
    """

    def __init__(self, graph: fx.GraphModule) -> None:
        self.closed: dict[int, int] = {}
        self.chain: tuple[int, ...] = ()
        """The places of the calls that entered the autocasts that are open now, the outermost first."""
        self._shut = 0  # how many other contexts are open
        self._grad_outside: object = None  # the gradient mode that holds outside of `no_grad` and `enable_grad`
        enters = [node for node in graph.graph.nodes if getattr(node.target, "__name__", "") == "_enter_autocast"]
        # One that is never left, or left by a call that others use as well, is not understood.
        self._paired = {node for node in enters if len(node.users) == 1}

    def bracket(self, place: int, node: fx.Node, name: str) -> bool:
        """Whether ``node`` enters or leaves an autocast that may be cut open; it is taken note of."""
        if name == "enter_autocast" and node in self._paired and not self._shut:
            self.chain = (*self.chain, place)
            return True
        if name == "exit_autocast" and self.chain and not self._shut and node.args[0] in self._paired:
            self.closed[self.chain[-1]] = place
            self.chain = self.chain[:-1]
            return True
        return False

    def covers(self, node: fx.Node, name: str, value: Any) -> bool:
        """Whether ``node``, the next call, opens a context that must stay whole, closes one, or runs in one."""
        if node.op != "call_function":
            return self._shut > 0
        before = self._shut
        if name.startswith("enter_") or name.endswith("increment_nesting"):
            self._shut += 1
        elif name.startswith("exit_") or name.endswith("decrement_nesting"):
            self._shut -= 1
        elif name == "set_grad_enabled":
            self._switch_gradients(node.args[0])
        elif value is None and not node.all_input_nodes and not node.users and name not in _HARMLESS:
            # It takes nothing from the graph and gives it nothing, so it changes the process, for all we know for good.
            self._shut += 1
        return max(before, self._shut) > 0

    def _switch_gradients(self, enabled: object) -> None:
        # Dynamo switches them back where the context ends, so the first switch says what holds outside.
        if self._grad_outside is None:
            self._grad_outside = not enabled
        self._shut += -1 if enabled == self._grad_outside else 1
