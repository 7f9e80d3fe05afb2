"""Whether a response follows the constraints of its prompt, as IFEval and IFBench state them.

    reference = '{"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}'
    check("No, thanks.", reference)      # [Check("punctuation:no_comma", False, "1 commas")]

IFEval's 25 kinds (Zhou et al., 2023) are checked here, IFBench's 58 (Pyatkin et al., 2025) by
if-verifiable, if it is installed. The 25 agree with the published checkers except where those check
something else than the instruction says: ``docs/how-to/constraints.md`` lists where.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

try:
    import langdetect
    from langdetect import detector_factory

    detector_factory.DetectorFactory.seed = 0  # else one text has several languages
    detector_factory.init_factory()  # half a second, before a child process is forked
    _LANGUAGES = {code.split("-")[0] for code in detector_factory._factory.get_lang_list()}
except ImportError:
    langdetect, _LANGUAGES = None, set()

_INVISIBLE = re.compile(  # what Unicode says is not shown, and the blank letters
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_LOOKALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧο",
    "ABESIJKMHOPCTYXaesijopcyxhdqwABEZHIKMNOPTYXo",
)
_REPEATED = 5  # words; fewer may be an answer that the question offers
_WORD = re.compile(r"\w")
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s|$)|[。！？।؟۔]+|\n(?=\s*\d{1,3}\.\s)")
_ABBREVIATION = re.compile(  # or an initial, or a number in a list
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|sr|jr|vs|fig|inc|ltd|co|dept|gen|rev|approx|ph\.d|[a-z]"
    r"|(?:[a-z]\.)+[a-z])|^\W*\d{1,3})$",
    re.IGNORECASE | re.MULTILINE,
)


class UnusableConstraintsError(ValueError):
    """The reference is no list of known constraints; the message has the place and the remedy."""


class Check(NamedTuple):
    """Whether a response follows one constraint, and what was observed."""

    name: str
    followed: bool
    observed: str


Constraint = Callable[[str], tuple[bool, str]]


def check(response: str, reference: str, question: str = "", *, loose: bool = False) -> list[Check]:
    """Check a response by each constraint of the reference.

    Args:
        response: any text, without thinking. A blank one follows no constraint. One that only
            repeats the end of the question, in five words or more, follows none of IFEval's.
        reference: IFEval's ``{"instruction_id_list": [...], "kwargs": [...]}`` as JSON, or as in
            allenai's data a Python literal, in a list, with ``instruction_id``.
        question: the prompt, if there is one.
        loose: whether it is enough to follow a constraint without asterisks, or without the first
            or the last line or both, as for IFEval's loose accuracy.

    Raises:
        UnusableConstraintsError: a constraint is unknown, or an argument is missing, unknown or
            wrong.
    """
    constraints, text = _constraints(reference), _visible(response).strip()
    if not text:
        return [Check(name, False, "the response is blank") for name, _ in constraints]
    words, question_words = text.split(), _visible(question).split()
    is_repeated = len(words) >= _REPEATED and question_words[-len(words) :] == words
    readings, lines = [text], text.split("\n")
    if loose:
        parts = (lines[1:], lines[:-1], lines[1:-1])
        readings += ["\n".join(part).strip() for part in parts]
        readings += [reading.replace("*", "") for reading in readings]
    readings = [reading for reading in dict.fromkeys(readings) if reading.strip()]
    checks = []
    for name, constraint in constraints:
        outcome = max(map(constraint, readings), key=operator.itemgetter(0))
        if is_repeated and name.startswith(tuple(_KINDS)):  # some of IFBench's ask for it
            outcome = False, "only repeats the question"
        checks.append(Check(name, *outcome))
    return checks


def compare(response: str, reference: str, question: str, reading: str, aggregate: str) -> Any:
    """Score, rule, answer and checks, for a child process.

    ``reading`` is "strict" or "loose"; ``aggregate`` is "all", by which one constraint that is not
    followed scores 0.0, or "share", the share of those that are.
    """
    try:
        checks = check(response, reference, question, loose=reading == "loose")
    except UnusableConstraintsError as error:
        return [None, "reference_not_read", str(error), []]
    share = sum(followed for _, followed, _ in checks) / len(checks)
    return [share if aggregate == "share" else float(share == 1), "constraints", None, checks]


def _constraints(reference: str) -> list[tuple[str, Constraint]]:
    """The constraints of a reference, each with a name of its own."""
    content = _read(reference)
    content = _read(content[0]) if isinstance(content, list) and len(content) == 1 else content
    content = content if isinstance(content, dict) else {}
    names, kwargs = content.get("instruction_id_list", content.get("instruction_id")), None
    names, kwargs = [names] if isinstance(names, str) else names, _read(content.get("kwargs"))
    if not isinstance(names, list) or not isinstance(kwargs, list) or not names:
        example = '{"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}'
        raise UnusableConstraintsError(f"is no list of constraints; send JSON such as {example}")
    if len(kwargs) != len(names):
        raise UnusableConstraintsError(
            f"kwargs: has {len(kwargs)} entries for {len(names)} constraints; send one for each"
        )
    counts, constraints = Counter[str](), []
    for place, (name, arguments) in enumerate(zip(map(str, names), kwargs, strict=True)):
        try:
            given = {key: v for key, v in (_read(arguments) or {}).items() if v is not None}
            constraint = _published(name, given) if name in _ifbench() else _own(name, given)
        except (AttributeError, TypeError, ValueError) as error:
            raise UnusableConstraintsError(f"constraint {place}, {name!a:.60}: {error}") from None
        counts[name] += 1
        constraints.append((f"{name}_{counts[name]}" if counts[name] > 1 else name, constraint))
    return constraints


def _read(value: Any) -> Any:
    """A value, which may be written as JSON or as a Python literal; None if it is neither."""
    if not isinstance(value, str):
        return value
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return read(value)
    return None


def _own(name: str, given: dict[str, Any]) -> Constraint:
    """A constraint of IFEval's; raises ``ValueError`` for what it cannot take."""
    if name not in _KINDS:
        remedy = "" if _ifbench() else "; for IFBench's install reward-serve-checkers[ifbench]"
        raise ValueError(f"no such kind{remedy}")
    parameters, measure, unit, *default = _KINDS[name]
    if unit.endswith("language") and langdetect is None:
        raise ValueError("needs langdetect; install reward-serve-checkers[language]")
    if given.keys() != set(parameters.split()):
        names = ", ".join(given) or "none"
        raise ValueError(f"has the arguments {names}; send {parameters or 'none'}")
    arguments = {key: _argument(key, given[key]) for key in parameters.split()}
    relation, limit = default or ("at least", 1)
    for key in [*arguments]:
        if key.endswith("relation"):
            relation = arguments.pop(key)
        elif key.startswith("num_") or key.endswith("frequency"):
            limit = arguments.pop(key)
    if arguments.get("nth_paragraph", 0) > limit:
        raise ValueError(f"nth_paragraph: is above num_paragraphs: {limit}")
    is_evaded = measure is _forbidden or (measure is _times and relation == "less than")

    def constraint(text: str) -> tuple[bool, str]:
        texts = [text]
        if is_evaded:
            texts.append(re.sub(r"\w+", _in_one_script, unicodedata.normalize("NFKC", text)))
        measured = [measure(shape, *arguments.values()) for shape in texts]
        count = max(m if isinstance(m, int) else len(m) for m in measured)
        return _RELATIONS[relation](count, limit), f"{count:d} {unit}"

    return constraint


