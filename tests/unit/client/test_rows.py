import math
from typing import Any

import numpy as np
import pytest

from reward_serve.client.rows import text_of, texts_of


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
