import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reward_serve_answers import committed as module
from reward_serve_answers.committed import committed
from tests.rows import rows

ANALYSIS = "<|channel|>analysis<|message|>So the answer is 17.<|end|>"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        *rows(__file__, "thinking"),
        (
            f"{ANALYSIS}<|start|>assistant<|channel|>final<|message|>It is 18.<|return|>",
            "It is 18.",
        ),
        (f"{ANALYSIS}<|channel|>commentary to=python<|message|>17<|call|>", ""),
        (f"<|channel|>final<|message|>18<|end|><|start|>assistant{ANALYSIS}", "18"),
        (ANALYSIS, ""),
    ],
)
def test_thinking_and_analysis_are_no_part_of_it(response: str, text: str) -> None:
    assert committed(response).text == text


@pytest.mark.parametrize("run_on", rows(__file__, "run_on"))
@pytest.mark.parametrize("answer", ["She makes 9 * 2 = 18.", "#### 18"])
def test_the_next_question_or_turn_ends_it(answer: str, run_on: str) -> None:
    text = committed(answer + run_on).text
    for token in ("<|im_end|>", "<|eot_id|>"):
        text = text.removesuffix(token)
    assert text == answer


def test_another_document_after_the_end_of_text_is_no_part_of_it() -> None:
    assert committed("#### 18<|endoftext|>The capital is\n#### 7").text == "#### 18<|endoftext|>"
    assert committed("#### 18</s>").text == "#### 18</s>"


@pytest.mark.parametrize(
    "response",
    [
        "Question: How much does she make?\nAnswer: 18",
        "There are 5 crates of 4 pears, and 2 are bruised.\nQuestion: How many are not?\n#### 18",
        "Problem 3\nThere are 5 crates of 4 pears.\n#### 18",
    ],
)
def test_a_question_before_the_answer_is_the_task(response: str) -> None:
    commitment = committed(response)
    assert (commitment.text, commitment.clause) == (response, "18")


@pytest.mark.parametrize("hidden", rows(__file__, "hidden"))
def test_what_a_reader_would_not_see_is_no_part_of_it(hidden: str) -> None:
    commitment = committed(f"So \\boxed{{17}}.\n{hidden}")
    assert (commitment.text, commitment.clause) == ("So \\boxed{17}.", "17")


@pytest.mark.parametrize("response", rows(__file__, "seen"))
def test_what_a_reader_sees_stays(response: str) -> None:
    assert committed(response).text == response


def test_invisible_characters_are_no_part_of_it() -> None:
    assert committed("\u202a1\u200b8\u2069 \ufeff pears").text == "18  pears"
    assert committed("\u202e81\u202c17 pears").text == "17 pears", "18 is what a reader sees"


def test_the_last_markers_clause_is_found() -> None:
    assert committed(r"So \boxed{18}. " + "Check: 9 * 2 = 18. " * 400).clause == "18"
    assert committed("The answer is 17.\n#### 18 pears, as stated.").clause == "18 pears"
    assert committed("A: 18\nThe answer is correct.").clause == "18"
    assert committed("She makes 18.").clause is None
    assert committed("x" * 10**6 + "\n#### 18").clause == "18", "of a longer one, the end is read"


@pytest.mark.parametrize("response", rows(__file__, "no_marker"))
def test_nothing_is_put_forward_by(response: str) -> None:
    assert committed(response).clause is None


def test_a_chat_turn_ends_an_answer_without_a_marker() -> None:
    turn = "[INST] And 5 + 2? [/INST] The answer is 7."
    assert committed(f"She sold 18 of her own eggs{turn}").text == "She sold 18 of her own eggs"
    assert committed(turn).clause == "7"


PIECES = [
    *("\n", " ", "Q", "Q 12:", "Question", "\nquestion 3.\n", "\n **Problem** 2:", "\n> new Q:"),
    *("\n## Question\n", "\n#### Instructions 2\n", "\nExample 3:\n", "\n\tHUMAN:", " user", "İ"),
    *("<|im_start|>user", "<|user|>", "<start_of_turn>\n user", "[INST]", "\nNow try this one: "),
    *("\nInput: a\nOutput:", "\nInput:\n", "instruction", "answer", "the ", "final ", "correct "),
    *("#", "####", "**", "\\boxed", "\\fbox", "{18}", "<answer>", "</answer>", "18", ":", "is"),
    *("A:", "A**:", ">", '"answer"', "'final_answer'", "to the question", "anſwer", " " * 50),
    *("\t" * 45, "x" * 30, "answer" + " " * 410 + "\n", "island", "boxes"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("\n" + " " * 9 + "another question:")
@example("<|start_header_id|>" + " " * 9 + "user")
def test_turns_and_markers_are_found_where_the_patterns_find_them(text: str) -> None:
    turns = [turn.span() for turn in module._find_turns(text)]
    assert turns == [turn.span() for turn in module._TURN.finditer(text)]
    spans = [match.span() for match in module._marked(text)]
    assert spans == [match.span() for match in module._MARKER.finditer(text)]
