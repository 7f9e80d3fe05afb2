"""Answers in words: yes or no, choices, words, several words, and symbols whose case matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.texts import KINDS

_VERDICTS = (("yes", "no", "undetermined"), ("true", "false", "unknown"))
_VERDICTS_IN = {
    "es": ("sí", "no"), "de": ("ja", "nein"), "fr": ("oui", "non"), "pt": ("sim", "não"),
    "it": ("sì", "no"), "nl": ("ja", "nee"), "pl": ("tak", "nie"), "ru": ("да", "нет"),
    "sv": ("ja", "nej"), "tr": ("evet", "hayır"), "zh": ("是", "否"), "ja": ("はい", "いいえ"),
}  # fmt: skip
_LETTERS = "ABCDEFGHIJ"
_KINDRED = [*KINDS["spellings"], *KINDS["synonyms"], *KINDS["opposites"]]
_SPELLINGS = {
    word: other
    for pair in KINDS["spellings"]
    for word, other in (pair.split(), reversed(pair.split()))
}
_RELATED = {
    word: [other for other in line.split() if other != word]
    for line in (*KINDS["synonyms"], *KINDS["opposites"])
    for word in line.split()
}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def text_in(text: str, rng: Random, tex: bool) -> str:
    r"""A word or a phrase as it may stand in a response: in quotes, in bold, or in ``\text``."""
    chance = rng.random()
    if tex:
        return rf"\text{{{text}}}" if chance < 0.8 else text
    if chance < 0.10:
        return f'"{text}"'
    if chance < 0.14:
        return rng.choice(("'{}'", "“{}”", "`{}`", "*{}*")).format(text)
    return text


def cased(text: str, rng: Random) -> str:
    """The text, sometimes in another case."""
    return rng.choice((text, text, text.capitalize(), text.title(), text.lower(), text.upper()))


@dataclass(frozen=True, slots=True)
class Verdict(Answer):
    """Yes or no, true or false, or that it cannot be known."""

    kind: ClassVar[str] = "yes_no"
    pair: int
    place: int

    @classmethod
    def invented(cls, rng: Random) -> Verdict:
        """A random verdict, seldom the third."""
        return cls(rng.randrange(2), rng.choice((0, 0, 0, 1, 1, 1, 2)))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        words = _VERDICTS[self.pair]
        if self.pair == 0 and self.place < 2:
            words = (*_VERDICTS_IN.get(lang, words[:2]), "")
        word = words[self.place]
        if self.place < 2 and lang == "en" and not tex and rng.random() < 0.35:
            form = rng.choice(KINDS[f"{'positive' if not self.place else 'negative'}_verdicts"])
            return form.format(w=word, W=word.capitalize())
        return text_in(
            rng.choice((word, word.capitalize(), word.capitalize(), word.upper())), rng, tex
        )

    @override
    def reference(self, rng: Random) -> str:
        word = _VERDICTS[self.pair][self.place]
        return rng.choice((word, word.capitalize(), word.capitalize()))

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Verdict:
        return Verdict(self.pair, rng.choice((0, 0, 0, 1, 1, 1, 2)))


@dataclass(frozen=True, slots=True)
class Choice(Answer):
    """The letter of an option."""

    kind: ClassVar[str] = "choice"
    letter: str

    @classmethod
    def invented(cls, rng: Random) -> Choice:
        """A random option, mostly one of four."""
        return cls(rng.choice(_LETTERS[: rng.choice((4, 4, 4, 5, 5, 10))]))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        letter, chance = self.letter, rng.random()
        if tex:
            return rng.choice(
                ("{}", r"\text{{{}}}", r"\textbf{{({})}}", "({})", r"\mathrm{{{}}}")
            ).format(letter)
        if chance < 0.4:
            return letter
        if chance < 0.75:
            forms = (
                "({})",
                "{})",
                "option {}",
                "Option {}",
                "choice ({})",
                "{}.",
                "[{}]",
                "**{}**",
            )
            return rng.choice(forms).format(letter)
        if chance < 0.80:
            return letter.lower() if letter != "A" else "(a)"
        form = rng.choice(("{}) {}", "({}) {}", "{}: {}", "{}. {}", "{} ({})"))
        return form.format(letter, _option(rng))

    @override
    def reference(self, rng: Random) -> str:
        return rng.choice(("{}", "{}", "{}", "({})", "{})", r"\text{{({})}}")).format(self.letter)

    @override
    def plain(self, rng: Random) -> str:
        return rng.choice(("{}", "({})")).format(self.letter)

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Choice:
        return Choice(rng.choice(_LETTERS[: rng.choice((4, 4, 5, 10))]))


def _option(rng: Random) -> str:
    if rng.random() < 0.5:
        return str(rng.randint(2, 400))
    return rng.choice(KINDS["words"])


@dataclass(frozen=True, slots=True)
class Words(Answer):
    """A word or several, compared without case or a country's spelling; a synonym is another."""

    kind: ClassVar[str] = "words"
    text: str

    @classmethod
    def word(cls, rng: Random) -> Words:
        """One word, sometimes one that does not exist."""
        word = rng.choice(KINDS["words"])
        chance = rng.random()
        if chance < 0.2:
            return cls(word[::-1].lower())
        if chance < 0.4:
            return cls("".join(rng.choices("abcdefghilmnoprstuvw", k=rng.randint(3, 10))))
        return cls(word)

    @classmethod
    def kindred(cls, rng: Random) -> Words:
        """A word that has a synonym, an opposite, or another spelling."""
        return cls(rng.choice(rng.choice(_KINDRED).split()))

    @classmethod
    def several(cls, rng: Random) -> Words:
        """A phrase, a name or a sentence of two to eight words."""
        chance = rng.random()
        if chance < 0.3:
            return cls(f"{rng.choice(KINDS['adjectives'])} {rng.choice(KINDS['words'])}")
        if chance < 0.5:
            return cls(" ".join(rng.sample(KINDS["words"], rng.randint(2, 5))))
        if chance < 0.7:
            first, second = rng.sample(KINDS["names"], 2)
            role, other = rng.choice(KINDS["roles"]), rng.choice(KINDS["roles"])
            return cls(f"{first} is {role}, and {second} is {other}")
        form = rng.choice(KINDS["sentences"])
        name, word, other = rng.choice(KINDS["names"]), *rng.sample(KINDS["words"], 2)
        return cls(form.format(p=name, w=word, o=other, a=rng.choice(KINDS["adjectives"])))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        text, single = self.text, " " not in self.text
        if (spelling := _SPELLINGS.get(text)) and rng.random() < 0.6:
            text = spelling
        elif single and not tex and text in _RELATED and rng.random() < 0.12:
            other = rng.choice(_RELATED[text])
            return rng.choice(KINDS["contrasts"]).format(s=text, o=other)
        if rng.random() < 0.45:
            text = cased(text, rng) if single or rng.random() < 0.3 else text[0].upper() + text[1:]
        if single and not tex and rng.random() < 0.05:
            text = f"the {text}"
        return text_in(text + ("." if not single and rng.random() < 0.2 else ""), rng, tex)

    @override
    def reference(self, rng: Random) -> str:
        return self.text if rng.random() < 0.8 else self.text[0].upper() + self.text[1:]

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Words | None:
        words, chance = self.text.split(), rng.random()
        if self.text in _RELATED and chance < 0.6:
            return Words(rng.choice(_RELATED[self.text]))
        if self.text in _SPELLINGS:
            return Words(rng.choice(KINDS["words"]))
        if len(words) == 1 and chance > 0.9:
            return Words(f"not {self.text}")
        if len(words) == 1:
            fresh = chance < 0.5
            text = rng.choice(KINDS["words"]) if fresh else misspelt(self.text, rng)
        else:
            text = " ".join(_MISSES[rng.randrange(len(_MISSES))](words, rng))
        spellings = {self.text.casefold(), _SPELLINGS.get(self.text, "").casefold()}
        return Words(text) if text.casefold() not in spellings else None


