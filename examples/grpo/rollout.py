"""A rollout worker: samples from the policy's endpoint, then steps SkyRL's environments.

It is stateless, so calls of a worker that died can be retried on a new one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import skyrl_gym
import tinker
from transformers import AutoTokenizer

from examples.grpo.data_server import Item
from examples.grpo.endpoint import API_KEY, EndpointError
from examples.grpo.problems import prompt_tokens
from examples.grpo.samples import Group, Sample, accepted, number
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
    """Samples at a Tinker endpoint, and has the samples judged.

    ``model`` names the tokenizer, ``reward`` an environment; ``judge`` overrides its settings, and
    the service's verdict log has the name of the ``run``.
    """

    def __init__(
        self,
        url: str,
        model: str | None,
        reward: str,
        judge: dict[str, Any] | None = None,
        run: str = "grpo",
    ) -> None:
        register_envs()
        self._run = run
        self._url = url
        self._service = tinker.ServiceClient(base_url=url, api_key=API_KEY)
        self._tokenizer = AutoTokenizer.from_pretrained(model or prepare_bundled(adapter=None))
        self._environment, config = ENVIRONMENTS[reward]
        self._config = {**config, **(judge or {})}
        self._threads = ThreadPoolExecutor(_ENV_THREADS)

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
            EndpointError: the endpoint did not answer in time.
        """
        client = self._service.create_sampling_client(model_path=weights)
        groups, pending = [], []
        for (index, problem), seed in zip(items, seeds, strict=True):
            form = "number" if number(accepted(problem.answer)[0]) is not None else "answer"
            prompt = prompt_tokens(self._tokenizer, problem.question, form)
            groups.append(Group(index, problem.question, problem.answer, prompt, version))
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
                sequences = future.result(timeout=_SAMPLE_TIMEOUT_S).sequences
            except (tinker.APIConnectionError, TimeoutError) as error:
                raise EndpointError(f"{self._url}: {type(error).__name__}: {error}") from None
            made.samples = [
                Sample(list(s.tokens), list(s.logprobs), self._text(s.tokens), seed + place)
                for place, s in enumerate(sequences)
            ]
        return groups

    def judge(self, groups: list[Group], step: int) -> list[Group]:
        """The groups, with each sample's verdict set."""
        each = [
            (group, sample, {"run": self._run, "step": step, "sample": f"{group.problem}-{place}"})
            for group in groups
            for place, sample in enumerate(group.samples)
        ]
        for _ in self._threads.map(self._step, *zip(*each, strict=True)):
            pass
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
