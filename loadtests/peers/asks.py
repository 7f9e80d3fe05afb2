"""What each peer runs in its own environment: ``python -m loadtests.peers.asks verifiers``.

A line of standard input is a JSON list of rows; the answer is a JSON line for each row as its
reward comes, and then ``{"done": true}``. Each function makes what answers a line with that peer's
released code in its best documented setting, which ``docs/comparison.md`` names.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Row = dict[str, Any]
Step = Callable[[list[Row]], Awaitable[object]]
URL, MODEL = os.environ.get("PEER_URL", ""), os.environ.get("PEER_MODEL", "")
MAX_TOKENS = int(os.environ.get("PEER_MAX_TOKENS", "512"))
CALL_S = float(os.environ.get("PEER_CALL_S", "20"))
"""Seconds that a call may take, where a peer documents a limit."""
PLAIN = """Question: {question}
Reference answer: {reference}
Response: {response}
Is the response's final answer the reference answer? End with VERDICT: 1 or VERDICT: 0."""
_out = os.fdopen(os.dup(1), "w", buffering=1)


def emit(**line: Any) -> None:
    """Write one line."""
    _out.write(json.dumps(line) + "\n")


def each(score: Callable[[Row], Awaitable[float | None]]) -> Step:
    """Ask for all rows at once; an exception is an absent reward."""

    async def one(row: Row) -> None:
        try:
            emit(row=row["row"], score=await score(row))
        except Exception as error:
            emit(row=row["row"], score=None, reason=f"{type(error).__name__}: {error}"[:200])

    return lambda rows: asyncio.gather(*map(one, rows))


def verdicts() -> Callable[[Row], Awaitable[float | None]]:
    """The ``openai`` package with its documented ``timeout`` and ``max_retries``, or None."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=URL, api_key="none", timeout=CALL_S, max_retries=5)

    async def verdict(row: Row) -> float | None:
        messages: Any = [{"role": "user", "content": PLAIN.format(**row)}]
        reply = await client.chat.completions.create(
            model=MODEL, messages=messages, temperature=0, max_tokens=MAX_TOKENS
        )
        found = re.findall(r"VERDICT: ([01])", reply.choices[0].message.content or "")
        return float(found[-1]) if found else None

    return verdict


def plain() -> Step:
    """64 calls in flight."""
    verdict, places = verdicts(), asyncio.Semaphore(64)

    async def score(row: Row) -> float | None:
        async with places:
            return await verdict(row)

    return each(score)


def trl() -> Step:
    """An async reward function of ours, asked by ``GRPOTrainer``'s own method once a batch."""
    from transformers import TrainerState
    from trl import GRPOTrainer
    from trl.trainer.utils import start_event_loop_in_daemon

    verdict = verdicts()

    async def reward(prompts: list[str], completions: list[str], **columns: Any) -> list[Any]:
        rows = zip(prompts, completions, columns["reference"], strict=True)
        asked = (dict(zip(("question", "response", "reference"), row, strict=True)) for row in rows)
        given = await asyncio.gather(*map(verdict, asked), return_exceptions=True)
        return [None if isinstance(each, BaseException) else each for each in given]

    trainer: Any = GRPOTrainer.__new__(GRPOTrainer)
    _, trainer.async_loop, ready = start_event_loop_in_daemon(name="rewards")
    ready.wait()
    trainer.accelerator = SimpleNamespace(device="cpu", gather=lambda x: x, is_main_process=False)
    trainer.reward_funcs, trainer.reward_func_names = [reward], ["reward"]
    trainer.reward_processing_classes, trainer.environments = [None], None
    trainer.state, trainer.model = TrainerState(), SimpleNamespace(training=True)
    trainer._step, trainer.args = 0, SimpleNamespace(report_to=[])

    async def step(rows: list[Row]) -> None:
        texts = ([row[name] for row in rows] for name in ("question", "response"))
        ids = [[0]] * len(rows)
        scores = await asyncio.to_thread(trainer._calculate_rewards, rows, *texts, ids)
        for row, score in zip(rows, scores[:, 0].tolist(), strict=True):
            emit(row=row["row"], score=None if score != score else score)

    return step


