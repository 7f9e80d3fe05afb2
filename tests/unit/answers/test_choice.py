import pytest

from reward_serve_answers import verify
from reward_serve_answers.choice import grade_choice
from reward_serve_answers.values import UnusableReferenceError
from tests.rows import rows

QUESTION = """What is the capital of France?
A) Rome
B) Paris
C) A city in Spain
D) None of the above"""


@pytest.mark.parametrize("response", rows(__file__, "right"))
def test_the_letter_or_the_options_text_is_right(response: str) -> None:
    assert grade_choice(response, "B", QUESTION).outcome == "right"
    assert grade_choice(response, "Paris", QUESTION).outcome == "right"
    assert grade_choice(response, "A", QUESTION).outcome != "right"


@pytest.mark.parametrize(("response", "rule"), rows(__file__, "wrong"))
def test_wrong(response: str, rule: str) -> None:
    grade = grade_choice(response, "B", QUESTION)
    assert (grade.outcome, grade.rule) == ("wrong", rule)


@pytest.mark.parametrize("reference", ["A", "B", "C"])
@pytest.mark.parametrize("response", rows(__file__, "undecided"))
def test_a_denied_or_later_letter_is_undecided(response: str, reference: str) -> None:
    assert grade_choice(response, reference, QUESTION).outcome == "abstain"


def test_what_follows_another_question_is_no_answer() -> None:
    response = "The answer is B.\n\nQuestion: What is the capital of Italy?\nAnswer: A"
    assert grade_choice(response, "A", QUESTION).outcome == "wrong"


@pytest.mark.parametrize(
    "response", ["A, C", "AC", "\\boxed{A, C}", "The answer is A and C.", "(A) and (C)"]
)
def test_several_letters_are_right_together(response: str) -> None:
    for reference in ("A, C", "AC", "A and C"):
        assert verify(response, reference, "choice").outcome == "right"
    assert verify(response, "A, B", "choice").outcome == "wrong"
    alone = "abstain" if response == "AC" else "wrong"  # which may be an option's text
    assert verify(response, "A", "choice").outcome == alone
    assert verify("A", "A, C", "choice").outcome == "wrong"


ALONE = rows(__file__, "labels")
OPTIONS = [
    *(
        "\n".join(
            label.replace("A", big).replace("a", big.lower()).replace("1", digit) + f" {name}"
            for big, digit, name in zip("ABC", "123", ("Rome", "Paris", "Oslo"), strict=True)
        )
        for label in ALONE
    ),
    "(A) Rome (B) Paris (C) Oslo",
    "(a) Rome (b) Paris (c) Oslo",
    "A: Rome B: Paris C: Oslo",
    "A.Rome\nB.Paris\nC.Oslo",
    r"$\textbf{(A)}\ Rome\qquad\textbf{(B)}\ Paris\qquad\textbf{(C)}\ Oslo$",
    "1. Read it.\n2. Answer.\nA. Rome\nB. Paris\nC. Oslo\n\nAnswer with the letter.",
    "A) Bonn\nB) Bern\nWhat of France?\nA) Rome\nB) Paris\nC) Oslo",
]


@pytest.mark.parametrize("options", OPTIONS, ids=ascii)
def test_options_are_known_in_the_forms_of_data_sets(options: str) -> None:
    question = f"The capital of France?\n{options}"
    for answer, outcome in (("Paris", "right"), ("Oslo", "wrong"), ("Berlin", "abstain")):
        assert grade_choice(f"The answer is {answer}.", "B", question).outcome == outcome


@pytest.mark.parametrize(
    ("answer", "reference", "outcome"),
    [("AB", "A", "right"), ("BC", "A", "wrong"), ("AC", "C", "right"), ("ABC", "A", "wrong")],
)
def test_an_options_text_is_no_letters(answer: str, reference: str, outcome: str) -> None:
    question = "Which side is the longest?\nA) AB\nB) BC\nC) AC"
    assert grade_choice(f"\\boxed{{{answer}}}", reference, question).outcome == outcome
    assert grade_choice(answer, reference).outcome == "abstain"


def test_a_letter_that_is_another_options_text_is_undecided() -> None:
    question = "Which blood type?\nA) B\nB) A\nC) AB"
    for reference in ("A", "B", "C"):
        assert grade_choice("The answer is A.", reference, question).outcome == "abstain"
        assert grade_choice("The answer is AB.", reference, question).score == float(
            reference == "C"
        )


def test_without_options_a_text_is_no_answer_and_not_wrong() -> None:
    assert grade_choice("Paris", "B").outcome == "abstain"


def test_none_of_the_above_is_an_option_like_others() -> None:
    assert grade_choice("The answer is none of the above.", "D", QUESTION).outcome == "right"
    assert grade_choice("D", "None of the above", QUESTION).outcome == "right"


def test_an_option_is_known_from_the_reference_alone() -> None:
    assert grade_choice("The answer is Paris", "B) Paris").outcome == "right"
    assert grade_choice("The answer is Rome", "B) Paris").outcome == "abstain"


def test_a_reference_that_names_no_option_is_refused() -> None:
    with pytest.raises(UnusableReferenceError, match="'Berlin' names no option; send a letter"):
        grade_choice("B", "Berlin", QUESTION)
