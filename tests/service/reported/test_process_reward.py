"""A process reward model gave a blank response a step, and so a score."""

import pytest

from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from tests.unit.reward_models.test_classifier import process_reward_model

ASKED = {"role": "user", "content": "2 + 3?"}


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\n"])
@pytest.mark.parametrize("as_turn", [False, True], ids=["response", "messages"])
async def test_a_blank_response_is_invalid_and_not_asked_about(text: str, as_turn: bool) -> None:
    engine, model = process_reward_model(0.0, 1.0)
    turn = {"messages": [ASKED, {"role": "assistant", "content": text}]}
    request = turn if as_turn else {"question": "2 + 3?", "response": text}
    (result,) = await Scorer("prm", model, Admission(4, 4)).score_batch([request])
    assert (result["status"], result["score"], engine.asked) == ("invalid", None, [])
    assert "is blank, and has no step to score" in result["reason"]
