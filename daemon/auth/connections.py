"""Connections whose TLS handshake ended well. gRPC tells of handshakes that begin and of calls, and of nothing between: a
connection is known to be sound when a first call comes over it.
"""

import collections
from collections.abc import Callable, Iterable, Mapping

_TRANSPORT = "transport_security_type"


class Connections:
    """Counts each connection over TLS once, when its first call comes, whatever becomes of that call.

    It knows connections by their far end and keeps those that called last, ``remembered`` at most. A far end's port that is
    used again while it is remembered is taken for the same connection.
    """

    def __init__(self, sound: Callable[[], None], remembered: int = 16_384) -> None:
        self._sound = sound
        self._remembered = remembered
        self._peers: collections.OrderedDict[str, None] = collections.OrderedDict()

    def called(self, peer: str, tls: Mapping[str, Iterable[bytes]]) -> None:
        """A call came from ``peer``; ``tls`` is gRPC's account of its connection."""
        if list(tls.get(_TRANSPORT, ())) != [b"ssl"]:
            return
        if peer not in self._peers:
            self._sound()
            if len(self._peers) >= self._remembered:
                self._peers.popitem(last=False)
        self._peers[peer] = None
        self._peers.move_to_end(peer)
