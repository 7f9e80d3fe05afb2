r"""Decide answers to grade-school math problems by rule: right, wrong, or abstain.

Policies train against these rules, so they prove an outcome or abstain, and a judge decides the
rest. Right is one final marker (``#### 18``, ``\boxed{18}``, "the answer is 18") with one plain
number of the reference's value, where all other markers agree and nothing that could change it
follows. Wrong is such a number of clearly another value, two values of which one is the
reference's, or a text without any answer:

    verify_any("She makes 9 * 2 = 18 dollars.\n#### 18", "#### 18").outcome  # "right"
    verify_any("The answer is 17.", ["#### 18"]).outcome                       # "wrong"
    verify("So she makes $18.", "#### 18").outcome                       # "abstain": no marker
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from reward_serve_answers.committed import (
    INVISIBLE,
    MAX_RESPONSE,
    OPENER_WORDS,
    Marker,
    asks_again,
    committed,
    is_remark,
)
from reward_serve_answers.thinking import read_thinking
from reward_serve_answers.values import (
    ABSTAINED,
    BE,
    CHANGING,
    DOUBT,
    MEASURES,
    NUMERIC,
    OPEN_END,
    RIGHT,
    WORD,
    WRONG,
    Grade,
    Number,
    ends_without_answer,
    gold_answer,
    is_blank,
    is_blank_character,
    normalised,
    parse_number,
    same_text,
    words,
)

_MAX_TAIL = 160
_MAX_OPENER = 300
_MAX_ABSENT = 5_000
_BEFORE = 200

_NOT_PLAIN = (  # a rendered page would not show it, or shows it struck out
    *("<!--", "phantom", "\\color", "\\textcolor", "~~", "<span", "<div", "<font", "<p ", "<p>"),
    *("<del", "<s>", "<strike", "<sub", "<sup", "[//]", "&nbsp;", "\n%", "\\begin{comment}"),
)
_PROSE = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2}|.{300}", re.DOTALL)
FORMULA = "formula"
_END = re.compile(r"(?:<[|\uff5c][\w\u2581]{1,30}[|\uff5c]>|</s>|```|\s)+$")  # end-of-text tokens
_CLOSING = re.compile(r"(?:[\s.$*_`)\]}>|]|\\[)\]]|\\end\{[a-z*]{1,12}\}|</answer>)*")
_COURTESY = re.compile(
    r"(?:\W*(?:I hope (?:it is correct|(?:this|it) helps)|Hope this helps"
    r"|(?:Please )?let me know if you(?: have any| need)(?: other| more| further| any)*"
    r" (?:questions|help)))+",
    re.IGNORECASE,
)
_MEANING = re.compile(  # signs that may change a number
    r"[-?!%<>=+/*^~'\"&#@:;(\[{\u2026\u00d7\u00f7\u2260\u2248\u00b0\u2030\u20ac\u00a3\u00a5\u00a2"
    r"\u274c\u274e\u2717\u2718\U0001f44e]"
)
_LEADS_ON = re.compile(
    r"[:,]$|\b(?:is|are|be|was|as|to|the|that|than|with|of|or|not|write|say|conclude|answer)$"
)
_SENTENCE = re.compile(r"[.!?](?=\s)|\n")
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("\u00d7\u00f7\u00b7\u2019\u2018\u201c\u201d\u2013\u2014\u20ac", " ")
)
_BEFORE_BOX = re.compile(r"(?:^|[\s.,:;=$*a-zA-Z]|\\[(\[,;:! ])$")
_COMMAND = re.compile(r"\\(?!therefore|implies|quad|qquad|Rightarrow|rightarrow|text)[a-zA-Z]+\W*$")
_OPERATES = re.compile(r"[<>!~]=?$|\d$|(?<!\*)\*$|\d\)? +(?:to|or|and|through)$")
_JOINED = re.compile(r"(?:[a-zA-Z]|(?<!\\)[.,])$")  # 5.\boxed{18}
_SUPPOSED = re.compile(r"^\W*(?:had|were|should|provided|in case|when|once)\b", re.IGNORECASE)
_BEFORE_LABEL = re.compile(
    r"(?:^|^[ \t]*[-\u2022]|[,:*>#]|\b(?:so|thus|therefore|hence|then|and|that))[\s*_]*$",
    re.IGNORECASE,
)
_JOINS = re.compile(  # between two statements of one answer
    r"[\s,;(]*(?:\b(?:that is|or|which (?:is|equals|means)|in other words|aka|namely|meaning"
    r"|equivalently|rather|to be exact)\b|\bi\. ?e\.)[\s,:]*|\s*[=(]\s*|,\s+",
    re.IGNORECASE,
)
_UNITS = MEASURES | words(
    """a an the of in on at for from by per each every with his her their its our your my them that
    total left now old altogether together combined all remaining after before still long away
    dollars dollar usd bucks people students eggs apples books pages points miles daily weekly
    monthly yearly hourly"""
)
"""Words that may follow a number; others only if the text has them before it."""
_NUMERAL = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+")
_MAY_COMPUTE = re.compile(  # a value that no numeral shows may be stated
    r"[+*/^_\\&#!%:'\"()]|(?<![a-z])-|- |\d[a-z]|[a-z]\d|\d \d|\d{20}|\b[ivxlcdm]{3,}\b|\bx\b"
    r"|(?<![a-z])[b-hj-z](?![a-z])|(?:hundred|thousand|million|teen|t[iy]eth|ty)s?\b"
    r"|\b(?:and|another|extra|more|sum|than|each|every|in|of|by|per|over|out|between|to|plus"
    r"|option|choice|choose|pick|select|letter|with|hexadecimal|binary|octal|base)\b"
)
_COMPUTES = re.compile(  # the same of a value of three digits or more
    r"\d\s*[-+*/^x!%]|[-+*/^]\s*\d|\d \d|\d{20}|\\|\d[e:]\d|\d [a-z]+ (?:(?:and|of) )?\$?\d"
    r"|nties\b|\b[ivxlcdm]{3,}\b|(?:hundred|thousand|million|teen|t[iy]eth|[dnrx]ty)s?\b|\b(?:sum|product|difference|plus"
    r"|minus|times|add|added|subtract|multiply|multiplied|divide|divided|square|option|choice|choose|letter|hexadecimal|binary|octal|base)\b"
)
_SMALL = words("zero both one two three four five six seven eight nine none nothing nil")
_ENGLISH = words("the is and of we she he they there have has this answer do not know")
_SIGNS = frozenset("<=>+-*/")
_SCALES = frozenset(map(Fraction, (100, 1000, 10**6)))
_FACTORS = words(
    """2 3 4 7 8 10 12 14 16 24 28 29 30 31 36 48 52 60 64 84 144 168 252 336 360 365 366 720 1024
    1440 1728 1760 2000 3600 4840 5280 8760 8784 10000 10080 43560 63360 86400 1000000000"""
)
_CONVERSIONS = _SCALES | frozenset(map(Fraction, _FACTORS))
_OTHER_SCALE = words("celsius fahrenheit kelvin degrees degree mph kph per")
_SCALED = words(
    """hundreds thousands millions billions dozens pairs negative opposite inverse reciprocal square
    root modulo incorrect trap"""
)
_LEADS = words(
    """the a so is are was therefore thus hence total answer final she he they it we this that there
    and of in cost number have has makes gives get gives equals left each value result sum i you
    to for x y n to by then our her his its their finally"""
)


@dataclass(frozen=True, slots=True)
class _Stated:
    """What a response states, before it is compared."""

    text: str  # what the response committed to
    clause: str | None  # the final answer; None if there is none, or if something may change it
    number: Number | None  # the clause's
    why: str  # there is no clause
    last: Marker | None = None
    measured: bool = False  # whether its sentence has a unit that converts into others


def verify_any(response: str, references: Sequence[str]) -> Grade:
    """Prove a response right by any gold solution or answer, or wrong by all; or abstain.

    Raises:
        UnusableReferenceError: a reference contains no answer.
        ValueError: there is no reference.
    """
    if not references:
        raise ValueError("references: is empty, expected at least one reference")
    golds = [gold_answer(reference) for reference in dict.fromkeys(references)]
    if is_blank(response):
        return best([_blank(response, gold) for gold in golds])
    if len(response) > MAX_RESPONSE:
        return Grade(ABSTAINED, "response_too_long")
    visible, text = read_thinking(response), committed(response).text
    if is_blank(text):
        only_thinks = is_blank(visible.text)
        grade = Grade(WRONG, "only_thinking") if only_thinks else Grade(ABSTAINED, "only_hidden")
        return visible.settled(grade)
    stated = _stated(text, response)
    return visible.settled(best([_grade(stated, gold) for gold in golds]))


def final_formula(response: str, reference: str) -> Grade:
    """What ``verify_any`` proves; else the final answer, to be compared, in an abstention."""
    visible, grade = read_thinking(response), verify_any(response, [reference])
    if grade.outcome != "abstain" or not visible.ended:
        return grade
    if ends_without_answer(visible.text):
        return Grade(ABSTAINED, "cut_off")
    stated = _stated(committed(response).text, response)
    is_bare = stated.why == "no_marker" and not _PROSE.search(stated.text)
    answer = stated.text if is_bare else stated.clause
    return Grade(ABSTAINED, FORMULA if answer else stated.why or grade.rule, answer)


def best(grades: Sequence[Grade]) -> Grade:
    """Right if one is right, wrong if all are wrong, else the first abstention."""
    order = ("right", "abstain", "wrong")
    return min(grades, key=lambda grade: order.index(grade.outcome))


def _blank(response: str, gold: str) -> Grade:
    if not any(map(str.isalnum, gold)) and normalised(response) == normalised(gold):
        return Grade(RIGHT, "text_matches", gold)
    signs = bool(response.strip()) and parse_number(gold) is None
    signs = signs and (not any(map(str.isalnum, gold)) or not _SIGNS.isdisjoint(response))
    return Grade(ABSTAINED, "symbols_only") if signs else Grade(WRONG, "empty_response")


def _grade(stated: _Stated, gold_text: str) -> Grade:
    if len(stated.text) < 2 * len(gold_text) + _BEFORE and same_text(stated.text, gold_text):
        return Grade(RIGHT, "text_matches", stated.text.strip())
    gold, answer = parse_number(gold_text), stated.clause
    if gold is None:
        if answer is not None and same_text(answer, gold_text):
            return Grade(RIGHT, "marker_matches", answer)
        return Grade(ABSTAINED, "reference_not_numeric", answer)
    if stated.number is None or answer is None:
        return _unstated(stated, gold)
    grade = _compared(stated, stated.number, gold)
    may_be_list = gold_text.count(",") > 1 and answer.strip("$ ") != gold_text
    if grade.outcome == "right" and may_be_list:
        return Grade(ABSTAINED, "may_be_a_list", answer)
    return grade


def _compared(stated: _Stated, number: Number, gold: Number) -> Grade:
    answer, by = stated.clause, "marker" if stated.last else "number"
    differ = number.unit and gold.unit and number.unit != gold.unit
    if number.percent != gold.percent or differ:
        return Grade(ABSTAINED, "units_differ", answer)
    if number.value == gold.value:
        return Grade(RIGHT, f"{by}_matches", answer)
    units = number.unit | gold.unit
    measured = stated.measured or not MEASURES.isdisjoint(units)
    if not _OTHER_SCALE.isdisjoint(units) or may_equal(number.value, gold.value, measured=measured):
        return Grade(ABSTAINED, "value_in_doubt", answer)
    return Grade(WRONG, f"{by}_differs", answer)


def may_equal(value: Fraction, other: Fraction, *, measured: bool) -> bool:
    """Whether two values may be one: rounded, scaled, of the other sign or in another unit."""
    small, large = sorted((abs(value), abs(other)))
    if not small:
        return not large
    ratio = large / small
    if ratio == 1 or ratio in (_CONVERSIONS if measured else _SCALES):
        return True
    if value.denominator == other.denominator == 1:
        return measured and (large - small) * 100 < large
    near = (large - small) * 50 < large or _rounds(value, other) or _rounds(other, value)
    return (
        measured or near or value.numerator == other or other.numerator == value
    )  # a score, 17/20


def _rounds(value: Fraction, other: Fraction) -> bool:
    """Whether one rounds to the other's decimals."""
    places = next((places for places in range(7) if (other * 10**places).denominator == 1), None)
    return places is not None and abs(value - other) * 10**places <= Fraction(1, 2)


