"""Responses whose number a rule cannot know: both verdicts would be false proofs."""

from __future__ import annotations

import time

import pytest

from reward_serve.rules import verify
from reward_serve.rules.base import takes_long
from reward_serve.schema import ScoreRequest

WORK = "9 * 2 = 18\n#### 18\nCheck: 9 * 2 = 18"
STEPS = "".join(f"{day}) How many on day {day}? Answer: {3 * day}\n" for day in range(1, 9))


@pytest.mark.parametrize("reference", ["7", "9", "18"])
def test_a_response_of_questions_and_answers_is_not_cut_at_the_second(reference: str) -> None:
    response = "Q: Eats?\nA: 7\nQ: Left?\nA: 9\nQ: So how much does she earn?\nA: 18"
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 18, 12 apples and 6 pears.", "18"),
        ("#### 75 dollars, 40 for food and 35 for gas", "75"),
        (r"So she pays \boxed{75} dollars, 40 for food and 35 for gas.", "75"),
        ("The answer is 18 pears, 11 for Ann and 7 for Ben.", "18"),
        ("The answer is 18, 2 remaining.", "18"),
        ("**Answer:** 18 and 2 eggs", "18"),
        ("The answer is 17 girls and 13 boys.", "17"),
        ("Answer: 10 red and 8 blue", "10"),
        (f"{STEPS}#### 108", "108"),
    ],
)
def test_parts_of_an_answer_are_no_second_answer(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("reference", ["18", "36"])
@pytest.mark.parametrize(
    "tail",
    [
        ". So the total is twice this.",
        ". Take half.",
        ". Double this for the total.",
        ". Multiply by the cost.",
        ", and 18 + 18 = 36 is required.",
    ],
)
def test_a_verification_may_end_in_another_answer(tail: str, reference: str) -> None:
    assert verify(WORK + tail, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("There are fortyfive pears left in the box.", "45"),
        ("There are ninetysix of them", "96"),
        ("So she has twohundred dollars and that is all.", "200"),
        ("There are sevnty pears", "70"),
        ("It is her seventeenth birthday, and she is happy.", "17"),
        ("It is her fortieth, you know", "40"),
        ("There are 6 rows with 11 in each row", "66"),
        ("that is 6 x11", "66"),
    ],
)
def test_a_number_in_unusual_words_is_not_absent(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("unit", ["mn", "cr", "lacs", "tn", "kk", "thds", "sextillion", "zillions"])
def test_a_multiplier_is_no_unit(unit: str) -> None:
    assert verify(f"#### 18 {unit}", "18").outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        (r"\boxed{\frac{1}{3}}", "0.33"),
        ("#### 3.14", "3.1"),
        ("#### 1.54", "1.5"),
        ("The answer is 15.", "3 pm"),
        ("#### 68\u00b0F", "20"),
        ("\\boxed{293 \\text{ kelvin}}", "20"),
        ("So it is 68 degrees Fahrenheit, and that is it.", "20"),
        ("So they meet at noon, and that is it.", "12"),
        ("The answer is 3 pm.", "15"),
    ],
)
def test_a_rounded_reference_and_a_clock_leave_doubt(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("So it takes \\boxed{5} hours.", "5 minutes"),
        ("She pays \\boxed{18} cents.", "$18"),
        ("$\\boxed{18}\\text{ miles}$", "18 feet"),
        ("It takes $\\boxed{2}$ hours.", "120"),
        ("\\[\\boxed{0.5}\\text{ miles}\\]", "2640"),
        ("\\boxed{y = 3}", "x = 3"),
        ("The answer is 60 miles.", "60 miles per hour"),
        ("It is 18 euros. So \\boxed{18} euros", "$18"),
        ("\\boxed{18} \u20ac", "$18"),
        ("\\boxed{18}\u2030", "18"),
        ("Let $\\lambda$ be 2. It is $\\boxed{18} \\lambda$", "18"),
        ("Let k be 2. It is $\\boxed{18}\\,k$", "18"),
        ("Answer: 1 year", "8760"),
        ("Answer: 2 cubic yards", "54"),
        ("\\boxed{90} km per hour", "25"),
        ("#### 2 gallons", "7.57"),
        ("\\boxed{12 \\text{ square cm}}", "12 cm"),
        ("The answer is 18 euros.", "$18"),
        ("The answer is $\u20b9210$", "210 dollars"),
        ("The answer is 5'", "5 inches"),
        ("#### 6 ab", "6"),
        ("\\boxed{3\\,dx}", "3"),
        ("Let n be 2. It costs \\boxed{18} n dollars.", "18"),
        ("Let x be 2. It is $\\boxed{49}\\, + x$", "49"),
        ("The answer is 3 decades", "30"),
        ("\\boxed{10} miles", "633600"),
        ("$\\boxed{2}\\,\\text{hours}$", "120"),
        ("$\\boxed{2}$ full hours.", "120"),
        ("<answer>2</answer> hours", "120"),
        ("#### 2\nhours", "120"),
        ("$\\boxed{50}$\u00a2", "50 dollars"),
        ("Answer: 2 tbsp", "6 tsp"),
        ("Answer: 18 millones", "18"),
        ("It is \\boxed{18} \\cdot x", "18"),
        ("21", "9 pm"),
    ],
)
def test_a_unit_or_a_name_that_differs_leaves_doubt(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "references"),
    [
        ("The answer is 150 minutes, or 2 hours and 30 minutes.", ["30", "2.5", "9000"]),
        ("\\boxed{5} miles, or 8.05 km", ["5", "8.05"]),
        ("The answer is 20 degrees Celsius, or 68 degrees Fahrenheit.", ["20", "68"]),
        ("The answer is 17, or more precisely 16.67", ["17", "16.67"]),
        ("The answer is 247 pages, which is 13 chapters.", ["247", "13"]),
    ],
)
def test_one_amount_in_two_units_is_no_second_answer(response: str, references: list[str]) -> None:
    assert {verify(response, reference).outcome for reference in references} == {"abstain"}


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("He is 5 ft 7 in tall, and that is it.", "67"),
        ("The bill is 12 euros and 40 cents.", "12.40"),
        ("I ragazzi sono trentadue.", "32"),
        ("Ana are treizeci de mere.", "30"),
        ("It was the forty-first time.", "41"),
        ("The train leaves at 11 PM", "23"),
        ("The code:\n\neggs = 9\neggs *= 6\nprint(eggs)", "54"),
        ("She has 16 and 2. #### 18\n\nVerification: 9*2=18. So it is 16, which is correct.", "18"),
        ("So the correct option is (B).", "6"),
        ("So he makes \\boxed{20} % profit.", "20"),
        ("The answer is \\boxed{20} %, no wait, it is 25 %.", "20"),
        ("% yield = \\boxed{45}", "45"),
        ("Das ist nicht \\boxed{18}", "18"),
        ("A v\u00e1lasz nem \\boxed{18}", "18"),
        ("\u0627\u0644\u062c\u0648\u0627\u0628 \u0644\u064a\u0633 \\boxed{18}", "18"),
        ("Answer: 18\n\u274c", "18"),
        ("\\boxed{18} \U0001f44e", "18"),
        ("\\boxed{18} \u274e", "18"),
        ("Answer:-18", "18"),
        ("So it is 17.\n\n\\begin{comment}\nAnswer: 18\n\\end{comment}", "18"),
        ("x = 3\nprint(x)\nanswer = 15\nanswer += x\nprint(answer)", "15"),
        ("x = 3\nprint(x)\nanswer = 15\nanswer += x\nprint(answer)", "18"),
        ("So option (B) is the correct choice, and that is it.", "6"),
        ("Therefore the correct choice is option B because it is the one.", "6"),
        ("\u6240\u4ee5\u4e0d\u662f \\boxed{18}\u3002", "18"),
        ("She makes 9 * 2 = 18.\n\n#### 2. Conclusion", "18"),
        ("Try: the answer is 10? No.\n" * 2 + "The answer is 18", "18"),
    ],
)
def test_a_number_that_is_compound_foreign_or_denied_leaves_doubt(
    response: str, reference: str
) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    "response",
    [
        "\\boxed{18}\n\n<think>\n\n</think>",
        "<think>a</think>The answer is 18.<think>ok</think>",
        "`<think>` is the tag. \\boxed{18}",
        "The answer is $x = 18$.",
        "<think>9*2=18</think>\n\\boxed{18}\n</think>",
        "#### 18\n\nLet me double-check:\n9 * 2 = 18. This is correct.",
        "#### 18 Dollars",
        "Answer: 18 TV episodes",
        "\\boxed{18} - the total.",
        "So 9 * 2 = 18.\n#### 18\n\nChecking: we multiply and add as above. 9*2 = 18",
    ],
)
def test_thinking_a_name_or_a_check_beside_an_answer_changes_nothing(response: str) -> None:
    assert verify(response, "18").outcome == "right"


