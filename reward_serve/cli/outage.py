"""Detects that Ray or Serve's HTTP proxy is gone.

Without its raylet, a service still accepts connections but never answers.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_CONNECT_TIMEOUT_S = 1.0
_RAY_PATIENCE_S = 3.0
_REMOTE_PATIENCE_S = 20.0  # allows for network failures
_HTTP_PATIENCE_S = 60.0  # under load, Serve takes up to 40 s to restart a killed proxy


@dataclass
class Endpoint:
    """A TCP port that must accept connections.

    Attributes:
        what: the port's owner, such as ``Ray's raylet``.
        address: host and port.
        patience_s: how long it may refuse connections, in seconds.
    """

    what: str
    address: tuple[str, int]
    patience_s: float
    _refuses_since: float | None = field(default=None, init=False)

    def refuses(self) -> bool:
        """Whether the endpoint refuses connections now."""
        try:
            socket.create_connection(self.address, _CONNECT_TIMEOUT_S).close()
        except OSError:
            return True
        return False

    def is_gone(self) -> bool:
        """Whether the endpoint has refused connections for ``patience_s``; call this regularly."""
        now = time.monotonic()
        if not self.refuses():
            self._refuses_since = None
            return False
        if self._refuses_since is None:
            self._refuses_since = now
        return now - self._refuses_since >= self.patience_s


def ray_endpoints() -> list[Endpoint]:
    """This machine's raylet and the GCS of the connected cluster."""
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
    """A message about the first endpoint that is gone; None if all are up."""
    gone = next((each for each in endpoints if each.is_gone()), None)
    if gone is None:
        return None
    host, port = gone.address
    return f"{gone.what} has died: nothing listens on {host}:{port}; start the service again"