def _unstated(stated: _Stated, gold: Number) -> Grade:
    """The grade of a response that states no plain answer."""
    answer = stated.clause or (stated.last.text.strip() if stated.last else None)
    if gold.value != 1 and _only_opens(stated.text):
        return Grade(WRONG, "only_opener")
    if stated.why != "another_question":
        if _states_two(stated, gold):
            return Grade(WRONG, "two_values", answer)
        if _is_absent(stated, gold):
            return Grade(WRONG, "reference_absent", answer)
    return Grade(ABSTAINED, stated.why or "marker_not_understood", answer)


def _only_opens(text: str) -> bool:
    """Whether a text only begins an answer."""
    if len(text) > _MAX_OPENER or not all(c.isalnum() or is_blank_character(c) for c in text):
        return False  # a symbol may be a number: a keycap ten
    lower = re.sub(r"\bstep 1\b", "step", text.casefold())
    is_letter = re.search(r"(?:^|\bis)\W*[a-z]\W*$", lower)  # which may be a choice
    return not is_letter and OPENER_WORDS.issuperset(filter(None, re.split(r"[\W_]+", lower)))


def _states_two(stated: _Stated, gold: Number) -> bool:
    """Whether the final sentence states the reference and one other whole number, without units."""
    last, text = stated.last, stated.text
    if last is None or len(text) - last.start > _BEFORE or is_doubted(text, last):
        return False
    after = text[text.find(last.text, last.start) :].replace("\\boxed", "")
    parts = [part.strip(" ().,;{}$\n") for part in _JOINS.split(after)]
    numbers = [parse_number(part) for part in parts if part]
    if len(numbers) != 2 or not (numbers[0] and numbers[1]):
        return False
    first, other = numbers[0], numbers[1]
    plain = not (first.percent or other.percent or first.unit or other.unit)
    if not plain or gold.value not in (first.value, other.value):
        return False
    whole = first.value.denominator == other.value.denominator == 1
    return whole and not may_equal(first.value, other.value, measured=True)


