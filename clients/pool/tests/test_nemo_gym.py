"""NeMo Gym 0.4.0's judge asks the pool, through NeMo Gym's own model server."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from nemo_gym.config_types import BaseServerConfig, ModelServerRef
from nemo_gym.global_config import NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from resources_servers.equivalence_llm_judge import app as equivalence
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

from clients.pool.tests.conftest import KEY

LABELS = ["[[A=B]]", "[[A!=B]]"]
PROMPT = Path(equivalence.__file__).parent / "prompt_templates" / "equivalence_llm_judge.txt"


def reply_of(schema: dict[str, Any]) -> dict[str, Any]:
    """``extra_body`` for a reply with this schema."""
    wanted = {"name": "verdict", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "1", "type": "message", "role": "assistant", "status": "completed",
            "content": content}  # fmt: skip


@asynccontextmanager
async def model_server(url: str) -> AsyncIterator[ServerClient]:
    """A client of NeMo Gym's model server, which asks the pool, in this event loop."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = {"host": "127.0.0.1", "port": port, "entrypoint": "app.py"}
    cluster = OmegaConf.create({"judge": {"responses_api_models": {"vllm_model": server}}})
    os.environ[NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME] = OmegaConf.to_yaml(cluster)
    here = BaseServerConfig(host="127.0.0.1", port=port)
    client = ServerClient(head_server_config=here, global_config_dict=cluster)
    config = VLLMModelConfig(
        **server, name="judge", base_url=url, api_key=KEY, model="judge",
        return_token_id_information=False, uses_reasoning_parser=True,
        extra_body=reply_of({"enum": LABELS}),
    )  # fmt: skip
    api = VLLMModel(config=config, server_client=client).setup_webserver()
    running = uvicorn.Server(uvicorn.Config(api, "127.0.0.1", port, log_level="warning"))
    serving = asyncio.create_task(running.serve())
    while not running.started:
        assert not serving.done()
        await asyncio.sleep(0.05)
    yield client
    running.should_exit = True
    await serving


async def verified(url: str, body: equivalence.LLMJudgeVerifyRequest) -> Any:
    """The answer of NeMo Gym's equivalence judge, with the pool behind it."""
    config = equivalence.LLMJudgeResourcesServerConfig(
        host="127.0.0.1",
        port=1,
        entrypoint="",
        judge_model_server=ModelServerRef(type="responses_api_models", name="judge"),
        judge_responses_create_params=NeMoGymResponseCreateParamsNonStreaming(
            input=[], max_output_tokens=64, temperature=0.0
        ),
        judge_prompt_template_fpath=str(PROMPT),
    )
    async with model_server(url) as client:
        judge = equivalence.LLMJudgeResourcesServer(config=config, server_client=client)
        return await judge.verify(body)


def test_the_equivalence_judge_reads_a_verdict(url: str) -> None:
    asked = {"input": [{"role": "user", "content": "What is 9 + 9?"}]}
    answered = NeMoGymResponse(
        id="1", created_at=0.0, model="policy", object="response", output=[message("It is 18.")],
        parallel_tool_calls=False, tool_choice="none", tools=[],
    )  # fmt: skip
    body = equivalence.LLMJudgeVerifyRequest(
        responses_create_params=asked, response=answered, expected_answer="18"
    )
    verdict = asyncio.run(verified(url, body))
    (evaluation,) = verdict.judge_evaluations
    assert evaluation.verdict_label in LABELS
    assert verdict.reward == float(evaluation.verdict_label == "[[A=B]]")
    assert evaluation.response.usage.output_tokens > 0
