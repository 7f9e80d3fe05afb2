"""Thinking through a real vLLM, on a Qwen3 whose weights say which token follows which."""

from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reward_serve.config.models import JudgeModel
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import Options, ScoreRequest

pytestmark = [pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

END, THINK, THOUGHT, BLANK = "<|im_end|>", "<think>", "</think>", "\n\n"
WRONG, RIGHT = "VERDICT: 0", "VERDICT: 1"
TOKENS = [END, "<|im_start|>", THINK, THOUGHT, BLANK, WRONG, RIGHT]
FOLLOWS = {"\n": THINK, THINK: WRONG, WRONG: WRONG, THOUGHT: RIGHT, BLANK: RIGHT}
"""Without a limit it thinks that the answer is wrong forever; after thinking it says right."""


def tiny_qwen3(folder: Path) -> Path:
    """A Qwen3 of two layers that do nothing, so that the output depends on the last token alone."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AddedToken, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens([AddedToken(token, normalized=False, special=False) for token in TOKENS])
    backend.add_special_tokens([AddedToken(token, special=True) for token in TOKENS[:2]])
    template = resources.files("trl") / "chat_templates" / "qwen3.jinja"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, chat_template=template.read_text(encoding="utf-8")
    )
    tokenizer.save_pretrained(folder)
    width = 320  # a place for each token
    config = Qwen3Config(
        vocab_size=width,
        hidden_size=width,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config)
    end = tokenizer.eos_token_id
    (newline,) = tokenizer.encode("\n", add_special_tokens=False)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in TOKENS} | {"\n": newline}
    follows = {ids[token]: ids[after] for token, after in FOLLOWS.items()}
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(width))
        model.lm_head.weight.zero_()
        for token in range(width):
            model.lm_head.weight[follows.get(token, end), token] = 1.0
    model.save_pretrained(folder)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    from reward_serve.engines.vllm import VllmEngine

    config = JudgeModel.model_validate(
        {
            "name": "judge",
            "kind": "judge",
            "engine": {
                "model": str(tiny_qwen3(tmp_path_factory.mktemp("qwen3"))),
                "device": "cpu",
                "dtype": "float32",
                "max_model_len": 4096,
                "cpu_kv_cache_gib": 0.25,
                "engine_kwargs": {"reasoning_parser": "qwen3"},
            },
            "judge": {
                "template": "detailed",
                "mode": "generate",
                "rules_first": False,
                "enable_thinking": True,
                "thinking_tokens": 8,
                "max_tokens": 32,
            },
        }
    )
    engine = await VllmEngine.start(config.engine, num_cpus=1, num_gpus=0)
    yield Judge(config, engine)
    engine.close()


async def score(judge: Judge, **options: Any) -> Any:
    request = {"response": "It is 18.", "reference": "18", "timeout_s": 120}
    return await judge.score(
        ScoreRequest.model_validate({**request, "options": Options(**options)})
    )


async def test_the_engine_ends_thinking_and_only_the_verdict_after_it_counts(judge: Judge) -> None:
    result = await score(judge)

    assert (result.status, result.score) == ("ok", 1.0)
    assert result.text.count(WRONG) >= 4
    assert result.text.rstrip().endswith(f"{THOUGHT}{RIGHT}")
    assert 8 <= result.usage.completion_tokens <= 16


async def test_thinking_that_fills_the_answer_is_truncated_and_no_number(judge: Judge) -> None:
    result = await score(judge, max_tokens=6)

    assert WRONG in result.text
    assert (result.status, result.score) == ("truncated", None)
