"""What the gsm8k rule proves, and what it leaves to the judge."""

from __future__ import annotations

import pytest

from reward_serve_answers import final_answer, verify, verify_any
from reward_serve_answers.committed import MAX_RESPONSE
from reward_serve_answers.values import UnusableReferenceError

RIGHT = [
    ("**Answer:** 18", "18"),
    ("<answer>18</answer>", "18"),
    ("### Final Answer\n\n18 dollars", "18"),
    ("Not 17. \\boxed{18}", "18"),
    ("\\[ 9 \\times 2 = \\boxed{18} \\]", "18"),
    ("She has no pears left.\n\\boxed{\\boxed{18}}", "18"),
    ("\\boxed{18}\n\n<think>\n\n</think>", "18"),
    ("<think>9*2=18</think>\n\\boxed{18}\n</think>", "18"),
    ("Q2: What is 5 + 2?\nAnswer: 7", "7"),
    ("3/4", "3/4"),
    ("\\frac{3}{4}", "\\frac{3}{4}"),
    ("\\boxed{\\text{(B)}}", "B"),
    ("The answer is **B**.", "(B)"),
    ("\\boxed{\\textbf{Yes}}", "yes"),
    ("#### 18\n\nProblem: How many are 3 and 4?\n#### 7", "18"),
    ("#### 18 dollars", "$18"),
    ("In hours, the answer is 17.", "17"),
    ("So x =\\,\\boxed{18}", "18"),
    ("#### 60 miles a day", "#### 60 miles a day"),
    ("**Total time (minutes):** \\boxed{120}", "120"),
    ("She sells some.\n#### 18", "18"),
    ("She sells some.\nA: 1,800", "1800"),
    ("She sells some.\n#### 0.5", "1/2"),
    ("#### 18 #### 18", "18"),
    ("The answer is the total, \\boxed{18}.", "18"),
    ("<think>#### 5? No, wait.</think>#### 18", "18"),
    ("#### 18<|im_end|>", "18"),
    ("18", "18"),
    ("**18**", "18"),
    ("413 413", "413 413"),
    ("#### yes", "yes"),
    ("The answer is Tom  Smith.", "#### Tom Smith"),
    ("#### 3:30", "3:30"),
    ("Answer: B", "B"),
    ("#### 17 or 18", "17 or 18"),
]
WRONG = [
    (">", "18"),
    ("[]", "18"),
    ("In hours, the answer is 17.", "18"),
    ("She sells some.\n#### 17", "18"),
    ("", "18"),
    ("", "yes"),
    ("Thought process:", "18"),
    ("Sure, here is the solution:", "18"),
    ("The reference answer is correct.", "18"),
]
IN_DOUBT = [
    ("Q: Eats?\nA: 7\nQ: Left?\nA: 9\nQ: So how much does she earn?\nA: 18", "7"),
    ("Q: Eats?\nA: 7\nQ: Left?\nA: 9\nQ: So how much does she earn?\nA: 18", "18"),
    ("The answer is 18, 12 apples and 6 pears.", "18"),
    ("The answer is 17 girls and 13 boys.", "17"),
    ("9 * 2 = 18\n#### 18\nCheck: 9 * 2 = 18. So the total is twice this.", "18"),
    ("#### 18 lacs", "18"),
    ("\\boxed{\\frac{1}{3}}", "0.33"),
    ("#### 1.54", "1.5"),
    ("#### 68°F", "20"),
    ("So it takes \\boxed{5} hours.", "5 minutes"),
    ("\\boxed{18} \u20ac", "$18"),
    ("\\boxed{12 \\text{ square cm}}", "12 cm"),
    ("The answer is 150 minutes, or 2 hours and 30 minutes.", "30"),
    ("Das ist nicht \\boxed{18}", "18"),
    ("Answer:-18", "18"),
    ("So 9 * 2 makes 18 dollars.\n\nQ2: What is 5 + 2?\nAnswer: 7", "7"),
    ("12\n345", "12345"),
    ("\\boxed{5\n180}", "180"),
    ("\\frac{6}{8}", "\\frac{3}{4}"),
    (">", "$>$"),
    ("\\boxed{\\text{(B)}}", "C"),
    ("The answer is 0.6 repeating.", "2/3"),
    ("The answer is 60 miles/hour.", "60 miles"),
    ("The answer is 5'.", "60"),
    ("$\\boxed{18} i$", "18"),
    ("Let x be 2. $\\boxed{18}\u22c5x$", "18"),
    ("#### 18\n<s>old</s> #### 20", "18"),
    ("#### 18\n\nProblem: I counted the tax twice.", "18"),
    ("#### 18\n\nProblem: it lacks the tax, so the answer is 20.", "18"),
    ('{"answer": 18, "unit": "cents"}', "$18"),
    ("In thousands, the answer is 18.", "18"),
    ("1 1", "11"),
    ("#### 100200300", "100,200,300"),
    ("It is $\\boxed{18}\\text{ in}$.", "1.5"),
    ("#### \\dfrac{x}{2}", "\\boxed{\\frac{1}{2}x}"),
    ("The answer is 5 degrees colder.", "-5"),
    ("She loses \\boxed{5} dollars.", "-5"),
    ("The answer is 18 hours.", "$18"),
    ("Answer: 50 yuan", "$50"),
    ("So x is greater than or equal to \\boxed{18}", "18"),
    ("It is tempting to say \\boxed{18}", "18"),
    ("\u5e38\u89c1\u7684\u9519\u8bef\u7b54\u6848\u662f \\boxed{18}", "18"),
    ("Twice the answer is \\boxed{18}", "18"),
    ("45,60", "45.60"),
    ("The answer is 60 miles each hour.", "60 miles"),
    ("The answer is 18 dollars.", "18 dollars a week"),
    ("\\boxed{136\\ \\mathrm{Mb}}", "136\\text{ MB}"),
    ("3 MW", "3 mW"),
    ("#### 17/20", "17"),
    ("The time in minutes is \\boxed{120}", "2"),
    ("She sells eggs for a week. She makes \\boxed{18} a day.\n\nSo for the week she makes", "18"),
    ("#### 18g", "18"),
    ("The answer is 18 upwards", "18"),
    ("Au moins \\boxed{18}", "18"),
    ("9 * 2 = 18", "18"),
    ("#### > 18", "18"),
    ("413 413", "413"),
    ("413 413", "413413"),
    ("#### 1.800", "1800"),
    ("#### $0.50", "50"),
    ("Solution: 🔟", "18"),
    ("Solution: 十八", "18"),
    ("Step 1", "#### 1"),
    ("#### no", "yes"),
    ("#### yes, but maybe later", "yes"),
    ("Answer: A. B. C. D.", "A"),
    ("\\boxed{1 + x^2}", "x^2+1"),
    ("\\boxed{2\\sqrt{3}}\nWait, no.", "2\\sqrt{3}"),
    ("#### 17\ud800", "18"),
    ("}*=\U000b5395\x0e\x97", "B\xa8\U000e8e49\xad"),
    ("#### 0\n#### 1", "0"),
    ("**Answer:** 82 dollars\n<answer>40</answer>\n\\[\\boxed{84}\\]", "82"),
]


