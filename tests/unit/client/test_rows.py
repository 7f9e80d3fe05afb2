import math
from typing import Any

import numpy as np
import pytest

from reward_serve.client.rows import request_of, text_of, texts_of


class Ambiguous:
    """Compares as ``pandas.NA`` does."""

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize("cell", [None, math.nan, np.float32("nan"), "", " \n", Ambiguous()])
def test_a_missing_cell_has_no_text(cell: object) -> None:
    assert text_of(cell) is None
    assert texts_of(cell) == texts_of([cell]) == []


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("None", ["None"]),
        ("18", ["18"]),
        (18, ["18"]),
        (0, ["0"]),
        (False, ["False"]),
        (np.int64(18), ["18"]),
        (["18", 19, None, math.nan, ""], ["18", "19"]),
        (("18", "19"), ["18", "19"]),
        (np.array(["18", None], dtype=object), ["18"]),
        (np.array("18"), ["18"]),
        ([], []),
        (b"18", ["18"]),
        ([["18", None], "19"], ["18", "19"]),
        (np.array([["18"], ["19"]]), ["18", "19"]),
    ],
)
def test_a_cells_gold_answers(cell: Any, texts: list[str]) -> None:
    assert texts_of(cell) == texts


@pytest.mark.parametrize("source", [None, math.nan, "", "openai/gsm8k"])
def test_a_requests_metadata_has_its_data_set_and_the_samples_keys(source: Any) -> None:
    of_row = {"data_source": "openai/gsm8k"} if source == "openai/gsm8k" else {}
    assert request_of("18", info={"data_source": source}).get("metadata", {}) == of_row
    keys = {"step": 3, "data_source": "own"}
    both = request_of("18", info={"data_source": source, "judge_metadata": keys})
    assert both["metadata"] == {**of_row, **keys}
