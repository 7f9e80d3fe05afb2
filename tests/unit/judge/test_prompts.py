"""The judge is trained on its prompts byte for byte: whoever changes one trains it again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reward_serve.judging.rendering import Renderer
from reward_serve.templates import load_template
from reward_serve_answers import final_answer

ROWS = Path(__file__).parents[3] / "examples" / "gsm8k"
DIGEST = "3615b752efa4da2a550ec690996651a290d4b48976fb2bc5c00bdf3cf3bb828c"


def test_the_prompts_are_those_that_the_shipped_judge_was_trained_on() -> None:
    renderer, template = Renderer(None, 6144), load_template("final_answer")
    digest = hashlib.sha256()
    for name in ("samples.jsonl", "formats.jsonl"):
        for line in (ROWS / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            fields = {"reference": final_answer(row["reference"]), "response": row["response"]}
            prompt = renderer.render(
                template, fields, "label", response_tokens=96, reserve_tokens=1
            )
            digest.update(json.dumps(prompt.messages).encode())
    assert digest.hexdigest() == DIGEST