@pytest.mark.parametrize(
    "label",
    ["Q2:", "Problem 2.", "### Problem 2\n", "Follow-up:", "[Question]", "user\n", "Frage:"],
)
@pytest.mark.parametrize("reference", ["7", "18"])
def test_an_answer_may_be_that_of_another_question(label: str, reference: str) -> None:
    response = f"So 9 * 2 makes 18 dollars.\n\n{label} What is 5 + 2?\nAnswer: 7"
    assert verify(response, reference).outcome == "abstain"
    assert verify(f"{label} What is 5 + 2?\nAnswer: 7", "7").outcome == "right"


@pytest.mark.parametrize("form", ["{}", "\\boxed{{{}}}", "<answer>{}</answer>"])
@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("12\n345", "12345"),
        ("5\n180", "180"),
        ("3\n1/2", "3.5"),
        ("6/8", "3/4"),
        ("\\frac{6}{8}", "\\frac{3}{4}"),
        ("3/4", "6/8"),
    ],
)
def test_numbers_on_two_lines_and_a_fraction_to_reduce_leave_doubt(
    form: str, answer: str, reference: str
) -> None:
    assert verify(form.format(answer), reference).outcome == "abstain"
    assert verify(form.format(reference), reference).outcome == "right"


@pytest.mark.parametrize(("response", "reference"), [(">", "$>$"), ("**<**", "<"), ("[]", "[ ]")])
def test_a_symbol_may_be_the_answer(response: str, reference: str) -> None:
    assert verify(response, reference).outcome != "wrong"
    assert verify(response, "18").outcome == "wrong"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("\\boxed{\\text{(B)}}", "B"),
        ("The answer is **B**.", "(B)"),
        ("**Answer: B**", "B"),
        ("\\boxed{\\textbf{Yes}}", "yes"),
    ],
)
def test_a_choice_or_a_word_is_read_through_its_markup(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "right"
    assert verify(response, "C").outcome != "right"


@pytest.mark.parametrize("reference", ["3x", "2,3", r"\frac{x}{2}"])
def test_a_reference_that_is_no_number_is_compared_off_the_loop(reference: str) -> None:
    assert takes_long(ScoreRequest(response="#### 4x", reference=reference))
    for other in ("#### 18 dollars", "Paris", "yes"):
        assert not takes_long(ScoreRequest(response="#### 4x", reference=other))


def test_a_number_of_thousands_of_digits_is_no_error() -> None:
    work = "9" * 5_000 + " So she makes 9 * 2 = 18.\n#### 18\n\nCheck: 9 * 2 = 18, which matches."
    assert verify(work, "18").outcome == "abstain"


def test_many_fractions_take_no_longer_than_many_numbers() -> None:
    fractions = " ".join(f"1/{10**38 + n}" for n in range(1_000))
    began = time.process_time()
    verify(f"the sum and more: {fractions}", "#### 77")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 0.6 repeating.", "2/3"),
        ("\\boxed{0.6 (repeating)}", "0.6"),
        ("#### 0.16 recurring", "1/6"),
        ("Answer: 0.3 bar", "0.3"),
    ],
)
def test_a_repeating_decimal_is_another_number(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("#### 18 Millionen", "18"),
        ("#### 18 milliards", "18"),
        ("#### 5 miljoen", "5"),
        ("The answer is 12 hexadecimal.", "18"),
        ("Answer: 112 (ternary)", "14"),
        ("#### 2 grosses", "288"),
    ],
)
def test_a_multiplier_of_another_language_or_base_is_no_unit(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 2 yds.", "6"),
        ("\\boxed{3 \\text{ wks}}", "21"),
        ("#### 2 yrs", "24"),
        ("Answer: 3 qts", "12"),
        ("#### 45 bytes", "360"),
        ("#### 2 gb", "2048"),
        ("\\boxed{18 \\text{ stone}}", "252"),
        ("#### 5 knots", "9.26"),
        ("#### 3 nautical miles", "5556"),
        ("#### 2 turns", "720"),
        ("#### 5 radians", "286.48"),
        ("#### 3 tenners", "30"),
        ("#### 2 barrels", "84"),
    ],
)
def test_an_abbreviated_unit_may_be_converted(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 60 miles/hour.", "60 miles"),
        ("\\boxed{5 \\text{ kg/week}}", "5 kg"),
    ],
)
def test_a_slash_makes_a_rate(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


def test_a_rate_may_be_written_with_a_slash() -> None:
    assert verify("#### 60 miles/hour", "60 miles per hour").outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 5'.", "60"),
        ("\\boxed{5}'", "60"),
        ('#### 60"', "5"),
        ("Answer: 5’", "5 inches"),
        ("5''", "5 feet"),
        ('\\boxed{60}"', "5"),
        ("#### 60''", "5"),
    ],
)
def test_a_mark_of_feet_or_inches_is_a_unit(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


def test_a_quoted_number_has_no_mark_of_inches() -> None:
    assert verify('{"answer": "60", "of": "it"}', "5").outcome == "wrong"
    assert verify('{"answer": "60"}', "60 dollars").outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("$\\boxed{18} i$", "18"),
        ("$\\boxed{18}\\,i$", "18"),
        ("Let a be 2. $\\boxed{18} a$", "18"),
        ("Let x be 2. $\\boxed{18} · x$", "18"),
        ("Let x be 2. $\\boxed{18}⋅x$", "18"),
        ("Let x be 2. \\boxed{18} ÷ x", "18"),
        ("Let x be 2. \\boxed{18}(x)", "18"),
        ("Let x be 2 + y. \\boxed{18} (x + y)", "18"),
    ],
)
def test_a_name_or_an_operator_after_a_box_continues_it(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("tail", [" a day", " (i.e. dollars)", ", and I am done"])
def test_a_word_after_a_box_does_not_continue_it(tail: str) -> None:
    assert verify(f"He earns dollars. \\boxed{{18}}{tail}", "18").outcome != "wrong"


@pytest.mark.parametrize(
    "tail",
    [
        "Let me start again.",
        "Let me read the problem again.",
        "Hold on.",
        "Let's find the total cost.",
        "Let us find it.",
        "I will find the tax.",
        "total = answer + tax",
        "print(answer, tax)",
        "= cost of the tax",
        "With the tax it is more.",
        "(before tax)",
        "\\boxed{}",
    ],
)
def test_a_solution_that_goes_on_after_a_marker_leaves_doubt(tail: str) -> None:
    response = f"We print the tax, and the answer is less the total cost.\n\nanswer = 18\n{tail}"
    assert verify(response, "18").outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("#### 18\n<s>old</s> #### 20", "18"),
        ("#### 18\n\nProblem: I counted the tax twice.", "18"),
        ("#### 18\n\nProblem: it lacks the tax, so the answer is 20.", "18"),
    ],
)
def test_a_struck_text_or_a_remark_does_not_end_the_answer(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


def test_a_problem_that_asks_ends_the_answer() -> None:
    assert verify("#### 18\n\nProblem: How many are 3 and 4?\n#### 7", "18").outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ('{"answer": 18, "unit": "cents"}', "$18"),
        ('{"answer": "2", "unit": "hours"}', "120"),
        ("**Answer:** 2\n\n**Unit:** hours", "120"),
        ("It is $\\boxed{18}\\text{ in}$.", "1.5"),
        ("It is \\boxed{18} in.", "1.5"),
    ],
)
def test_a_unit_may_be_named_after_the_answer(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("It takes an hour eighteen, and that is it.", "78"),
        ("He is five foot six, and that is it.", "66"),
        ("It costs ten dollars fifty, and that is it.", "10.5"),
        ("It costs ten dollars and fifty, and that is it.", "10.5"),
        ("There are 6 rows of 11, and that is it.", "66"),
        ("It is 5 along with 13, and that is it.", "18"),
    ],
)
def test_an_amount_in_words_or_rows_is_not_absent(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("-", "minus"),
        ("**<**", "less than"),
        ("=", "equal"),
    ],
)
def test_a_sign_may_be_a_word(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("In thousands, the answer is 18.", "18"),
        ("In thousands of dollars, \\boxed{36}", "36"),
    ],
)
def test_a_scale_before_a_marker_leaves_doubt(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("1 1", "11"),
        ("5 5 5", "555"),
    ],
)
def test_spaced_digits_may_be_one_number(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 5 degrees colder.", "-5"),
        ("#### 200 feet down", "-200"),
        ("She loses \\boxed{5} dollars.", "-5"),
        ("So the change is a decrease of $\\boxed{5}$.", "-5"),
    ],
)
def test_a_word_may_be_a_sign(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


def test_a_sign_word_in_the_work_is_none_of_the_answer() -> None:
    response = "40 points up, 55 points down. The difference is 15.\n#### 15"
    assert verify(response, "-15").outcome == "wrong"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 18 hours.", "$18"),
        ("#### 6 pesos", "$6"),
        ("Answer: 50 yuan", "$50"),
    ],
)
def test_a_price_is_in_its_own_currency(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("unit", ["dollars", "dollars per day", "per day", "in total", "bucks"])
def test_a_price_may_be_in_words(unit: str) -> None:
    assert verify(f"#### 18 {unit}", "$18").outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("In hours, the answer is 17.", "1020"),
        ("Time in minutes:\n#### 90", "1.5"),
        ("In feet, \\boxed{12}", "144"),
    ],
)
def test_a_unit_may_be_named_before_the_marker(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


def test_a_unit_before_the_marker_changes_no_value() -> None:
    assert verify("In hours, the answer is 17.", "17").outcome == "right"
    assert verify("In hours, the answer is 17.", "18").outcome == "wrong"


def test_numbered_steps_with_a_box_each_are_no_guesses() -> None:
    steps = [f"Day {day}: \\boxed{{{3 * day}}}" for day in range(1, 9)]
    response = "\n".join([*steps, "Total: \\boxed{108}"])
    assert verify(response, "108").outcome == "abstain"


@pytest.mark.parametrize(
    "lead",
    [
        "So x \\neq\\; ",
        "So $x = -\\, ",
        "So $2 \\cdot\\: ",
        "So x is greater than or equal to ",
        "Hence the sum exceeds ",
    ],
)
def test_a_space_or_a_comparison_before_a_box_hides_no_operator(lead: str) -> None:
    assert verify(f"{lead}\\boxed{{18}}", "18").outcome == "abstain"
    assert verify("So x =\\,\\boxed{18}", "18").outcome == "right"


@pytest.mark.parametrize(
    "lead",
    [
        "It is tempting to say ",
        "A common trap is ",
        "La respuesta incorrecta es ",
        "Falsch ist ",
        "\u5e38\u89c1\u7684\u9519\u8bef\u7b54\u6848\u662f ",
        "One would think the answer is ",
        "Twice the answer is ",
        "The negative of the answer is ",
    ],
)
def test_an_answer_that_is_called_wrong_or_changed_before_its_box_leaves_doubt(lead: str) -> None:
    assert verify(f"{lead}\\boxed{{18}}", "18").outcome == "abstain"


@pytest.mark.parametrize(
    "response",
    [
        "a",
        "The answer is a.",
        "So the value is \\boxed{a}.",
        "**Answer:** A\n\nThis completes the solution.",
        "So the correct one is (b), and that is it.",
        "So the first option is the correct one, and that is it.",
        "So the last of the choices is the correct one, and that is it.",
        "So statement II is the one that holds, and that is it.",
        "So we see that the one that they have is **c**, and that is it.",
        "We work it out, so we pick B and that is it.",
    ],
)
def test_a_choice_may_be_a_small_letter_or_named_by_its_place(response: str) -> None:
    assert verify(response, "55").outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("So it costs 45,60 euros, and that is it.", "45.6"),
        ("So it costs 1.045,60 euros, and that is it.", "1045.60"),
        ("So it weighs 0,00450 grams, and that is it.", "0.0045"),
        ("45,60", "45.60"),
    ],
)
def test_a_decimal_comma_may_be_followed_by_zeros(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("So the angle is a right angle, and that is it.", "90"),
        ("So the angle is **-171 degrees**, and that is it.", "189"),
        ("So the sum is a straight angle, and that is it.", "180"),
        ("So all but two of the twenty-five are there, and that is it.", "23"),
        ("So they have all the 26 letters except 3, and that is it.", "23"),
        ("So they have 26 letters apart from 3, and that is it.", "23"),
        ("So they have all 26 letters but 3, and that is it.", "23"),
    ],
)
def test_an_angle_by_name_or_all_but_a_few_is_not_absent(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 60 miles each hour.", "60 miles"),
        ("#### 60 miles a day", "60 miles"),
        ("The answer is 18 dollars.", "18 dollars a week"),
    ],
)
def test_a_rate_needs_no_per(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"
    assert verify(response, response).outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [("#### 11 MB", "11 Mb"), ("\\boxed{136\\ \\mathrm{Mb}}", "136\\text{ MB}"), ("3 MW", "3 mW")],
)
def test_bits_are_no_bytes_and_milliwatts_no_megawatts(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"
    assert verify(f"#### {reference}", reference).outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("#### 17/20", "17"),
        ("The answer is **6/8**.", "6"),
    ],
)
def test_a_score_may_be_written_with_its_maximum(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    "lead",
    [
        "The time in minutes is ",
        "Total minutes = ",
        "Number of minutes: ",
        "**Total time (minutes):** ",
    ],
)
def test_a_unit_may_be_what_is_equated_with_a_box(lead: str) -> None:
    assert verify(f"{lead}\\boxed{{120}}", "2").outcome == "abstain"
    assert verify(f"{lead}\\boxed{{120}}", "120").outcome == "right"
    assert verify(f"{lead}\\boxed{{120}}", "121").outcome == "wrong"