def _is_absent(stated: _Stated, gold: Number) -> bool:
    """Whether no number of a short English text can be the reference, whatever it says of it."""
    value, lower, last = abs(gold.value), stated.text.lower(), stated.last
    if last is not None and not (is_remark(last.text) or parse_number(last.text)):
        return False
    if len(lower) > _MAX_ABSENT or not lower.isascii() or value in (0, 1) or gold.percent:
        return False
    if last is None and len(lower) < 200 and any(map(str.isdigit, lower)):
        return False  # 12 packs of 12: a few numbers say many
    words = set(WORD.findall(lower))
    long = value >= 100 or value.denominator > 1  # no short sum is likely to be it
    computes, counts = (_COMPUTES, NUMERIC) if long else (_MAY_COMPUTE, NUMERIC | MEASURES)
    if long and sum(word in _SMALL for word in WORD.findall(lower)) < 3:  # not its digits in words
        counts -= _SMALL
    if words.isdisjoint(_ENGLISH) or not words.isdisjoint(counts) or computes.search(lower):
        return False
    measured = not long or not words.isdisjoint(MEASURES)
    numbers = (Fraction(numeral.replace(",", "")) for numeral in _NUMERAL.findall(lower))
    return not any(
        (not n and not long) or abs(n - value) < 1 or may_equal(n, value, measured=measured)
        for n in numbers
    )


