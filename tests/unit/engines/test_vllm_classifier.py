from __future__ import annotations

import json
from pathlib import Path

import pytest

from reward_serve.engines.checkpoint import CheckpointError
from reward_serve.engines.vllm import check_classifier


@pytest.mark.parametrize("architecture", ["LlamaForSequenceClassification"])
def test_a_classifier_is_served(tmp_path: Path, architecture: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    check_classifier(str(tmp_path))


def test_a_language_model_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    with pytest.raises(CheckpointError, match=r"is LlamaForCausalLM, not .* kind: judge"):
        check_classifier(str(tmp_path))


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_a_broken_folder_is_for_the_check_of_the_whole(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    check_classifier(str(tmp_path))
