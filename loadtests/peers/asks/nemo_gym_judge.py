"""NeMo Gym's equivalence judge with its published configuration, through its own model server.

Both run in this process, without the HTTP between agent and judge. Calls have no time limit
(``server_utils.get_global_aiohttp_client``); retries are its own.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import uvicorn
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from resources_servers.equivalence_llm_judge import app as equivalence
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig

from loadtests.peers.lines import MAX_TOKENS, MODEL, URL, Row, answer, each

FOLDER = Path(equivalence.__file__).parent
server = {"host": "127.0.0.1", "port": int(os.environ["PEER_PORT"]), "entrypoint": "app.py"}
cluster = OmegaConf.create({"policy_model": {"responses_api_models": {"vllm_model": server}}})
os.environ[NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME] = OmegaConf.to_yaml(cluster)
here = BaseServerConfig(host=server["host"], port=server["port"])
client = ServerClient(head_server_config=here, global_config_dict=cluster)
model_config = VLLMModelConfig(
    **server, name="policy_model", base_url=URL, api_key="none", model=MODEL,
    return_token_id_information=False, uses_reasoning_parser=False,
)  # fmt: skip
published: Any = OmegaConf.load(FOLDER / "configs" / "equivalence_llm_judge.yaml")
settings: Any = OmegaConf.to_container(
    published.equivalence_llm_judge.resources_servers.equivalence_llm_judge
)
settings |= {"host": server["host"], "port": 1}
settings["judge_responses_create_params"] |= {"max_output_tokens": MAX_TOKENS, "temperature": 0.0}
settings["judge_prompt_template_fpath"] = str(FOLDER / settings["judge_prompt_template_fpath"])
judge = equivalence.LLMJudgeResourcesServer(
    config=equivalence.LLMJudgeResourcesServerConfig(**settings), server_client=client
)


async def score(row: Row) -> float:
    """The reward of its ``/verify``."""
    text = {"type": "output_text", "text": row["response"], "annotations": []}
    said = {"id": "1", "type": "message", "role": "assistant", "status": "completed"}
    response = NeMoGymResponse(
        id="1", created_at=0.0, model="policy", object="response", tools=[], tool_choice="none",
        output=[said | {"content": [text]}], parallel_tool_calls=False,
    )  # fmt: skip
    asked = {"input": [{"role": "user", "content": row["question"]}]}
    body = equivalence.LLMJudgeVerifyRequest(
        responses_create_params=asked, response=response, expected_answer=row["reference"]
    )
    return float((await judge.verify(body)).reward)


async def step(rows: list[Row]) -> None:
    """All rows at once; the model server starts with the first."""
    global serving
    if serving is None:
        api = VLLMModel(config=model_config, server_client=client).setup_webserver()
        config = uvicorn.Config(api, server["host"], server["port"], log_level="error")
        running = uvicorn.Server(config)
        serving = asyncio.create_task(running.serve())
        while not running.started:
            assert not serving.done()
            await asyncio.sleep(0.05)
    await each(score)(rows)


serving: asyncio.Task[None] | None = None
if __name__ == "__main__":
    answer(step)
