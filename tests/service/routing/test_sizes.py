from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.routing.placement import bounded, size_of

texts = st.text(st.characters(codec="utf-8"))
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@given(plain)
def test_plain_data_takes_no_more_bytes_than_it_is_said_to(value: Any) -> None:
    assert len(pickle.dumps(value, protocol=5)) <= size_of(value) + 64


@pytest.mark.parametrize("text", ["x" * 10_000, "é" * 10_000, "\U0001f600" * 10_000, "\ud800" * 9])
def test_the_estimated_size_of_text_is_within_four_times_its_bytes(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert size <= size_of({"response": text}) <= 4 * size + 100


def test_data_of_any_depth_has_a_size() -> None:
    deep: Any = "18"
    for _ in range(100_000):
        deep = [deep]
    assert size_of(deep) > 100_000


def test_data_that_contain_themselves_have_a_size() -> None:
    endless: dict[str, Any] = {}
    endless["metadata"] = endless
    assert size_of(endless) >= 2**24


@given(st.lists(st.integers(0, 50)), st.integers(1, 60))
def test_parts_are_within_the_bound_and_lose_nothing(sizes: list[int], most_bytes: int) -> None:
    parts = bounded(sizes, lambda size: size, most_bytes)
    assert [size for part, _ in parts for size in part] == sizes
    for part, total in parts:
        assert total == sum(part)
        assert total <= most_bytes or len(part) == 1