def _stated(text: str, response: str) -> _Stated:
    """The final answer of what a response committed to, if nothing could change it."""
    commitment = committed(response)
    last = commitment.markers[-1] if commitment.markers else None
    if asks_again(text):
        return _Stated(text, None, None, "another_question", last)
    lower = response.lower()
    hidden = any(map(read_thinking(lower).text.__contains__, _NOT_PLAIN))
    if hidden or (not response.isascii() and INVISIBLE.search(response)):
        return _Stated(text, None, None, "not_plain", last)
    if commitment.markers is None:
        return _Stated(text, None, None, "too_many_markers")
    text = text[:-400] + _END.sub("", text[-400:])
    if last is None:
        number = parse_number(text)
        bare = number is not None and not number.unit - {"dollars"}
        clause = text.strip() if bare else None
        return _Stated(text, clause, number if bare else None, "no_marker")
    clause, why = _final(text, commitment.markers)
    measured = not MEASURES.isdisjoint(WORD.findall(_line_before(text, last).lower()))
    number = parse_number(clause) if clause else None
    return _Stated(text, clause, number, why, last, measured)


def _final(text: str, markers: Sequence[Marker]) -> tuple[str | None, str]:
    """The final marker's text; or None, and why it does not count."""
    last = markers[-1]
    clause = last.text.rstrip(" \"'}") if last.kind == "key" else last.text.strip()
    number = parse_number(clause)
    if last.kind == "open_box":
        return None, "cut_off"
    for other in markers[:-1]:
        shows = any(map(str.isdigit, other.text)) or NUMERIC & set(WORD.findall(other.text.lower()))
        if not shows and (other.kind == "hash" or number):
            continue  # a heading; "the answer is correct"
        earlier = parse_number(other.text)
        if earlier is None or number is None:
            agree = other.text.strip() == last.text.strip()
        else:
            agree = (earlier.value, earlier.percent) == (number.value, number.percent)
        if not agree:
            return None, "markers_disagree"
    if is_doubted(text, last):
        return None, "marker_in_doubt"
    odd = number.unit - _UNITS if number else ()
    if odd and not odd <= set(WORD.findall(text[: last.start].lower())):
        return None, "unit_not_understood"
    tail = text[last.end :]
    if is_closing(tail):
        return clause, ""
    unit = _unit_after(text, last) if len(tail) <= _MAX_TAIL else None
    if unit is None:
        return None, "text_after_marker"
    return (f"{clause} {unit}" if unit and not re.search("[a-z]", clause) else clause), ""


