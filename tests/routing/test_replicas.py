from __future__ import annotations

from reward_serve.routing.replicas import known_replicas, note_replicas


def test_the_replicas_noted_last_are_known_in_order() -> None:
    assert known_replicas("an app", "a judge") == ()
    note_replicas("an app", "a judge", ["b", "c", "a"])
    assert known_replicas("an app", "a judge") == ("a", "b", "c")
    assert known_replicas("an app", "a rule") == known_replicas("app", "a judge") == ()
    note_replicas("an app", "a judge", [])
    assert known_replicas("an app", "a judge") == ()