@pytest.mark.parametrize(
    "tail",
    [
        " a day.\n\nSo for the week she makes",
        "\n\nTherefore the total for all is:",
        ".\n\nFinally, we find the total.",
        "\n\nThen we can find the total of it",
    ],
)
def test_a_solution_that_is_cut_off_after_a_marker_leaves_doubt(tail: str) -> None:
    assert verify(f"She sells eggs for a week. She makes \\boxed{{18}}{tail}", "18").score is None


@pytest.mark.parametrize(
    ("response", "reference"),
    [("#### 18g", "18"), ("\\boxed{2}", "2mg"), ("\\boxed{$18g$}", "18")],
)
def test_grams_without_a_space_may_be_a_product(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"
    assert verify("#### 500g", "500 grams").outcome == "right"


@pytest.mark.parametrize(
    "answer", ["18 by", "18 of the", "18 eggs for", "18 upwards", "18\\text{ onwards}"]
)
def test_a_number_with_an_open_end_leaves_doubt(answer: str) -> None:
    assert verify(f"The answer is {answer}", "18").outcome == "abstain"


@pytest.mark.parametrize(
    "lead",
    [
        "Mehr als ",
        "Die H\u00e4lfte von ",
        "Angenommen, die Antwort ist ",
        "M\u00e1s de ",
        "La mitad de $",
        "Si la respuesta fuera ",
        "Au moins ",
        "La moiti\u00e9 de ",
        "Supposons que la r\u00e9ponse soit ",
        "\u7b54\u6848\u5927\u4e8e $",
        "\u7b54\u6848\u81f3\u5c11 ",
        "\u7b54\u6848\u662f 2 \u500d\u7684 ",
        "\u5047\u8bbe\u7b54\u6848\u662f ",
    ],
)
def test_a_bound_or_a_supposition_in_another_language_leaves_doubt(lead: str) -> None:
    assert verify(f"{lead}\\boxed{{18}}", "18").outcome == "abstain"


@pytest.mark.parametrize(
    "lead",
    ["Die Antwort ist ", "La respuesta es $", "La r\u00e9ponse est ", "\u7b54\u6848\u662f $"],
)
def test_an_answer_in_another_language_is_read(lead: str) -> None:
    assert verify(f"{lead}\\boxed{{18}}", "18").outcome == "right"
