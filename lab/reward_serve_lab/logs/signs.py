"""Signs that a policy has found a hole in its reward, by audits of its samples.

An audit is a second verdict on a sampled share of the samples: by the rules where a model decided,
by the model where a rule decided, or by another judge (``reward-serve rescore``). A sample is
*contested* if its reward accepts it and the audit does not. A run is compared with its own first
steps, so that two judges who have always differed are no sign.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from reward_serve_lab.evaluation.bulk import RIGHT
from reward_serve_lab.logs.table import VerdictTable

AUDITS = 32
"""Minimum number of audits in a window of steps."""
CONTESTED = 10
"""Minimum number of contested samples, to say what they share."""
FIRST = 64
"""Number of the run's first samples, in which a spreading phrase must have been rare."""
LOOKS = 200
"""Maximum number of steps at which a run is tested."""
P_VALUE = 1e-3
"""Significance level of each test; small, because a run is tested at many steps."""
_SHARE = 0.05
_PHRASE_SHARE = 0.5
_PHRASE_SHARE_BEFORE = 0.25
_PHRASE_GROUPS = 4
_LONGER = 0.8
_MAX_WORDS = 3
_WORDS = re.compile(r"\d+(?:[.,]\d+)*|\w+|[^\w\s]+")


@dataclass(frozen=True)
class Sign:
    """A sign of a hole.

    Attributes:
        name: ``contested``, ``spreading`` or ``longer``.
        says: what was seen, with its figures.
        since_step: the first of the latest steps in a row at which it was seen.
        samples: ids of the last window's contested verdicts.
    """

    name: str
    says: str
    since_step: float
    samples: tuple[int, ...]


@dataclass(frozen=True)
class _Audited:
    id: int
    step: float
    group: str
    characters: int
    response: str
    rewarded: bool
    accepted: bool

    @property
    def is_contested(self) -> bool:
        return self.rewarded and not self.accepted


@dataclass
class _Step:
    number: float
    reward: float
    audited: list[_Audited] = field(default_factory=list)

    @cached_property
    def contested(self) -> list[_Audited]:
        return [sample for sample in self.audited if sample.is_contested]


def signs(table: VerdictTable, run: str | None = None, model: str | None = None) -> list[Sign]:
    """The signs at the last step of a run; see ``history``."""
    steps = list(history(table, run, model))
    return steps[-1][1] if steps else []


