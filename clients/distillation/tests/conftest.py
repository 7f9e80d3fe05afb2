from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import ray
import torch
from ray import serve
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from deployments.local import free_port
from reward_serve.app import build_app
from reward_serve_judge.weights import prepare_bundled

Sequence = tuple[list[int], list[int]]
Logprobs = Callable[[list[int]], torch.Tensor]
Expected = Callable[[list[int], list[int]], object]

MAX_LEN = 512
MODELS = [
    {
        "name": "teacher",
        "kind": "teacher",
        "engine": {"adapter": "none", "cpu_kv_cache_gib": 0.3, "max_model_len": MAX_LEN},
        "resources": {"num_cpus": 2},
        "max_concurrent_items": 8,
        "max_queued_items": 16,
    },
    {"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}},
]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The URL of a service with the bundled model as teacher."""
    prepare_bundled(adapter=None)
    port = free_port()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    args = {"models": MODELS, "server": {"compatible_with": ["openai", "sglang"]}}
    serve.run(build_app(args), name="teacher", route_prefix="/teacher")
    yield f"http://127.0.0.1:{port}/teacher"
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(prepare_bundled(adapter=None))


@pytest.fixture(scope="session")
def sequences(tokenizer: PreTrainedTokenizerBase) -> list[Sequence]:
    """Prompts and responses, as token ids."""
    questions = [f"Tom has {n} pens and buys {n + 2}. How many has he?" for n in range(2, 17)]
    answers = [f" {n} + {n + 2} = {2 * n + 2}." + " That is all." * (n % 4) for n in range(2, 17)]
    ids = [tokenizer(text)["input_ids"] for text in (*questions, *answers)]
    return list(zip(ids[:15], ids[15:], strict=True))


@pytest.fixture(scope="session")
def logprobs() -> Logprobs:
    """Transformers' own log-probabilities: (tokens - 1, vocabulary), from the second token on."""
    folder = prepare_bundled(adapter=None)
    torch.set_num_threads(1)  # the engine has the cores
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def of(ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)

    return of


@pytest.fixture(scope="session")
def expected(logprobs: Logprobs) -> Expected:
    """What equals a response's log-probabilities after a prompt, nearly."""

    def of(prompt: list[int], response: list[int]) -> object:
        table = logprobs(prompt + response)[-len(response) :]
        numbers = table.gather(1, torch.tensor(response)[:, None])[:, 0]
        return pytest.approx(numbers.tolist(), abs=1e-3)

    return of
