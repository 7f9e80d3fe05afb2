"""Which replica each item of a batch goes to, and in which calls."""

from __future__ import annotations

import pickle
import random
import time
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.routing import dispatch
from reward_serve.routing.dispatch import Placement, Share, first_choice, group_key, note_calls

Item = dict[str, Any]


def ids(count: int) -> tuple[str, ...]:
    """Of that many replicas."""
    return tuple(f"replica-{n}" for n in range(count))


def groups(count: int, samples: int = 8) -> list[Item]:
    return [{"group": f"g{g}", "response": str(s)} for g in range(count) for s in range(samples)]


def numbered(items: list[Any]) -> dict[int, Any]:
    return dict(enumerate(items))


def home(group: str, replicas: tuple[str, ...]) -> str:
    """Its first choice."""
    return first_choice(group_key({"group": group}), replicas)


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("batch", [1, 8, 512])
def test_groups_stay_whole_and_replicas_even_in_whatever_pieces_they_come(
    replicas: int, batch: int
) -> None:
    items = groups(64)
    random.Random(0).shuffle(items)
    placement = Placement()
    homes_of: dict[str, set[str | None]] = defaultdict(set)
    loads: Counter[str | None] = Counter()
    for start in range(0, len(items), batch):
        piece = items[start : start + batch]
        for share in placement.shares(numbered(piece), ids(replicas)):
            loads[share.replica] += len(share.indices)
            for index in share.indices:
                homes_of[piece[index]["group"]].add(share.replica)

    assert sum(len(homes) - 1 for homes in homes_of.values()) <= (0 if batch == 512 else 25)
    assert max(loads.values()) <= 1.25 * len(items) / replicas


def test_a_group_goes_to_the_same_replica_in_every_process() -> None:
    homes = [home(str(n), ids(4)[::-1]) for n in range(8)]
    assert homes == [f"replica-{n}" for n in (3, 3, 0, 2, 0, 2, 0, 2)]


def test_a_replica_that_comes_takes_its_share_of_groups_and_moves_no_other() -> None:
    before = [home(str(n), ids(4)) for n in range(1000)]
    after = [home(str(n), ids(5)) for n in range(1000)]
    moved = [new for old, new in zip(before, after, strict=True) if new != old]
    assert set(moved) == {"replica-4"}
    assert 170 < min(Counter(after).values()) <= max(Counter(after).values()) < 230


def test_a_group_stays_where_it_was_placed_until_its_replica_goes_or_is_overloaded() -> None:
    placement = Placement()
    first, second, *_ = (g for g in map("g{}".format, range(99)) if home(g, ids(3)) == "replica-0")

    def place(group: str, samples: int, replicas: tuple[str, ...] = ids(3)) -> Share:
        (share,) = placement.shares(numbered([{"group": group}] * samples), replicas)
        return share

    load, moved = place(second, 8), place(first, 8)
    assert (load.replica, moved.replica) == ("replica-0", "replica-1")  # a new group finds no room
    placement.done(load, 8)
    again, beyond = place(first, 4), place(first, 4)
    assert (again.replica, beyond.replica) == (
        "replica-1",
        "replica-0",
    )  # up to 1.5 times the bound
    for share in (moved, again, beyond):
        placement.done(share, share.unanswered)
    elsewhere = ("replica-1", "replica-2")
    assert place(first, 1, elsewhere).replica == home(first, elsewhere)


