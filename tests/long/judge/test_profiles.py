"""Two architectures of profiles, with random weights: served by folder, each gives a verdict."""

import math
import os
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from reward_serve import HttpRewardClient
from reward_serve_judge.weights import prepare_bundled
from tests.fake_service import free_port
from tests.service.cli.test_serve import ROOT, until
from tests.unit.cli.test_main import invoke

JUDGE, CLASSIFIER = "Qwen3-0.6B", "Skywork-Reward-V2-Qwen3-0.6B"
ASKED = {"question": "9 + 9?", "response": "It is 18.", "reference": "18", "timeout_s": 120}


def tiny(folder: Path, architecture: str, **settings: Any) -> Path:
    """A Qwen3 of two layers with random weights and the bundled judge's vocabulary.

    Text is split, and a conversation shown, as Qwen3's own tokenizer does.
    """
    import torch
    import transformers
    from tokenizers import Regex, pre_tokenizers
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    tokenizer = transformers.AutoTokenizer.from_pretrained(prepare_bundled())
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    template = resources.files("trl") / "chat_templates" / "qwen3.jinja"
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=32768,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    getattr(transformers, architecture)(config).save_pretrained(folder)
    return folder


def section(folder: Path) -> tuple[dict[str, Any], str]:
    """The model's section of the file that `serve FOLDER` makes, and what it says."""
    fields = ["--set", "engine.cpu_kv_cache_gib=0.25", "--set", "resources.num_cpus=1"]
    result = invoke("serve", folder, "--dry-run", "--replicas", "1", *fields)
    (model_section,) = yaml.safe_load(result.stdout)["applications"][0]["args"]["models"]
    return model_section, result.stderr


@pytest.mark.timeout(480)
def test_both_architectures_give_a_verdict(tmp_path: Path) -> None:
    judge, notes = section(tiny(tmp_path / JUDGE, "Qwen3ForCausalLM"))
    assert notes.startswith(f"profile qwen3, by the name of Qwen/{JUDGE}; ")
    head = tiny(tmp_path / CLASSIFIER, "Qwen3ForSequenceClassification", num_labels=1)
    classifier, notes = section(head)
    assert notes.startswith(f"profile skywork-reward-v2, by the name of Skywork/{CLASSIFIER}; ")
    judge["judge"]["rules_first"] = False
    args = {"models": [judge, classifier]}
    application = {"name": "reward", "import_path": "reward_serve.app:build_app", "args": args}
    (file := tmp_path / "both.yaml").write_text(yaml.safe_dump({"applications": [application]}))
    url, log = f"http://127.0.0.1:{(port := free_port())}", tmp_path / "log"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "reward_serve", "serve", str(file), "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        ready = f"REWARD_SERVE_URL={url}"
        until(lambda: ready in log.read_text() or process.poll() is not None, 400, log.read_text)
        with HttpRewardClient(url, timeout_s=120) as client:
            verdict = client.score({**ASKED, "model": JUDGE})
            scored = client.score({**ASKED, "model": CLASSIFIER})
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert (verdict.status, verdict.source, verdict.template) == ("ok", "judge", "solution")
    assert verdict.score in (0.0, 1.0)
    assert set(verdict.probabilities or ()) == {"0", "1"}
    assert (scored.status, scored.source) == ("ok", "classifier")
    assert scored.score is not None and math.isfinite(scored.score)
