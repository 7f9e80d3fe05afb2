"""Formulas that look equal and are not, and equal ones in another notation."""

import pytest

from reward_serve_answers.formulas import compare
from tests.rows import rows

EQUAL = rows(__file__, "equal")
DIFFERENT = rows(__file__, "different")
UNDECIDED = rows(__file__, "undecided")


@pytest.mark.parametrize(("pairs", "score"), [(EQUAL, 1.0), (DIFFERENT, 0.0), (UNDECIDED, None)])
def test_only_whole_formulas_compare(pairs: list[tuple[str, str]], score: float | None) -> None:
    assert [pair for pair in pairs if compare(*pair)[0] != score] == []
    if score is not None:
        assert [pair for pair in pairs if compare(*reversed(pair))[0] not in (score, None)] == []
