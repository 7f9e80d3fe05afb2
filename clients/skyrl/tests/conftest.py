"""skyrl 0.4.0 on Python 3.11, for its generator and configuration alone."""

import sys
import typing
from typing import Any

import pytest
import typing_extensions
from transformers import AutoTokenizer

from reward_serve_judge.weights import prepare_bundled

if sys.version_info < (3, 12):
    typing.TypedDict = typing_extensions.TypedDict  # type: ignore[misc]  # as pydantic asks


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(prepare_bundled(adapter=None))
