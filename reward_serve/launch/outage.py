"""Notices that Ray or Serve's HTTP has gone: without its raylet a service accepts and hangs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_CONNECT_TIMEOUT_S = 1.0
_RAY_PATIENCE_S = 3.0
_REMOTE_PATIENCE_S = 20.0  # a network may fail for a while
_HTTP_PATIENCE_S = 60.0  # Serve has a killed proxy back after up to 40 s, under load


@dataclass
class Endpoint:
    """A TCP port that must accept connections.

    Attributes:
        what: whose port it is.
        address: host and port.
        patience_s: how long it may refuse, in seconds.
    """

    what: str
    address: tuple[str, int]
    patience_s: float
    _refuses_since: float | None = field(default=None, init=False)

    def refuses(self) -> bool:
        """Whether it does not accept a connection now."""
        try:
            socket.create_connection(self.address, _CONNECT_TIMEOUT_S).close()
        except OSError:
            return True
        return False

    def is_gone(self) -> bool:
        """Whether it has refused for longer than its patience; call this regularly."""
        now = time.monotonic()
        if not self.refuses():
            self._refuses_since = None
            return False
        if self._refuses_since is None:
            self._refuses_since = now
        return now - self._refuses_since >= self.patience_s


def ray_endpoints() -> list[Endpoint]:
    """This machine's raylet and the cluster's GCS, of the cluster that Ray is connected to."""
    import ray

    context = ray.get_runtime_context()
    (node,) = (each for each in ray.nodes() if each["NodeID"] == context.get_node_id())
    host, _, port = context.gcs_address.rpartition(":")
    here = node["NodeManagerAddress"]
    patience_s = _RAY_PATIENCE_S if host == here else _REMOTE_PATIENCE_S
    return [
        Endpoint("Ray's raylet", (here, node["NodeManagerPort"]), _RAY_PATIENCE_S),
        Endpoint("Ray's GCS", (host, int(port)), patience_s),
    ]


def http_endpoints(urls: Iterable[str]) -> list[Endpoint]:
    """Serve's HTTP proxies behind these URLs."""
    addresses = {(str(parts.hostname), int(parts.port or 80)) for parts in map(urlsplit, urls)}
    return [Endpoint("Serve's HTTP proxy", each, _HTTP_PATIENCE_S) for each in sorted(addresses)]


def outage(endpoints: Iterable[Endpoint]) -> str | None:
    """The first endpoint that is gone, as a reason; None if all are there."""
    gone = next((each for each in endpoints if each.is_gone()), None)
    if gone is None:
        return None
    host, port = gone.address
    return f"{gone.what} has died: nothing listens on {host}:{port}; start the service again"