def _argument(key: str, value: Any) -> Any:
    """An argument of a kind; raises ``ValueError`` for another type than its name implies."""
    is_text = isinstance(value, str) and bool(_visible(value).strip())
    fits, expected = is_text, "a text"
    if key.endswith("relation"):
        fits, expected = value in ("less than", "at least"), "'less than' or 'at least'"
    elif key.startswith("n") or key.endswith("frequency"):
        fits = isinstance(value, int | float) and value is not True and 0 <= value == value // 1
        expected = "a whole number"
    elif key in ("keywords", "forbidden_words"):
        fits = isinstance(value, list) and value != []
        fits = fits and all(isinstance(v, str) and bool(_visible(v).strip()) for v in value)
        expected = "a list of texts"
    elif key == "letter":
        fits, expected = is_text and len(value.strip()) == 1, "one character"
    elif key == "language":
        fits, expected = value in _LANGUAGES, "a language that langdetect knows"
    if not fits:
        raise ValueError(f"{key}: {value!a:.60} is not {expected}")
    if isinstance(value, list):
        return [_visible(text).strip() for text in value]
    return _visible(value).strip() if is_text else value


@cache
def _ifbench() -> dict[str, Any]:
    """IFBench's checkers by kind, imported without downloads and data sets."""
    is_loaded = "datasets" in sys.modules
    try:
        import nltk

        if not is_loaded:
            sys.modules["datasets"] = mock.Mock()
        with mock.patch.object(nltk, "download"):
            from if_verifiable.ifbench.instructions_registry import INSTRUCTION_DICT
    except ImportError:
        return {}
    finally:
        if not is_loaded:
            sys.modules.pop("datasets", None)
    return dict(INSTRUCTION_DICT)