def misspelt(text: str, rng: Random) -> str:
    """The text with a letter dropped, doubled, replaced, or swapped with the next."""
    at, edit = rng.randrange(len(text)), rng.randrange(4)
    if edit == 0:
        return text[:at] + text[at + 1 :] or text
    if edit == 1:
        return text[: at + 1] + text[at:]
    if edit == 2:
        return text[:at] + rng.choice("abcdeinorstu") + text[at + 1 :]
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def _replaced(words: Sequence[str], rng: Random) -> list[str]:
    at = rng.randrange(len(words))
    tail = words[at][len(words[at].rstrip(",.")) :]
    return [*words[:at], rng.choice(KINDS["words"]) + tail, *words[at + 1 :]]


def _swapped(words: Sequence[str], rng: Random) -> list[str]:
    first, other = sorted(rng.sample(range(len(words)), 2))
    new = list(words)
    new[first], new[other] = new[other], new[first]
    return new


def _dropped(words: Sequence[str], rng: Random) -> list[str]:
    at = rng.randrange(len(words))
    return [*words[:at], *words[at + 1 :]]


def _respelt(words: Sequence[str], rng: Random) -> list[str]:
    at = rng.randrange(len(words))
    return [*words[:at], misspelt(words[at], rng), *words[at + 1 :]]


_MISSES: tuple[Callable[[Sequence[str], Random], list[str]], ...] = (
    _replaced,
    _replaced,
    _swapped,
    _dropped,
    _respelt,
)


@dataclass(frozen=True, slots=True)
class Symbol(Answer):
    """A name whose case, primes and indices matter: ``CO``, ``f'``, ``x_1``, ``maxDepth``."""

    kind: ClassVar[str] = "symbol"
    text: str

    @classmethod
    def invented(cls, rng: Random) -> Symbol:
        """A chemical formula, a variable or a string of letters."""
        chance = rng.random()
        if chance < 0.5:
            return cls(rng.choice(KINDS["symbols"]))
        if chance < 0.75:
            index = rng.choice(("", "", f"_{rng.randint(0, 9)}", "'", "''"))
            options = "" if not index else "abcdefghABCDEFGH"  # alone, they are choices
            return cls(rng.choice(options + "kmnpqrstuvwxyzKLMNPQRSTVWXYZ") + index)
        return cls("".join(rng.choices("abcdxyABCDXY01", k=rng.randint(2, 9))))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        text = self.text
        if tex:
            return rf"\mathrm{{{text}}}" if rng.random() < 0.4 and "_" not in text else text
        if (
            text.isalnum()
            and text.upper() != text.lower()
            and text[0].isalpha()
            and rng.random() < 0.1
        ):
            return text.translate(_SUBSCRIPTS) if text[-1].isdigit() else text
        return text_in(text, rng, tex)

    @override
    def reference(self, rng: Random) -> str:
        return self.text

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Symbol | None:
        text, chance = self.text, rng.random()
        if chance < 0.45:
            at = rng.randrange(len(text))
            new = text[:at] + text[at].swapcase() + text[at + 1 :]
        elif chance < 0.6:
            new = text.rstrip("'") if text.endswith("'") else f"{text}'"
        elif chance < 0.75:
            new = text.swapcase()
        else:
            new = misspelt(text, rng) if len(text) > 1 else f"{text}{rng.randint(1, 9)}"
        return Symbol(new) if any(map(str.isalpha, new)) else None