@pytest.mark.parametrize(
    ("calls", "ago_s", "moves"),
    [
        pytest.param(8, 0.0, True, id="busier than its second choice"),
        pytest.param(7, 0.0, False, id="as busy but for seven"),
        pytest.param(8, 3.0, False, id="seen too long ago"),
    ],
)
def test_a_group_moves_to_its_second_choice_when_others_keep_the_first_busy(
    calls: int, ago_s: float, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_calls_seen", {})
    placement, item = Placement(), {0: {"group": "g", "response": "1"}}
    first = home("g", ids(4))
    second = home("g", tuple(replica for replica in ids(4) if replica != first))

    def place() -> str | None:
        (share,) = placement.shares(item, ids(4))
        placement.done(share, 1)
        return share.replica

    assert place() == first
    note_calls(first, calls)
    now = time.monotonic() + ago_s
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert [place(), place()] == [second if moves else first] * 2
    note_calls(second, 16)  # and back, as it is seen to be busier
    assert place() == first


def test_one_group_too_large_for_a_replica_is_spread_over_all() -> None:
    shares = Placement().shares(numbered([{"group": "all the same"}] * 90), ids(3))

    sizes = [len(share.indices) for share in shares]
    assert (sum(sizes), len(sizes)) == (90, 3)
    assert max(sizes) <= 33 + 8


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_single_requests_that_are_all_one_group_leave_no_replica_idle(replicas: int) -> None:
    placement, loads = Placement(), Counter[str | None]()
    for _ in range(32 * replicas):
        (share,) = placement.shares({0: {"response": "x", "reference": "1"}}, ids(replicas))
        loads[share.replica] += 1
    assert min(loads[replica] for replica in ids(replicas)) >= 16


def test_answered_items_free_their_places() -> None:
    placement = Placement()
    for _ in range(20):
        shares = placement.shares(numbered(groups(16)), ids(2))
        assert sorted(len(share.indices) for share in shares) == [64, 64]
        for share in shares:
            for items in (1, 63):  # a stream's
                placement.done(share, items)


def test_with_at_most_one_replica_serve_chooses() -> None:
    for known in (0, 1):
        (share,) = Placement().shares(numbered(groups(2)), ids(known))
        assert (share.replica, share.indices) == (None, list(range(16)))


def test_requests_that_wait_for_each_other_go_to_one_replica_however_loaded_it_is() -> None:
    items = numbered([{"response": "x", "group": "g", "group_size": 32}] * 64)
    others = [Placement() for _ in range(3)]
    others[0].shares(numbered([{"response": "x", "group": str(n)} for n in range(40)]), ids(4))
    replicas = {share.replica for placement in others for share in placement.shares(items, ids(4))}
    assert replicas == {home("g", ids(4))}


def test_without_a_group_reference_and_question_tell_it() -> None:
    first = {"response": "17", "reference": "18", "question": "How many?"}

    assert group_key(first) == group_key({**first, "response": "18"})
    assert group_key(first) != group_key({**first, "question": "How much?"})
    assert group_key(first) != group_key({**first, "reference": "19"})


def test_an_item_without_a_text_or_too_deep_to_send_is_placed_and_travels_alone() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    items = numbered([{"reference": 10**5_000}, {"reference": "1", "metadata": {"a": deep}}, {}])
    calls = [share.indices for share in Placement().shares(items, ids(1))]
    assert calls == [[0], [1], [2]]
    shares = Placement().shares(items, ids(2))
    assert sorted(index for share in shares for index in share.indices) == [0, 1, 2]


json_like: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)
fields = st.sampled_from(["group", "reference", "question", "response"])


@given(st.lists(st.dictionaries(fields, json_like) | json_like, max_size=20), st.integers(0, 9))
def test_every_item_is_placed_once_whatever_it_is(items: list[Any], replicas: int) -> None:
    shares = Placement().shares(numbered(items), ids(replicas))

    assert sorted(i for share in shares for i in share.indices) == list(range(len(items)))


@given(st.lists(json_like, max_size=8))
def test_a_call_takes_no_more_bytes_than_its_share_is_said_to(items: list[Any]) -> None:
    (share,) = Placement().shares(numbered(items), ())
    assert len(pickle.dumps(items, protocol=5)) <= share.size + 64


def test_long_sequences_are_balanced_by_tokens_and_their_groups_stay() -> None:
    placement, generator = Placement(), random.Random(0)
    loads: Counter[str | None] = Counter()
    homes: dict[int, set[str | None]] = defaultdict(set)
    for number in range(64):
        prompt = [number] * generator.choice([100, 800, 6000])
        for sample in range(8):
            (share,) = placement.shares({0: {"token_ids": [*prompt, sample, 1]}}, ids(4))
            loads[share.replica] += share.unanswered
            homes[number].add(share.replica)
    assert sum(len(replicas) - 1 for replicas in homes.values()) <= 32
    assert max(loads.values()) <= 1.4 * sum(loads.values()) / 4
