"""Check a rubric file: its labels and texts, and whether a perfect response scores 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reward_serve.criteria import YES_OR_NO, Criterion, Rubric
from reward_serve.engines.base import Tokenizer
from reward_serve.templates import RUBRICS, load_template
from reward_serve_lab.linting.template_file import Finding, check_label_tokens, is_named

_MOST_TOKENS = 256  # the judge reads every criterion again for every response


def check_rubric(path: Path, tokenizer: Tokenizer) -> list[Finding]:
    """The findings on a rubric file, errors first.

    Args:
        path: a YAML file of criteria.
        tokenizer: the tokenizer of the judge that will use it.
    """
    try:
        content = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, UnicodeError) as error:
        observed = f"cannot be read: {' '.join(str(error).split())}"
        return [Finding("file", observed, "write a YAML list of criteria")]
    if isinstance(content, dict):
        remedy = "write a YAML list of criteria; reward-serve check reads deployments files"
        return [Finding("file", f"is a mapping of {', '.join(map(str, content))[:80]}", remedy)]
    try:
        rubric = Rubric.validate_python(content)
    except ValidationError as error:
        return [_invalid(fault) for fault in error.errors(include_url=False)]
    findings = [
        *_labels(rubric, tokenizer),
        *_texts(rubric, tokenizer),
        *_weights(rubric),
        *_required(rubric),
    ]
    return sorted(findings, key=lambda finding: finding.severity)


def _invalid(fault: ErrorDetails) -> Finding:
    field = ".".join(map(str, fault["loc"])) or "file"
    observed, _, remedy = fault["msg"].removeprefix("Value error, ").partition("; ")
    return Finding(field, observed, remedy or "see docs/how-to/rubrics.md")


def _labels(rubric: Sequence[Criterion], tokenizer: Tokenizer) -> Iterator[Finding]:
    """Each choice must be a single token of the judge, and the text must explain it."""
    template = load_template("rubric", RUBRICS)
    for place, criterion in enumerate(rubric):
        if criterion.choices is None:
            continue
        assert template.label is not None
        form = template.label.model_copy(update={"values": criterion.choices})
        digest = f"{template.digest}-{place}"
        labelled = template.model_copy(update={"label": form, "digest": digest})
        for finding in check_label_tokens(labelled, tokenizer):
            yield Finding(f"{place}.choices", finding.observed, finding.remedy)
        unexplained = [c for c in criterion.choices if not is_named(c, criterion.text)]
        if unexplained and set(criterion.choices) != {"yes", "no"}:
            observed = f"the text does not say when to choose {', '.join(unexplained)}"
            yield Finding(f"{place}.text", observed, "explain each choice", "warning")


def _texts(rubric: Sequence[Criterion], tokenizer: Tokenizer) -> Iterator[Finding]:
    """Criteria must differ and be short."""
    seen: dict[str, str] = {}
    for place, criterion in enumerate(rubric):
        words = " ".join(re.findall(r"\w+", criterion.text.casefold()))
        if words in seen:
            observed = f"asks the same as {seen[words]!r}"
            yield Finding(
                f"{place}.text", observed, "remove one; to count it twice, double the weight"
            )
        seen.setdefault(words, criterion.name)
        tokens = len(tokenizer.encode_plain(criterion.text)[0])
        if tokens > _MOST_TOKENS:
            observed = f"has {tokens} tokens, which the judge reads again for every response"
            remedy = f"shorten it to {_MOST_TOKENS}, or split it"
            yield Finding(f"{place}.text", observed, remedy, "warning")


def _weights(rubric: Sequence[Criterion]) -> Iterator[Finding]:
    """A perfect response must score 1."""
    for place, criterion in enumerate(rubric):
        choices = criterion.choices or YES_OR_NO
        best, worst = max(choices.values()), min(choices.values())
        if criterion.weight > 0 and best < 1:
            observed = f"the best choice scores {best:g}, so no response can reach 1"
            yield Finding(f"{place}.choices", observed, "give the best choice 1.0")
        if criterion.weight < 0 and worst > 0:
            observed = (
                f"every choice costs at least {worst:g} of the weight: no response can reach 1"
            )
            yield Finding(
                f"{place}.choices",
                observed,
                "give 0.0 to the choice for a response without this fault",
            )


def _required(rubric: Sequence[Criterion]) -> Iterator[Finding]:
    """A response that does nothing fulfils every criterion that says what not to do."""
    if len(rubric) > 1 and not any(
        criterion.required and criterion.weight > 0 for criterion in rubric
    ):
        remedy = (
            "set required: true for what only a response that does its task fulfils; "
            "reward-serve attack --rubric FILE says what an empty response earns"
        )
        yield Finding("required", "no criterion is required", remedy, "warning")
