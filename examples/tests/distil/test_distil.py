from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from examples.distil import __main__ as distil
from examples.distil.student import Student, sampled_loss, top_k_loss
from reward_serve.logprobs import LogprobsResult
from reward_serve_judge.weights import prepare_bundled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of bytes."""
    folder: Path = tmp_path_factory.mktemp("model")
    alphabet = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<end>", pad_token="<end>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(alphabet), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, initializer_range=0.3, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


class FakeTeacher:
    """The model in ``folder`` in this process, asked as a client of reward_serve is."""

    def __init__(self, folder: Path, absent: tuple[int, ...] = ()) -> None:
        self._model = LlamaForCausalLM.from_pretrained(folder)
        self._absent = absent

    @torch.no_grad()
    def logprobs(self, requests: list[dict[str, Any]]) -> list[LogprobsResult]:
        return [self._result(place, **request) for place, request in enumerate(requests)]

    def _result(self, place: int, token_ids: list[int], start: int, top_k: int) -> LogprobsResult:
        if place in self._absent:
            return LogprobsResult(status="timeout", reason="the engine was too slow")
        logits = self._model(torch.tensor([token_ids])).logits[0, start - 1 : -1]
        logprobs = logits.log_softmax(-1)
        likeliest = logprobs.topk(top_k)
        return LogprobsResult(
            status="ok",
            logprobs=logprobs.gather(-1, torch.tensor(token_ids[start:])[:, None])[:, 0].numpy(),
            top_k=top_k,
            top_ids=likeliest.indices.numpy() if top_k else None,
            top_logprobs=likeliest.values.numpy() if top_k else None,
        )


@pytest.mark.parametrize("top_k", [0, 8])
def test_the_student_comes_closer_to_the_teacher(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top_k: int
) -> None:
    settings = distil.Settings(
        top_k=top_k, steps=40, prompts=8, max_tokens=8, learning_rate=3e-3, evaluate_every=40
    )
    monkeypatch.setattr(distil, "EXAMPLES", ".")
    student = Student(folder, settings.learning_rate)
    for name, weight in student._model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2)

    *_, run = distil.train(settings, student, FakeTeacher(folder, absent=(3,)))

    before, after = run["evaluations"]
    assert after["reverse_kl"] + after["margin"] < 0.8 * (before["reverse_kl"] - before["margin"])
    assert run["absent"] == {"timeout": 40}
    assert 0 < run["teacher_share"] < 1
    (tmp_path / "run.json").write_text(json.dumps(run))
    distil.plot(tmp_path)
    assert (tmp_path / "distance.png").stat().st_size > 1000


@pytest.mark.parametrize("top_k", [0, 4])
def test_an_absent_response_leaves_no_trace_in_the_weights(folder: Path, top_k: int) -> None:
    prompts, responses = [[5, 6], [7], [8, 9, 10]], [[20, 21], [30, 31, 32], [40]]
    requests = [
        {"token_ids": p + r, "start": len(p), "top_k": top_k}
        for p, r in zip(prompts, responses, strict=True)
    ]
    partly, without = Student(folder, 1e-3), Student(folder, 1e-3)

    reward = partly.learn(prompts, responses, FakeTeacher(folder, (1,)).logprobs(requests))

    kept = FakeTeacher(folder).logprobs(requests[::2])
    assert without.learn(prompts[::2], responses[::2], kept) == pytest.approx(reward)
    torch.testing.assert_close(
        partly.logprobs(prompts, responses), without.logprobs(prompts, responses)
    )
    assert not torch.equal(
        partly.logprobs(prompts, responses), Student(folder, 1e-3).logprobs(prompts, responses)
    )


def test_a_run_ends_where_the_teacher_scores_nothing(folder: Path) -> None:
    teacher = FakeTeacher(folder, absent=tuple(range(16)))
    with pytest.raises(SystemExit, match="no response: the engine was too slow"):
        list(distil.train(distil.Settings(max_tokens=2), Student(folder, 1e-3), teacher))


def test_the_distance_is_that_of_teacher_and_student(folder: Path) -> None:
    """With examples before the teacher's prompts, beside a plain computation for each response."""
    student, model = Student(folder, 1e-3), LlamaForCausalLM.from_pretrained(folder)
    examples, prompts, responses = [3, 4, 5], [[6], [7, 8]], [[9, 10, 11], [12]]

    distances = student.reverse_kl(examples, prompts, responses)

    for prompt, response, distance in zip(prompts, responses, distances, strict=True):
        with torch.no_grad():
            own, teachers = (
                model(torch.tensor([[*before, *prompt, *response]]))
                .logits[0, len(before) + len(prompt) - 1 : -1]
                .log_softmax(-1)
                for before in ([], examples)
            )
        assert distance == pytest.approx(float((own.exp() * (own - teachers)).sum()), rel=1e-3)


def test_both_losses_have_the_gradient_of_the_reverse_kl() -> None:
    torch.manual_seed(0)
    logits, teacher = torch.randn(6, requires_grad=True), torch.randn(6).log_softmax(-1)
    student = logits.log_softmax(-1)
    exact = torch.autograd.grad((student.exp() * (student - teacher)).sum(), logits)[0]

    student = logits.log_softmax(-1)
    rewards = (teacher - student).detach()
    sampled = sum(
        student[token].detach().exp()
        * torch.autograd.grad(sampled_loss(student[[token]], rewards[[token]]), logits,
                              retain_graph=True)[0]
        for token in range(6)
    )  # fmt: skip
    likeliest = teacher.topk(5)  # and one outcome for the sixth
    whole = top_k_loss(student[likeliest.indices][None], likeliest.values[None])

    torch.testing.assert_close(sampled, exact)
    torch.testing.assert_close(torch.autograd.grad(whole, logits)[0], exact)


def test_the_served_teacher_is_the_students_own_model() -> None:
    student = Student(prepare_bundled(adapter=None), 1e-3)
    examples = student.tokenizer.encode(distil.EXAMPLES)
    prompt = student.tokenizer.encode(distil.PROMPT.format(question="What is 3 + 4?"))
    response = student.tokenizer.encode(" 3 + 4 = 7. The answer is 7.\n")
    request = {"token_ids": [*examples, *prompt, *response], "start": len(examples) + len(prompt)}

    with distil.served(60.0) as teacher:
        (result,) = teacher.logprobs([request])

    with torch.no_grad():
        cache = DynamicCache(config=student._base.config)
        student._base.model(torch.tensor([examples]), past_key_values=cache)
        whole = student.logprobs([prompt], [response], cache)[0]
    local = whole.gather(-1, torch.tensor(response)[:, None])[:, 0]
    torch.testing.assert_close(torch.from_numpy(result.logprobs), local, atol=1e-3, rtol=0)
