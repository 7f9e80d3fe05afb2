"""A rollout worker: samples from the policy's endpoint, then steps SkyRL's environments.

It is stateless, so calls of a worker that died can be retried on a new one.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import skyrl_gym
import tinker
from ray import serve
from transformers import AutoTokenizer

from examples.grpo.data_server import Item
from examples.grpo.endpoint import API_KEY, EndpointError
from examples.grpo.problems import prompt_tokens
from examples.grpo.record import say
from examples.grpo.samples import Group, Sample, accepted, number
from examples.grpo.servers import APP, Asked
from reward_serve_judge.weights import prepare_bundled
from reward_serve_skyrl import register_envs

ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rule": ("gsm8k", {}),  # SkyRL's own
    # A failed verdict is a marked 0.0, which _verdict turns into None.
    "judge": ("gsm8k_judge", {"app": "reward", "on_failure": 0.0, "timeout_s": 180.0}),
}
_ENV_THREADS = 64
_SAMPLE_TIMEOUT_S = 600.0


class RolloutWorker:
    """Samples at a Tinker endpoint or at policy servers, and has the samples judged.

    ``model`` names the tokenizer, ``reward`` an environment; ``judge`` overrides its settings, and
    the service's verdict log has the name of the ``run``. With ``servers``, those sample.
    """

    def __init__(
        self,
        url: str,
        model: str | None,
        reward: str,
        judge: dict[str, Any] | None = None,
        run: str = "grpo",
        servers: bool = False,
    ) -> None:
        register_envs()
        self._run = run
        self._url = url
        self._service = tinker.ServiceClient(base_url=url, api_key=API_KEY)
        self._tokenizer = AutoTokenizer.from_pretrained(model or prepare_bundled(adapter=None))
        self._environment, config = ENVIRONMENTS[reward]
        self._config = {**config, **(judge or {})}
        self._threads = ThreadPoolExecutor(_ENV_THREADS)
        self._servers = serve.get_app_handle(APP) if servers else None

    def __repr__(self) -> str:
        return "rollout-worker"

    def sample(
        self,
        items: list[Item],
        weights: str,
        version: int,
        seeds: list[int],
        group: int,
        max_tokens: int,
    ) -> list[Group]:
        """Sample a group for each item, in order, without judging.

        A group's samples use its item's seed and the following ones.

        Raises:
            EndpointError: the endpoint, or every policy server, did not answer in time.
        """
        client = self._servers or self._service.create_sampling_client(model_path=weights)
        groups, pending = [], []
        for (index, problem), seed in zip(items, seeds, strict=True):
            form = "number" if number(accepted(problem.answer)[0]) is not None else "answer"
            prompt = prompt_tokens(self._tokenizer, problem.question, form)
            groups.append(Group(index, problem.question, problem.answer, prompt, version))
            if self._servers:
                end = self._tokenizer.eos_token_id
                request = (weights, prompt, group, seed, max_tokens, end)
                pending.append(Asked(self._servers, index, *request))
                continue
            parameters = tinker.SamplingParams(
                max_tokens=max_tokens,
                temperature=1.0,
                seed=seed,
                stop=[self._tokenizer.eos_token_id],
            )
            # Send all first: the engine puts waiting prompts into one padded batch.
            pending.append(client.sample(tinker.ModelInput.from_ints(prompt), group, parameters))
        for made, future, seed in zip(groups, pending, seeds, strict=True):
            try:
                answer = future.result(timeout=_SAMPLE_TIMEOUT_S)
            except (tinker.APIConnectionError, TimeoutError) as error:
                raise EndpointError(f"{self._url}: {type(error).__name__}: {error}") from None
            if self._servers:
                made.server, sequences = answer
            else:
                sequences = [(list(s.tokens), list(s.logprobs)) for s in answer.sequences]
            made.samples = [
                Sample(tokens, logprobs, self._text(tokens), seed + place)
                for place, (tokens, logprobs) in enumerate(sequences)
            ]
        servers = Counter(group.server or self._url for group in groups)
        say(f"weights {version}: sampled {len(groups)} groups at {dict(servers)}")
        return groups

    def judge(self, groups: list[Group], step: int) -> list[Group]:
        """The groups, with each sample's verdict set."""
        samples = [
            (group, sample, {"run": self._run, "step": step, "sample": f"{group.problem}-{place}"})
            for group in groups
            for place, sample in enumerate(group.samples)
        ]
        for _ in self._threads.map(self._step, *zip(*samples, strict=True)):
            pass
        say(f"step {step + 1}: {len(samples)} samples rewarded")
        return groups

    def _step(self, group: Group, sample: Sample, keys: dict[str, Any]) -> None:
        truths = accepted(group.answer)
        truth = truths if len(truths) > 1 else truths[0]
        row = {
            "reward_spec": {"method": "rule", "ground_truth": truth},
            "extra_info": {"question": group.question, "split": "train", "index": group.problem},
            "judge_metadata": keys,
        }
        env = skyrl_gym.make(self._environment, env_config=self._config, extras=row)
        score = float(env.step(sample.text)["reward"])
        sample.metrics = env.get_metrics()
        sample.verdict = sample.reward = _verdict(score, sample.metrics)

    def _text(self, tokens: Any) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text


def _verdict(score: float, metrics: dict[str, float]) -> float | None:
    failed = metrics.get("judge_fallback") or metrics.get("judge_undecided")
    return None if failed else score
