"""The replica ids of each deployment, as this process's routers report them."""

from collections.abc import Iterable

_known: dict[tuple[str, str], tuple[str, ...]] = {}


def note_replicas(app: str, deployment: str, replicas: Iterable[str]) -> None:
    """Set the ids of a deployment's replicas."""
    _known[app, deployment] = tuple(sorted(replicas))


def known_replicas(app: str, deployment: str) -> tuple[str, ...]:
    """The replica ids of a deployment, sorted; empty if Serve places its calls."""
    return _known.get((app, deployment), ())