def ours() -> Step:
    """This service's client, over HTTP or by handle (``PEER_URL`` is then Ray's address)."""
    from deployments.local import APP
    from reward_serve.client import HttpRewardClient, RewardClient

    client: HttpRewardClient | RewardClient
    if URL.startswith("http"):
        client = HttpRewardClient(URL, model="judge")
    else:
        import ray

        ray.init(URL, logging_level="error", log_to_driver=False)
        client = RewardClient(APP, "judge")

    async def score(row: Row) -> float:
        names = ("question", "response", "reference", "group")
        result = await client.ascore({name: row[name] for name in names})
        if result.score is None:
            raise RuntimeError(f"{result.status.value}: {result.reason}")
        return result.score

    return each(score)


def verifiers() -> Step:
    """The reference judge, as ``Task.score`` runs it, with five of an agent's retries."""
    import verifiers.v1 as vf
    from verifiers.v1.judges.reference import ReferenceJudge, ReferenceJudgeConfig
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask
    from verifiers.v1.utils.retries import backoff

    class Problem(vf.TaskData):
        answer: str

    sampling = {"max_tokens": MAX_TOKENS, "temperature": 0.0}
    config = ReferenceJudgeConfig(
        base_url=URL, api_key_var="PEER_KEY", model=MODEL, timeout={"read": CALL_S},
        sampling=sampling,
    )  # fmt: skip
    judge = ReferenceJudge(config)

    async def score(row: Row) -> float:
        task = Problem(prompt=row["question"], answer=row["reference"])
        agent, held = AgentInfo(config=vf.AgentConfig()), TraceTask(type="Task", data=task)
        for attempt in range(6):
            trace = Trace(task=held, agent=agent, root_reply=row["response"])
            try:
                return float(await judge.score(task, trace))
            except Exception:
                if attempt == 5:
                    raise
                await asyncio.sleep(backoff(attempt))
        raise AssertionError

    return each(score)


def nemo_gym() -> Step:
    """The equivalence judge as published, with its own model server, in one process."""
    import uvicorn
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.global_config import NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME
    from nemo_gym.openai_utils import NeMoGymResponse
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf
    from resources_servers.equivalence_llm_judge import app as equivalence
    from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

    server = {"host": "127.0.0.1", "port": int(os.environ["PEER_PORT"]), "entrypoint": "app.py"}
    cluster = OmegaConf.create({"policy_model": {"responses_api_models": {"vllm_model": server}}})
    os.environ[NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME] = OmegaConf.to_yaml(cluster)
    here = BaseServerConfig(host=server["host"], port=server["port"])
    client = ServerClient(head_server_config=here, global_config_dict=cluster)
    model = VLLMModelConfig(
        **server, name="policy_model", base_url=URL, api_key="none", model=MODEL,
        return_token_id_information=False, uses_reasoning_parser=False,
    )  # fmt: skip
    folder = Path(equivalence.__file__).parent
    published: Any = OmegaConf.load(folder / "configs" / "equivalence_llm_judge.yaml")
    judging: Any = published.equivalence_llm_judge.resources_servers.equivalence_llm_judge
    settings: Any = OmegaConf.to_container(judging) | {"host": server["host"], "port": 1}
    settings["judge_responses_create_params"] |= {"max_output_tokens": MAX_TOKENS, "temperature": 0}
    settings["judge_prompt_template_fpath"] = str(folder / settings["judge_prompt_template_fpath"])
    config = equivalence.LLMJudgeResourcesServerConfig(**settings)
    judge = equivalence.LLMJudgeResourcesServer(config=config, server_client=client)

    async def score(row: Row) -> float:
        text = {"type": "output_text", "text": row["response"], "annotations": []}
        said = {"id": "1", "type": "message", "role": "assistant", "status": "completed"}
        response = NeMoGymResponse(
            id="1", created_at=0.0, model="policy", object="response", tools=[], tool_choice="none",
            output=[said | {"content": [text]}], parallel_tool_calls=False,
        )  # fmt: skip
        body = equivalence.LLMJudgeVerifyRequest(
            responses_create_params={"input": [{"role": "user", "content": row["question"]}]},
            response=response, expected_answer=row["reference"],
        )  # fmt: skip
        return float((await judge.verify(body)).reward)

    serving: list[asyncio.Task[None]] = []

    async def step(rows: list[Row]) -> None:
        if not serving:
            api = VLLMModel(config=model, server_client=client).setup_webserver()
            served = uvicorn.Config(api, server["host"], server["port"], log_level="error")
            serving.append(asyncio.create_task((running := uvicorn.Server(served)).serve()))
            while not running.started:
                assert not serving[0].done()
                await asyncio.sleep(0.05)
        await each(score)(rows)

    return step