def is_closing(tail: str) -> bool:
    """Whether only closing signs, a courtesy, or symbols such as a check mark follow."""
    if _bare(tail):
        return True
    if len(tail) > _MAX_TAIL or tail[:1] not in (".", "\n", "$"):
        return False
    without = _COURTESY.sub("", tail, count=1).replace("!", "")
    return len(without) < len(tail) and _bare(without)


def _bare(tail: str) -> bool:
    closing = _CLOSING.match(tail)
    rest = tail[closing.end() :] if closing else tail
    if not rest:
        return True
    if len(rest) > _MAX_TAIL or not (tail[:1].isspace() or tail[:1] == "."):
        return False
    return not any(map(str.isalnum, rest)) and _MEANING.search(rest) is None


def _unit_after(text: str, last: Marker) -> str | None:
    r"""The unit in a box's sentence, as in "\boxed{18} dollars a day."; None if more may follow."""
    tail = text[last.end :]
    if last.kind != "box" or not tail.isascii():
        return None
    sentence = tail.rstrip().rstrip(".")
    words = WORD.findall(sentence.lower().replace("\\text", " "))
    if _SENTENCE.search(sentence) or re.search(r"\d|[?!;:<>=+*/^%(]|^\s?\S*-", sentence):
        return None
    changes = set(words[:1]) & CHANGING or set(words[:3]) & BE or set(words) & (NUMERIC | DOUBT)
    if changes or not re.match(r"[$\s]*(?:\\\)|\s|\\text\{)", tail):
        return None
    if set(words[-1:]) & OPEN_END or re.search(r"\\(?!text\b|[)\]])", sentence):
        return None
    known = _UNITS.union(WORD.findall(text[: last.start].lower()))
    if not known.issuperset(words) or any(len(word) == 1 and word != "a" for word in words):
        return None
    return " ".join(word for word in words if word in MEASURES or word == "per")


def is_doubted(text: str, marker: Marker) -> bool:
    """Whether the text before a marker may deny or change what it states."""
    line = _line_before(text, marker)
    if marker.kind in ("label", "key"):
        if _BEFORE_LABEL.search(line) is None and marker.kind == "label":
            return True
    elif marker.kind == "tag":
        if line.strip() and not line.rstrip().endswith((":", ".", ">")):
            return True
    elif marker.kind == "box":
        tight = line.rstrip(" ")
        plain = re.sub(r"(?:\\[,;:! ]|[$ ])+$", "", tight)
        if _BEFORE_BOX.search(plain[-1:]) is None and tight[-2:] not in ("\\(", "\\["):
            return True
        if _COMMAND.search(tight) or _OPERATES.search(plain) or _JOINED.search(line):
            return True
    elif re.search(r"[-+/<>~(=]\s*$", line):
        return True
    words = WORD.findall(re.sub(r"\\[a-zA-Z]+", " ", line).lower())
    foreign = not line.isascii() or (len(line) > 1 and bool(words) and _LEADS.isdisjoint(words))
    return foreign or not (DOUBT | _SCALED).isdisjoint(words) or _SUPPOSED.search(line) is not None


def _line_before(text: str, marker: Marker) -> str:
    """The sentence before a marker, from the line above where that leads on: "Not this:"."""
    before = text[max(0, marker.start - _BEFORE) : marker.start].translate(_TYPOGRAPHY)
    above, _, line = before.rpartition("\n")
    if not any(map(str.isalnum, line)) and _LEADS_ON.search(above.rstrip(" \n\t*_`>#$")[-20:]):
        line = f"{above.rstrip()} {line}"
    return _SENTENCE.split(line)[-1]
