"""Two replicas on three nodes, and the arithmetic of the figures."""

import json
from pathlib import Path

import pytest

from loadtests.reports import RESULTS
from loadtests.scale.nodes import capacity_per_s, recovery
from loadtests.scale.workload import Seen, merged
from loadtests.tests.test_programs import run


def seen(rate_at: dict[tuple[int, int], int]) -> Seen:
    """Results at so many a second between two times, from two replicas in turn."""
    times = [
        s + n / rate for (a, b), rate in rate_at.items() for s in range(a, b) for n in range(rate)
    ]
    replicas = [str(n % 2) for n in range(len(times))]
    return Seen([0.5] * len(times), times, replicas, [1.0])


def test_a_rate_is_back_when_it_stays_above_80_percent() -> None:
    rates = {(0, 20): 50, (20, 30): 25, (30, 33): 60, (33, 36): 20, (36, 60): 48}
    figures = recovery(merged([seen(rates)] * 2), 20.0, 60.0)
    assert (figures["before_per_s"], figures["low_per_s"], figures["back_s"]) == (100, 40, 16)
    assert recovery(seen({(0, 20): 50, (20, 60): 25}), 20.0, 60.0)["back_s"] is None
    assert recovery(seen({(0, 60): 50}), 20.0, 60.0)["back_s"] == 0


def test_an_even_load_has_no_imbalance() -> None:
    assert seen({(0, 4): 10}).imbalance(0.0, 4.0) == 1.0
    uneven = Seen([0.1] * 4, [1.0] * 4, ["a", "a", "a", "b"])
    assert uneven.imbalance(0.0, 2.0) == 1.5


def test_capacity_is_the_slots_by_the_slowed_curve() -> None:
    assert capacity_per_s({8: 0.5, 16: 1.0}, 3) == 3 * 16 / 4.0


@pytest.mark.timeout(900)
def test_two_replicas_on_three_nodes_lose_nothing(tmp_path: Path) -> None:
    curve = json.loads((RESULTS / "scale.json").read_text(encoding="utf-8"))["curve"]
    (path := tmp_path / "scale.json").write_text(json.dumps({"curve": curve}), encoding="utf-8")
    run("scale", "--only", "handle", "--most", "2", "--out", str(tmp_path))
    figures = json.loads(path.read_text(encoding="utf-8"))["handle"]
    for part in (*figures["calm"].values(), *figures["full"].values()):
        assert (part["absent"], part["wrong"]) == ({}, 0)
    assert figures["full"]["2"]["share"] > figures["calm"]["2"]["share"]
