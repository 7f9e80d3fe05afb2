"""Constraints on texts; ``loadtests/constraints.py`` compares with the published checkers."""

import json
import time
from typing import Any

import pytest

from reward_serve_checkers import constraints
from reward_serve_checkers.constraints import UnusableConstraintsError, check, compare
from tests.rows import rows

NO_COMMA = '{"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}'


def reference(*named: tuple[str, dict[str, Any]]) -> str:
    names, kwargs = zip(*named, strict=True)
    return json.dumps({"instruction_id_list": names, "kwargs": kwargs})


@pytest.mark.parametrize(
    ("name", "kwargs", "follows", "breaks"), rows(__file__, "kinds") + rows(__file__, "languages")
)
def test_a_kind_tells_what_follows_it(
    name: str, kwargs: dict[str, Any], follows: str, breaks: str
) -> None:
    (right,), (wrong,) = (check(text, reference((name, kwargs))) for text in (follows, breaks))
    assert (right.followed, wrong.followed) == (True, False), (right.observed, wrong.observed)


def test_every_kind_of_ifeval_is_in_the_table() -> None:
    named = {row[0] for row in rows(__file__, "kinds") + rows(__file__, "languages")}
    assert named == set(constraints._KINDS)
    assert len(named) == 25


@pytest.mark.parametrize(("text", "message"), rows(__file__, "unusable"))
def test_an_unusable_reference_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(UnusableConstraintsError) as refusal:
        check("A text.", text)
    assert message in str(refusal.value)
    assert compare("A text.", text, "", "strict", "all")[:2] == [None, "reference_not_read"]


@pytest.mark.parametrize("blank", ["", " \n", "\u200b\u3164", "\u2800"])
def test_a_blank_response_follows_nothing(blank: str) -> None:
    assert [each.followed for each in check(blank, NO_COMMA)] == [False]


def test_a_response_that_repeats_the_question_follows_nothing() -> None:
    titled = reference(("detectable_format:title", {}))
    asked = "Write a poem. Your answer must contain a title, such as <<poem of joy>>."
    for repeated in (
        asked,
        f"{asked}\n",
        asked[14:].replace(" ", "\n"),
        "a\u200b title, such as <<poem of joy>>.",
    ):
        assert check(repeated, titled, asked)[0].observed == "only repeats the question"
    assert check("<<poem of joy>> Roses are red", titled, asked)[0].followed


def test_an_answer_that_the_question_offers_is_no_repetition() -> None:
    chosen = reference(("detectable_format:constrained_response", {}))
    asked = "Is it? Answer with: My answer is yes. My answer is no. My answer is maybe."
    for answer in ("My answer is yes.", "My answer is maybe."):
        assert check(answer, chosen, asked)[0].followed


def test_the_forms_of_data_sets_are_one() -> None:
    kwargs = {"end_phrase": "Bye", "num_words": None, "keywords": None}
    forms: list[Any] = [
        {"instruction_id_list": ["startend:end_checker"], "kwargs": [kwargs]},
        {"instruction_id_list": ["startend:end_checker"], "kwargs": json.dumps([kwargs])},
        {"instruction_id_list": ["startend:end_checker"], "kwargs": [json.dumps(kwargs)]},
        [{"instruction_id": ["startend:end_checker"], "kwargs": [kwargs]}],
        {"instruction_id": "startend:end_checker", "kwargs": [kwargs]},
    ]
    for text in [form for each in forms for form in (json.dumps(each), repr(each))]:
        assert [check(said, text)[0].followed for said in ("So. Bye", "Bye. So")] == [True, False]
    nothing = "[{'instruction_id': ['punctuation:no_comma'], 'kwargs': [None]}]"
    assert check("So.", nothing)[0].followed


def test_arguments_may_be_floats_as_columns_with_gaps_have_them() -> None:
    text = reference(("detectable_format:number_bullet_lists", {"num_bullets": 1.0}))
    assert check("* one", text)[0].observed == "1 bullets"


def test_loose_forgives_the_first_or_last_line_and_asterisks() -> None:
    text = reference(("startend:end_checker", {"end_phrase": "Bye."}), ("punctuation:no_comma", {}))
    said = "Sure, here it is:\nSo.\n**Bye.**\nHope this helps!"
    assert [each.followed for each in check(said, text)] == [False, False]
    assert [each.followed for each in check(said, text, loose=True)] == [True, True]
    assert not check("\n", text, loose=True)[0].followed


def test_a_repeated_kind_is_a_check_of_its_own_and_counts_in_the_share() -> None:
    text = reference(
        ("keywords:existence", {"keywords": ["a"]}),
        ("keywords:existence", {"keywords": ["z"]}),
        ("punctuation:no_comma", {}),
        ("startend:quotation", {}),
    )
    assert [each.name for each in check("a", text)][:2] == [
        "keywords:existence", "keywords:existence_2",
    ]  # fmt: skip
    assert [compare("a", text, "", "strict", how)[0] for how in ("all", "share")] == [0.0, 0.5]


def test_a_language_needs_langdetect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "langdetect", None)
    for name in ("change_case:english_capital", "change_case:english_lowercase"):
        with pytest.raises(UnusableConstraintsError, match=r"install reward-serve-checkers\[lang"):
            check("A", reference((name, {})))


class FakeChecker:
    """As a checker of IFBench's, which needs data of NLTK that is not there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def build_description(self, *, n: int = 3) -> str:
        return f"{n}"

    def get_instruction_args_keys(self) -> list[str]:
        return ["n"]

    def check_following(self, value: str) -> bool:
        if value == "no data":
            raise LookupError("Resource punkt_tab not found")
        return ["right"][len(value) - 5] == value


def test_ifbenchs_kinds_are_refused_for_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnusableConstraintsError, match=r"install reward-serve-checkers\[ifbench"):
        check("A", reference(("count:numbers", {"N": 1})))
    monkeypatch.setattr(constraints, "_ifbench", lambda: {"count:numbers": FakeChecker})
    whole = reference(("count:numbers", {"n": 1}))
    assert [check(said, whole)[0].followed for said in ("right", "wrong")] == [True, False]
    for kwargs, message in (({}, "n: is missing"), ({"m": 1}, "unexpected keyword argument 'm'")):
        with pytest.raises(UnusableConstraintsError, match=message):
            check("right", reference(("count:numbers", kwargs)))
    with pytest.raises(UnusableConstraintsError, match=r"nltk\.downloader punkt_tab"):
        check("no data", whole)
    with pytest.raises(IndexError):  # a fault of the checker is no verdict
        check("a longer text", whole)


LONG = {
    "points": ". ", "brackets": "[", "titles": "<<", "stars": "* ", "abbreviations": "e.g. ",
    "quotes": '"', "numbers": "1.\n", "sentences": "It is so. ",
}  # fmt: skip


@pytest.mark.parametrize("part", LONG)
def test_a_kinds_time_is_linear_in_the_length_of_the_text(part: str) -> None:
    named = [(row[0], row[1]) for row in rows(__file__, "kinds")]
    took = []
    for size in (2**13, 2**16):  # a quadratic kind would take 64 times as long
        text = LONG[part] * (size // len(LONG[part]))
        began = time.process_time()
        check(text, reference(*named))
        took.append(time.process_time() - began)
    assert took[1] < 24 * took[0] + 0.05
