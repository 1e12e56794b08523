"""A TCP proxy that can be absent, slow, or cut in the way of a network that drops every packet."""

import contextlib
import socket
import threading
import time
from typing import Self

_CHUNK = 64 * 1024


def listens(port: int) -> bool:
    """Whether somebody on this machine takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


class Proxy:
    """Passes connections on to ``port`` of this machine. It is absent, so refused, until ``start``.

    ``delay``: seconds that each chunk of at most 64 KiB takes. ``cut``: nothing gets through, and nothing is closed.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.delay = 0.0
        self._open = threading.Event()
        self._open.set()
        # Bound and not listened on: connections are refused, and nobody else gets the port.
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.set()
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def start(self) -> None:
        """Be there."""
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nothing through."""
        self._open.clear()

    def mend(self) -> None:
        """Let all through again, with what waited."""
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                theirs = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                ours.close()  # The far end is not there, or not yet; the next connection may find it.
                continue
            self._sockets += [ours, theirs]
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while chunk := source.recv(_CHUNK):
                self._open.wait()
                time.sleep(self.delay)
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of both ends is gone
