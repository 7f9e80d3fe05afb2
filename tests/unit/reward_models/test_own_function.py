from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from reward_serve.config.base import ConfigError
from reward_serve.reward_models.rule import FunctionVerifier
from reward_serve.schema import ScoreRequest
from reward_serve_answers.grade import VerifierError

MODULE = "tests.own_functions"


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ("raise", "KeyError: 'points'"),
        ("exit", "SystemExit: no points"),
        ("next", "RuntimeError: StopIteration"),
        ("nan", r"returned nan \(float\); return a finite number"),
        ("inf", r"returned inf \(float\)"),
        ("text", r"returned '1' \(str\)"),
    ],
)
async def test_an_invalid_score_is_an_error_and_never_zero(response: str, said: str) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(VerifierError, match=f"rule.function {MODULE}:scripted: {said}"):
            await FunctionVerifier(f"{MODULE}:scripted").verify(ScoreRequest(response=response), "")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.module:f", "ModuleNotFoundError.*PYTHONPATH"),
        ("tests.own_functions.py:half", "ModuleNotFoundError.*without .py"),
        (f"{MODULE}:no_such", "AttributeError.*; correct the module, or write"),
        (f"{MODULE}:LEVEL", "is not a callable object.*; change "),
        (f"{MODULE}:two", "too many positional arguments; change "),
    ],
)
def test_a_faulty_path_is_reported_with_its_field_and_remedy(path: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"rule.function: '{path}'.*{said}"):
        FunctionVerifier(path)


def test_changed_code_is_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    fingerprints = set()
    for version, value in enumerate((1.0, 0.25)):
        name = f"own_rewards_{version}"
        code = f"def f(response, reference, request):\n    return {value}\n"
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        fingerprints.add(FunctionVerifier(f"{name}:f").fingerprint.partition(";source=")[2])
        del sys.modules[name]
    assert len(fingerprints) == 2