def skyrl() -> Step:
    """The environment of its LLM-as-a-judge example, typed anew, in the generator's 32 threads.

    ``examples/train/llm_as_a_judge/llm_judge_env.py`` (NovaSky-AI/SkyRL, Apache-2.0), which no
    wheel contains.
    """
    from openai import OpenAI
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

    prompt, workers = Path(__file__).with_name("skyrl.txt").read_text(), ThreadPoolExecutor(32)

    class JudgeEnv(BaseTextEnv):  # type: ignore[misc]
        def __init__(self, extras: dict[str, Any]) -> None:
            super().__init__()
            self.ground_truth = extras["reward_spec"]["ground_truth"]
            self.client = OpenAI(base_url=URL, api_key="none")

        def step(self, action: str) -> BaseTextEnvStepOutput:
            gold = f"GOLD SOLUTION:\n{self.ground_truth}\n\nPREDICTED SOLUTION:\n{action}"
            message: Any = {"role": "user", "content": f"{prompt}\n\n{gold}\n\nAnswer:"}
            reward = 0.0
            try:
                said: Any = self.client.chat.completions.create(model=MODEL, messages=[message])
                reply = said.choices[0].message.content.strip()
                if match := re.search(r"### Final Score:\s*([01](?:\.0)?)", reply):
                    reward = float(match[1])
                elif reply in {"0", "1"}:
                    reward = float(reply)
            except Exception:
                reward = 0.0
            return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata={})

    async def score(row: Row) -> float:
        env = JudgeEnv({"reward_spec": {"ground_truth": row["reference"]}})
        loop = asyncio.get_running_loop()
        return float((await loop.run_in_executor(workers, env.step, row["response"]))["reward"])

    return each(score)


def inspect() -> Step:
    """``model_graded_fact`` over answers that are there already, in one ``eval``."""
    from inspect_ai import Task, eval_async
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, ModelOutput, get_model
    from inspect_ai.scorer import accuracy, model_graded_fact, scorer
    from inspect_ai.solver import solver

    limits = GenerateConfig(
        max_connections=64, attempt_timeout=int(CALL_S), timeout=int(3 * CALL_S),
        max_tokens=MAX_TOKENS, temperature=0.0,
    )  # fmt: skip
    grader = get_model(f"openai-api/peer/{MODEL}", base_url=URL, api_key="none", config=limits)

    @solver
    def answered() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("policy", state.metadata["response"])
            return state

        return solve

    @scorer(metrics=[accuracy()])
    def emitted() -> Any:
        graded = model_graded_fact(model=grader)

        async def score(state: Any, target: Any) -> Any:
            given = await graded(state, target)
            value = str(given.value)  # NaN without a grade
            emit(row=state.sample_id, score={"C": 1.0, "I": 0.0}.get(value), reason=value)
            return given

        return score

    async def step(rows: list[Row]) -> None:
        data = []
        for row in rows:
            answer = {"response": row["response"]}
            sample = {"input": row["question"], "target": row["reference"], "metadata": answer}
            data.append(Sample(id=row["row"], **sample))
        task = Task(dataset=data, solver=answered(), scorer=emitted())
        with tempfile.TemporaryDirectory() as logs:
            how = {"max_samples": len(rows), "fail_on_error": False, "log_dir": logs}
            await eval_async(task, model="mockllm/model", **how)

    return step