@pytest.mark.parametrize(("response", "reference"), RIGHT)
def test_right(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "right"


@pytest.mark.parametrize(("response", "reference"), WRONG)
def test_wrong(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "wrong"


@pytest.mark.parametrize(("response", "reference"), IN_DOUBT)
def test_what_must_be_interpreted_is_left_to_the_judge(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    "response",
    [
        "It is not #### 18",
        "This is an incorrect solution:\n\n\n#### 18",
        "It would be a mistake to write\n#### 18",
        "If she sold all:\n**Final Answer**\n18",
        "Hint: the answer is 18",
        "Bob's answer is 18",
        "my_wrong_answer = 18",
        "-<answer>18</answer>",
        'data = {"answer": 18}',
        "- #### 18",
        r"-\boxed{18}",
        r"1\boxed{18}",
        r"2 * \boxed{18}",
        r"\cancel{\boxed{18}}",
        r"~~\boxed{18}~~",
        r"half of \boxed{18}",
        r"between 3 and \boxed{18}",
        r"about \boxed{18}",
        r"x > \boxed{18}",
    ],
)
def test_a_marker_is_doubted_for_the_text_before_it(response: str) -> None:
    assert verify(response, "18").outcome == "abstain"


PLAIN = {
    "18": ["18.", "18.00", " 18\n", "**18**", "`18`", "$18$", r"\(18\)", r"\mathbf{18}", "{18}"],
    "1800": ["1,800", "1{,}800", r"1\,800", "1,800.0"],
    "-18": ["-18", "- 18", "**-18**", "-$18"],
    "1/2": [".5", "0.5", r"\frac{1}{2}", r"\dfrac{1}{2}"],
    "-0.5": [r"-\frac{1}{2}"],
    "1234567.5": ["1,234,567.5"],
    "18%": ["18%", r"18 \%", "18 percent"],
}


@pytest.mark.parametrize(("number", "forms"), PLAIN.items())
def test_a_plain_number_is_read_exactly(number: str, forms: list[str]) -> None:
    for form in forms:
        assert verify(form, number).outcome == "right", form
        assert verify(f"#### {form}", number).outcome == "right", form
        assert verify(f"#### {form}", "7").outcome != "right", form


OTHER = (
    "about 18|> 18|18k|1.8 million|18 pm|3:30|18e3|9 * 2 = 18|6/8|1/0|3 1/2|1 800|1,80|007|--18|"
    "1.2.3|18%|\u0661\u0668|18\u00b2|18 squared|18 pears and 3|eighteen|18 a b c d e"
)


@pytest.mark.parametrize("text", OTHER.split("|"))
def test_no_other_text_is_a_plain_number(text: str) -> None:
    for gold in ("18", "17", "1800"):
        assert verify(f"#### {text}", gold).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        ("#### 18", "marker_matches"),
        ("$18", "number_matches"),
        ("#### 17", "marker_differs"),
        ("#### 18, i.e. 19", "two_values"),
        ("The answer is 18 or 19.", "two_values"),
        ("There is no way that she has it", "reference_absent"),
        (" \n", "empty_response"),
        ("<think>9 * 2</think>", "only_thinking"),
        ("<!-- #### 18 -->", "only_hidden"),
        ("So she makes 9 * 2 = $18.", "no_marker"),
        ("#### 18\n#### 17", "markers_disagree"),
        ("#### 18\nNo, wait.", "text_after_marker"),
        ("She has 18 pears.\n\nFollow-up: What is 5 + 2?\nAnswer: 7", "another_question"),
        ("#### 18%", "units_differ"),
        ("#### 18 ducats", "unit_not_understood"),
        ("#### 18\n" + "#### 18\n" * 200, "too_many_markers"),
        ("a" * MAX_RESPONSE + "#### 18", "response_too_long"),
    ],
)
def test_the_rule_says_why(response: str, rule: str) -> None:
    assert verify(response, "18").rule == rule


def test_a_solution_is_a_reference_and_the_best_of_several_counts() -> None:
    solution = "They have 5 * 4 = <<5*4=20>>20, of which 2 go.\n#### 18"
    assert final_answer(solution) == "18"
    assert verify_any("#### 18", ["17", solution]).outcome == "right"
    assert verify_any("#### 17", ["18", "18 or 19"]).outcome == "abstain"
    assert verify_any("#### 17", ["18", "19"]).outcome == "wrong"


def test_a_reference_without_an_answer_is_refused() -> None:
    with pytest.raises(UnusableReferenceError, match="contains no answer; send the gold answer"):
        verify("#### 18", "####")
    with pytest.raises(ValueError, match="references: is empty"):
        verify_any("#### 18", [])


@pytest.mark.parametrize(
    ("response", "gold"),
    [
        ("The total is 1.2e5 dollars", "120000"),
        ("She has 12 packs, each with 12 pens.", "144"),
        ("She has 5 twenties", "100"),
        ("She makes XVIII dollars", "18"),
    ],
)
def test_a_value_that_no_numeral_shows_may_be_stated(response: str, gold: str) -> None:
    assert verify(response, gold).outcome == "abstain"
