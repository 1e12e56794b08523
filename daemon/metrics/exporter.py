"""The HTTP endpoint that Prometheus scrapes. Runs in threads of its own and only reads."""

import asyncio
import threading
from wsgiref.simple_server import WSGIServer

import prometheus_client
from prometheus_client import CollectorRegistry


class Exporter:
    """Serves ``registry`` on ``host:port``; port 0 takes a free one.

    Raises:
        OSError: when the address cannot be had.
    """

    def __init__(self, registry: CollectorRegistry, address: str) -> None:
        # Creation times double the number of series and nobody queries them.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        host, _, port = address.rpartition(":")
        server, thread = prometheus_client.start_http_server(int(port), host.strip("[]"), registry)
        self._server: WSGIServer = server
        self._thread: threading.Thread = thread
        self.address = f"{host}:{server.server_port}"

    async def close(self) -> None:
        """Stop serving; a scrape under way is answered first."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