def verl() -> Step:
    """A reward manager (``PEER_VARIANT``) in a reward loop's worker, with ``compute_score``.

    The eight workers of verl's reward loop are one here, with the 256 threads they would have.
    """
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl import DataProto
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

    folder = os.environ["PEER_TOKENIZER"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    function = {"path": "pkg://loadtests.peers.asks", "name": "compute_score", "reward_kwargs": {}}
    manager = {"source": "register", "name": os.environ["PEER_VARIANT"], "module": None}
    reward = {
        "custom_reward_function": function, "reward_manager": manager,
        "reward_model": {"enable": False}, "max_concurrent": 64, "timeout": 60.0,
    }  # fmt: skip
    model = {"model": {"path": folder, "tokenizer_path": None}}
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(256))
    worker = RewardLoopWorker(OmegaConf.create({"reward": reward, "actor_rollout_ref": model}))

    async def score(row: Row) -> float:
        ids = torch.tensor([tokenizer.encode(row["response"])])
        columns = {
            "data_source": "llm_judge_remote", "extra_info": {"problem": row["question"]},
            "reward_model": {"ground_truth": row["reference"]},
        }  # fmt: skip
        batch = DataProto.from_dict(
            tensors={"responses": ids, "attention_mask": torch.ones_like(ids)},
            non_tensors={name: np.array([c], dtype=object) for name, c in columns.items()},
        )
        return float((await worker.compute_score(batch))["reward_score"])

    return each(score)


_session: Any = None


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]
) -> float:
    """What the tutorial for verl's remote judge does, with a prompt of its form: a number, or 0.0.

    As in its ``llm_judge_client.py``: three retries with a backoff of 0.5 s, pooled connections.
    """
    global _session
    import requests
    from urllib3.util.retry import Retry

    if _session is None:
        codes = [429, 500, 502, 503, 504]
        retry = Retry(3, backoff_factor=0.5, status_forcelist=codes, allowed_methods=["POST"])
        made = requests.Session()
        made.mount("http://", requests.adapters.HTTPAdapter(1028, 1028, max_retries=retry))
        _session = made
    fields = {"REFERENCE_SOLUTION": ground_truth, "CANDIDATE_SOLUTION": solution_str}
    prompt = Path(__file__).with_name("verl.txt").read_text()
    message = {"role": "user", "content": prompt.format(PROBLEM=extra_info["problem"], **fields)}
    sampling = {"temperature": 0.7, "top_p": 0.8, "max_tokens": MAX_TOKENS}
    body = {"model": MODEL, "messages": [message], **sampling}
    try:
        reply = _session.post(f"{URL}/chat/completions", json=body, timeout=CALL_S)
        reply.raise_for_status()
        text = reply.json()["choices"][0]["message"]["content"] or ""
    except Exception:
        return 0.0
    found = re.search(r"REWARD:\s*([0-9]*\.?[0-9]+)", text, re.IGNORECASE)
    bare = re.findall(r"\b(0\.\d{1,3}|1\.0{1,3}|0|1)\b", text)
    return max(0.0, min(1.0, float(found[1] if found else bare[-1] if bare else 0.0)))


async def _main() -> None:
    step: Step = globals()[sys.argv[1]]()
    os.dup2(2, 1)  # what a peer prints
    while line := await asyncio.to_thread(sys.stdin.readline):
        await step(json.loads(line))
        emit(done=True)


if __name__ == "__main__":
    asyncio.run(_main())
