"""The replicas that this process knows of each deployment, from its router to its calls."""

from collections.abc import Iterable

_known: dict[tuple[str, str], tuple[str, ...]] = {}


def note_replicas(app: str, deployment: str, replicas: Iterable[str]) -> None:
    """Keep the ids of the replicas that there are now."""
    _known[app, deployment] = tuple(sorted(replicas))


def known_replicas(app: str, deployment: str) -> tuple[str, ...]:
    """The ids of the replicas, sorted; none where Serve alone places calls."""
    return _known.get((app, deployment), ())