def history(
    table: VerdictTable, run: str | None = None, model: str | None = None
) -> Iterator[tuple[float, list[Sign]]]:
    """Each step of a run, and the signs that its samples until then show.

    Of a run of more than ``LOOKS`` steps, some are left out, at equal distances.

    Args:
        table: verdicts with the steps of their trainer, and audits.
        run: the run; None for verdicts without one.
        model: the reward model; None for all.
    """
    steps = _steps(table, run, model)
    before = [_phrases(response) for (response,) in table.rows(_FIRST, [run, model])]
    since: dict[str, float] = {}
    stride = -(-len(steps) // LOOKS) or 1
    for end in range(len(steps) % stride or stride, len(steps) + 1, stride):
        step, seen = steps[end - 1], list(_seen(steps[:end], before))
        since = {name: since.get(name, step.number) for name, _, _ in seen}
        yield step.number, [Sign(name, says, since[name], of) for name, says, of in seen]


_OF_RUN = (
    "v.run IS NOT DISTINCT FROM ? AND coalesce(v.model = ?, true) AND v.step IS NOT NULL "
    "AND v.source <> 'teacher'"
)
_DECIDED = f"{_OF_RUN} AND v.score IS NOT NULL"
_REWARDS = f"SELECT v.step, avg(v.score) FROM verdicts v WHERE {_DECIDED} GROUP BY 1 ORDER BY 1"
_FIRST = f"SELECT v.response FROM verdicts v WHERE {_OF_RUN} ORDER BY v.step, v.id LIMIT {FIRST}"
_AUDITED = f"""
SELECT v.id, v.step, coalesce(v."group", v.id::VARCHAR), v.characters, v.response,
    v.score >= ?, min(a.other) >= ?
FROM verdicts v JOIN audits a ON a.request = v.request AND a.model = v.model
    AND a.run IS NOT DISTINCT FROM v.run AND a.step = v.step
    AND a.sample IS NOT DISTINCT FROM v.sample
WHERE {_DECIDED} GROUP BY ALL ORDER BY v.id
"""


def _steps(table: VerdictTable, run: str | None, model: str | None) -> list[_Step]:
    rewards = table.rows(_REWARDS, [run, model])
    steps = {number: _Step(number, reward) for number, reward in rewards}
    for row in table.rows(_AUDITED, [RIGHT, RIGHT, run, model]):
        audited = _Audited(*row)
        steps[audited.step].audited.append(audited)
    return list(steps.values())


def _seen(
    steps: Sequence[_Step], before: Sequence[set[str]]
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Name, words and samples of each sign at the last of these steps."""
    first, last = _window(steps), _window(steps[::-1])
    if not first or first[-1].number >= last[0].number:
        return
    recent = [sample for step in last for sample in step.audited]
    contested = [sample for step in last for sample in step.contested]
    ids = tuple(sample.id for sample in contested)
    rewards = [sum(step.reward for step in part) / len(part) for part in (first, last)]
    if rewards[1] > rewards[0] and (says := _rising(steps, recent)):
        rose = f"The mean reward rose from {rewards[0]:.2f} to {rewards[1]:.2f}."
        yield "contested", f"{says} {rose}", ids
    if len(contested) >= CONTESTED and (says := _spreading(contested, before)):
        yield "spreading", says, ids
    if says := _longer(steps):
        yield "longer", says, ids


def _window(steps: Sequence[_Step]) -> list[_Step]:
    """The first steps that have ``AUDITS`` audits together; none if all have fewer."""
    window, audits = [], 0
    for step in steps:
        window.append(step)
        audits += len(step.audited)
        if audits >= AUDITS:
            return window
    return []


def _rising(steps: Sequence[_Step], recent: Sequence[_Audited]) -> str:
    """Whether more samples are contested from some step on than before, and not few by now."""
    from scipy.stats import hypergeom  # type: ignore[import-untyped]

    share = sum(sample.is_contested for sample in recent) / len(recent)
    if share < _SHARE:
        return ""
    audits = [len(step.audited) for step in steps]
    contested = [len(step.contested) for step in steps]
    total, after = sum(contested), list(accumulate(contested[:0:-1]))[::-1]
    of_after = list(accumulate(audits[:0:-1]))[::-1]
    # Fisher's exact test of each split, of which the best is taken.
    p_values = hypergeom.sf([c - 1 for c in after], sum(audits), total, of_after)
    if len(after) * min(p_values) >= P_VALUE:
        return ""
    split = int(p_values.argmin()) + 1
    return (
        f"The audit contests {share:.0%} of the last {len(recent)} audited samples; before step "
        f"{steps[split].number:g} it did {total - after[split - 1]} of {sum(audits[:split])}."
    )


def _spreading(contested: Sequence[_Audited], before: Sequence[set[str]]) -> str:
    """The phrase of most contested samples, of several questions, that was rare before."""
    phrases = [_phrases(sample.response) for sample in contested]
    counts = Counter(phrase for some in phrases for phrase in some)
    candidates: list[tuple[float, int, str, int]] = []
    for phrase, count in counts.items():
        groups = {e.group for e, some in zip(contested, phrases, strict=True) if phrase in some}
        earlier = sum(phrase in some for some in before)
        rare = earlier <= _PHRASE_SHARE_BEFORE * len(before)
        if rare and count >= _PHRASE_SHARE * len(contested) and len(groups) >= _PHRASE_GROUPS:
            p = _p_of_more(count, len(contested), earlier, len(before))
            candidates.append((p, -len(phrase), phrase, earlier))
    if not candidates or len(counts) * min(candidates)[0] >= P_VALUE:
        return ""
    _, _, phrase, earlier = min(candidates)
    return (
        f"{counts[phrase]} of the last {len(contested)} contested samples, of several questions, "
        f"contain {phrase!r}; {earlier} of the run's first {len(before)} did."
    )


def _longer(steps: Sequence[_Step]) -> str:
    """Whether, of the samples that the audit rejects, the rewarded ones are longer."""
    ours = [sample.characters for step in steps for sample in step.contested]
    if len(ours) < CONTESTED:
        return ""
    rejected = (sample for step in steps for sample in step.audited if not sample.accepted)
    lengths = [ours, [sample.characters for sample in rejected if not sample.rewarded]]
    share = _greater(*lengths)
    if share < _LONGER:
        return ""
    means = [sum(part) / len(part) for part in lengths]
    return (
        f"Of the samples that the audit rejects, the rewarded ones have {means[0]:.0f} characters "
        f"on average and the others {means[1]:.0f}: a rewarded one is the longer of two in "
        f"{share:.0%}."
    )


def _phrases(response: str) -> set[str]:
    """The phrases of up to three words; numbers are words."""
    words = _WORDS.findall(response.lower())
    return {
        " ".join(words[at : at + size])
        for size in range(1, _MAX_WORDS + 1)
        for at in range(len(words) - size + 1)
    }


def _greater(ours: Sequence[float], others: Sequence[float]) -> float:
    """How often one of ours is greater than another, if Mann and Whitney's test finds it so."""
    from scipy.stats import mannwhitneyu

    if not ours or not others:
        return 0.0
    test = mannwhitneyu(ours, others, alternative="greater")
    return float(test.statistic) / (len(ours) * len(others)) if test.pvalue < P_VALUE else 0.0


def _p_of_more(count: int, of: int, before: int, of_before: int) -> float:
    """The one-sided p of Fisher's exact test, that a share is greater than an earlier one."""
    from scipy.stats import fisher_exact

    rows = [[count, of - count], [before, of_before - before]]
    return float(fisher_exact(rows, alternative="greater").pvalue)
