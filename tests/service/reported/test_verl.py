"""verl's ``acc`` is the verdict; what needs verl itself is in ``clients/verl/tests``.

A sample of no tokens, which ended in an IndexError: ``test_undecided.py``. ``overlong_buffer_cfg``,
which was ignored: ``test_managers.py`` and, with rewards of turns, ``test_tools.py``.
"""

import pytest

from reward_serve.schema import ScoreResult, Status
from reward_serve_verl.scoring import as_reward


@pytest.mark.parametrize(("score", "acc"), [(1.0, 1.0), (0.0, 0.0), (0.7, 1.0), (0.3, 0.0)])
def test_acc_is_whether_the_score_is_right(score: float, acc: float) -> None:
    reward = as_reward(ScoreResult(status=Status.OK, score=score))
    assert (reward["score"], reward["acc"]) == (score, acc)