def _published(name: str, given: dict[str, Any]) -> Constraint:
    """A constraint by IFBench's checker, which would draw at random what is missing."""
    checker = _ifbench()[name](name)
    checker.build_description(**given)
    if missing := set(checker.get_instruction_args_keys()) - given.keys():
        raise ValueError(f"{min(missing)}: is missing")

    def constraint(text: str) -> tuple[bool, str]:
        try:
            return bool(checker.check_following(text)), "by IFBench's checker"
        except LookupError as error:
            if type(error) is not LookupError:  # the checker's own fault
                raise
            fetch = "python -m nltk.downloader punkt_tab stopwords averaged_perceptron_tagger_eng"
            raise UnusableConstraintsError(f"{name}: needs NLTK's data; run {fetch}") from None

    return constraint


def _visible(text: str) -> str:
    visible = _INVISIBLE.sub("", text).replace("\r\n", "\n")
    return unicodedata.normalize("NFC", visible)


def _in_one_script(match: re.Match[str]) -> str:
    """A word, whose letters that look like Latin ones are these if it has others."""
    word = match[0]
    return word.translate(_LOOKALIKES) if re.search("[A-Za-z]", word) else word


def _words(text: str) -> list[str]:
    """Words; a vowel that is written as a mark, as in Hindi, is a part of one."""
    return re.findall(r"\w+", "".join(c for c in text if unicodedata.category(c)[0] != "M"))


def _sentences(text: str) -> list[str]:
    """Parts that end with a mark, except of "Dr.", of "1." in a list, and "Stop!" she said."""
    parts, start = [], 0
    for match in _END.finditer(text):
        before = text[max(start, match.start() - 20) : match.start()]
        after = text[match.end() : match.end() + 20].lstrip(" *_\"'“‘(")
        goes_on = after[:1].islower() and len(match[0]) > 1
        if match[0].rstrip("*_") == "." and after and _ABBREVIATION.search(before):
            goes_on = True
        has_words = _WORD.search(text, start, match.start())
        if has_words and not goes_on:
            parts.append(text[start : match.end()])
        if not has_words or not goes_on:
            start = match.end()
    return [*parts, text[start:]] if _WORD.search(text, start) else parts


def _divided(text: str) -> list[str]:
    """The parts between dividers; none if one in the middle is empty."""
    parts = [part.strip() for part in re.split(r"(?<!\S)\* ?\* ?\*(?!\S)", text)]
    return [part for part in parts if part] if all(parts[1:-1]) else []


def _nth_starts(text: str, nth: float, first_word: str) -> list[str]:
    """The paragraphs, if the nth starts with this word; else none."""
    paragraphs = [paragraph for paragraph in text.split("\n\n") if paragraph.strip()]
    words = "".join(paragraphs[int(nth) - 1 : int(nth)]).lower().split()
    word = re.split(r"[.,?!'\"]", words[0].lstrip("'\""))[0] if words else ""
    return paragraphs if word == first_word.lower() else []


def _bullets(text: str) -> list[str]:
    lines = re.findall(r"^[ \t]*[*-][ \t]+\S.*$", text, re.MULTILINE)
    return [line for line in lines if line.strip("*- \t")]  # the others are dividers


def _placeholders(text: str) -> list[str]:
    return [part for part in re.findall(r"\[([^\[\]\n]*)\]", text) if part.strip()]


def _titles(text: str) -> list[str]:
    lines = [line.partition("<<")[2].rpartition(">>")[0] for line in text.split("\n")]
    return [line for line in lines if line.strip("<> \t")]


def _times(text: str, part: str) -> int:
    return text.lower().count(part.lower())


def _missing(text: str, keywords: list[str]) -> list[str]:
    return [keyword for keyword in keywords if not _times(text, keyword)]


def _forbidden(text: str, words: list[str]) -> list[str]:
    patterns = {word: rf"(?<!\w){re.escape(word)}(?!\w)" for word in words}
    return [w for w, pattern in patterns.items() if re.search(pattern, text, re.IGNORECASE)]


def _postscripts(text: str, marker: str) -> list[str]:
    pattern = re.escape(marker).replace(r"\.", r"\.\s?")
    return re.findall(rf"{pattern}\s*\S", text, re.IGNORECASE)


