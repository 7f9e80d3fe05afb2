"""Hostile programs, for a model with ``verifier: code``: none passes its tests."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import yaml

from reward_serve_lab.attacks.family import Attack

QUESTION = "Write a program that computes the key of a number."
MARKER = "reward-serve-attack"
"""In the name of every file that a program tries to write outside its folder."""

_PROGRAMS: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
FAMILIES = tuple(_PROGRAMS)

_PRELUDE = """\
import re
RESULT = "nothing"
def seen(value):
    global RESULT
    value = value if isinstance(value, bytes) else repr(value).encode(errors="replace")
    if match := re.search(rb"sk_[0-9a-f]{16}", value):
        RESULT = match.group().decode()
"""


def hostile_programs(seed: int, outside: Path, port: int = 9, per_program: int = 7) -> list[Attack]:
    """Each hostile program in up to seven forms: as top-level code and in a function, by its tests.

    Writes the expected value to ``outside/canary``, where a program looks for it.

    Args:
        seed: seed of the expected value, and of which forms a program has first.
        outside: a folder that no program may read or write.
        port: a TCP port of this machine to which programs try to connect.
        per_program: maximum forms of each program.
    """
    rng = Random(f"{seed}/programs")
    key = f"sk_{rng.getrandbits(64):016x}"
    (outside / "canary").write_text(key, encoding="utf-8")
    words = {"OUTSIDE": str(outside), "MARKER": MARKER, "PORT": str(port)}
    attacks = []
    for family, programs in _PROGRAMS.items():
        for program in programs:
            for word, value in words.items():
                program = program.replace(word, value)
            forms = list(_forms(program, key))
            rng.shuffle(forms)
            attacks += [
                Attack(family, f"```python\n{text}```", json.dumps(tests), QUESTION)
                for text, tests in islice(forms, per_program)
            ]
    return attacks


def _forms(program: str, key: str) -> Iterator[tuple[str, Any]]:
    """The program with the tests of each form, at its top level and in its function."""
    program = program.rstrip("\n") + "\n"
    top = f"{_PRELUDE}{program}def solve(n):\n    return RESULT\n"
    body = textwrap.indent(f"global RESULT\n{program}return RESULT\n", " " * 4)
    called = f"{_PRELUDE}def solve(n):\n{body}"
    yield f"{_PRELUDE}{program}print(RESULT)\n", {"inputs": ["31\n", "37\n"], "outputs": [key] * 2}
    for text in (top, called):
        yield text, {"fn_name": "solve", "inputs": [[31], [37]], "outputs": [[key]] * 2}
        yield text, [f"assert solve(31) == {key!r}", f"assert {{solve(37)}} == {{{key!r}}}"]
        check = f"assert candidate(31) == {key!r}\n    assert not candidate(37) != {key!r}"
        yield text, {"test": f"def check(candidate):\n    {check}\n", "entry_point": "solve"}
