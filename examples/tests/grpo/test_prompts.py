"""The prompt and the limit of the policies that the example's files name, as Qwen3 reads them."""

from __future__ import annotations

import shlex
from importlib import resources
from itertools import pairwise
from string import Template
from typing import Any

import pytest
import yaml

from deployments.local import ROOT
from examples.grpo.__main__ import changed
from examples.grpo.prompts import prompt_tokens
from examples.grpo.settings import RUNS, Settings

FOLDER = ROOT / "examples" / "grpo"


@pytest.fixture(scope="module")
def qwen3() -> Any:
    """Qwen3's chat template on a tokenizer of bytes; the model itself is on a hub."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    template = resources.files("trl") / "chat_templates" / "qwen3.jinja"
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, chat_template=template.read_text(encoding="utf-8")
    )


def settings_of(command: str) -> Settings:
    """The settings of a command line: its first word is the run."""
    run, *words = shlex.split(command)
    pairs = [value for flag, value in pairwise(words) if flag == "--set"]
    return changed(RUNS[run], pairs)


def commands() -> list[str]:
    """What follows ``python -m examples.grpo`` where a model is named."""
    tasks = list(yaml.safe_load_all((FOLDER / "skypilot.yaml").read_text(encoding="utf-8")))
    trainer = next(task for task in tasks if task["name"] == "trainer")
    whole = Template(trainer["run"]).safe_substitute(trainer["envs"])
    texts = [whole, (FOLDER / "README.md").read_text(encoding="utf-8")]
    lines = "\n".join(texts).replace("\\\n", " ").splitlines()
    asked = [line.partition("-m examples.grpo ")[2] for line in lines if " --model " in line]
    return [command.partition("`")[0] for command in asked if command]


def test_qwen3_is_asked_not_to_think(qwen3: Any) -> None:
    text = qwen3.decode(prompt_tokens(qwen3, "What is 9 + 9?"))
    assert text == (
        "<|im_start|>system\nEnd with #### <number>.<|im_end|>\n"
        "<|im_start|>user\nWhat is 9 + 9?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_a_policy_that_is_not_warmed_up_has_room_for_its_solution() -> None:
    found = commands()
    assert len(found) == 2
    assert [settings_of(command).max_tokens >= 512 for command in found] == [True] * 2
    assert settings_of(found[0]).prompts == 16
    assert '--data "" --epochs "2"' in found[0]