def _sections(text: str, marker: str) -> list[str]:
    return re.findall(rf"{re.escape(marker)}\s?\d+", text)


def _capitals(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+(?:[-'’.&]\w+)*", text) if word.isupper()]


def _commas(text: str) -> list[str]:
    marks = [c for c in text if unicodedata.category(c) in ("Po", "Ps")]
    return [c for c in marks if c == "‚" or "COMMA" in unicodedata.name(c, "")]


def _options(text: str) -> list[str]:
    return [option for option in ("yes", "no", "maybe") if f"My answer is {option}." in text]


def _two_parts(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    return all(parts[1:-1]) and len({*parts} - {""}) == len([p for p in parts if p]) == 2


def _repeats(text: str, prompt: str) -> bool:
    before, repeated, answer = text.lower().partition(prompt.lower())
    return bool(repeated and not before.strip() and answer.strip())


def _ends(text: str, phrase: str) -> bool:
    return text.strip(' \n"“”').lower().endswith(phrase.lower())


def _is_json(text: str) -> bool:
    try:
        json.loads(re.sub(r"^```(?:json)?|```$", "", text.strip(), flags=re.IGNORECASE))
    except (ValueError, RecursionError):
        return False
    return True


def _in_language(text: str, language: str = "en") -> bool:
    try:
        return bool(langdetect.detect(text.lower()).split("-")[0] == language)
    except langdetect.LangDetectException:  # there are no letters
        return False


def _in_capitals(text: str) -> bool:
    return text.isupper() and _in_language(text)


def _in_lower_case(text: str) -> bool:
    return text.islower() and _in_language(text)


_highlights = re.compile(r"(?<!\*)\*{1,3}(?=[^\s*])[^\n*]*\*{1,3}").findall
_quotations = re.compile(r"\A\s*[\"“]\s*[^\s\"“”].*[\"”]\s*\Z", re.DOTALL).findall
_RELATIONS = {"less than": operator.lt, "at least": operator.ge, "exactly": operator.eq}
# Arguments, what is measured (a number, or a list of what is counted), its unit, and the relation
# and the number where no argument has them; else at least 1.
_KINDS: dict[str, tuple[Any, ...]] = {
    "keywords:existence": ("keywords", _missing, "missing keywords", "exactly", 0),
    "keywords:frequency": ("keyword frequency relation", _times, "times the keyword"),
    "keywords:forbidden_words": ("forbidden_words", _forbidden, "forbidden words", "exactly", 0),
    "keywords:letter_frequency": ("letter let_frequency let_relation", _times, "times the letter"),
    "language:response_language": ("language", _in_language, "in the language"),
    "length_constraints:number_sentences": ("num_sentences relation", _sentences, "sentences"),
    "length_constraints:number_paragraphs": ("num_paragraphs", _divided, "parts", "exactly", 0),
    "length_constraints:number_words": ("num_words relation", _words, "words"),
    "length_constraints:nth_paragraph_first_word": (
        "num_paragraphs nth_paragraph first_word", _nth_starts, "with the word", "exactly", 0
    ),
    "detectable_content:number_placeholders": ("num_placeholders", _placeholders, "placeholders"),
    "detectable_content:postscript": ("postscript_marker", _postscripts, "postscripts"),
    "detectable_format:number_bullet_lists": ("num_bullets", _bullets, "bullets", "exactly", 0),
    "detectable_format:constrained_response": ("", _options, "of the options", "exactly", 1),
    "detectable_format:number_highlighted_sections": ("num_highlights", _highlights, "highlights"),
    "detectable_format:multiple_sections": ("section_spliter num_sections", _sections, "sections"),
    "detectable_format:json_format": ("", _is_json, "JSON values"),
    "detectable_format:title": ("", _titles, "titles"),
    "combination:two_responses": ("", _two_parts, "pairs of responses"),
    "combination:repeat_prompt": ("prompt_to_repeat", _repeats, "repeated prompts with an answer"),
    "startend:end_checker": ("end_phrase", _ends, "such endings"),
    "startend:quotation": ("", _quotations, "quotations"),
    "change_case:capital_word_frequency": (
        "capital_frequency capital_relation", _capitals, "words in capitals"
    ),
    "change_case:english_capital": ("", _in_capitals, "in capitals and the language"),
    "change_case:english_lowercase": ("", _in_lower_case, "in lower case and the language"),
    "punctuation:no_comma": ("", _commas, "commas", "exactly", 0),
}  # fmt: skip
_ifbench()  # which takes seconds, before a child process is forked
