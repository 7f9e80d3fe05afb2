from __future__ import annotations

import pytest

from reward_serve_lab.ui.scraping import Reading, Scraper, add, quantile

METRICS = """# HELP ray_reward_serve_items Items
# TYPE ray_reward_serve_items gauge
ray_reward_serve_items{deployment="judge",replica="a"} 4
ray_reward_serve_items{deployment="judge",replica="b"} NaN
ray_reward_serve_requests_total{deployment="judge",status="ok",source="rule"} %d
ray_reward_serve_latency_seconds_bucket{deployment="judge",le="0.1"} %d
ray_reward_serve_latency_seconds_bucket{deployment="judge",le="+Inf"} %d
ray_other{broken
"""


def reading(at: float, count: int) -> Reading:
    found = Reading(at)
    add(found, METRICS % (count, count, count))
    return found


def test_a_rate_is_over_the_last_minute() -> None:
    scraper = Scraper(["http://127.0.0.1:1/metrics"])
    assert scraper.rate() is None
    for at, count in ((0, 0), (50, 100), (100, 300)):
        scraper.readings.append(reading(at, count))
    assert scraper.rate("judge") == 4.0
    assert scraper.rates() == [2.0, 4.0]


async def test_a_node_that_cannot_be_read_is_a_fault() -> None:
    found = await Scraper(["http://127.0.0.1:1/metrics"]).read()
    assert list(found.faults) == ["http://127.0.0.1:1/metrics"]


@pytest.mark.parametrize(
    ("buckets", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({0.1: 0, float("inf"): 0}, 0.5, None),
        ({0.1: 10, 0.3: 20, float("inf"): 20}, 0.5, 0.1),
        ({0.1: 10, 0.3: 20, float("inf"): 20}, 0.75, 0.2),
        ({0.1: 0, float("inf"): 20}, 0.95, 0.1),
    ],
)
def test_quantiles(buckets: dict[float, float], share: float, seconds: float | None) -> None:
    found = quantile(buckets, share)
    assert found == (None if seconds is None else pytest.approx(seconds))
