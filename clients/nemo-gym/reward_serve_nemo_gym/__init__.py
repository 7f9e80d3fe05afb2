"""A resources server for NeMo Gym, scored by a ``reward_serve`` service; no verdict is a failure.

``resources_servers/reward_serve/app.py``:

    from reward_serve_nemo_gym import ServiceResourcesServer

    if __name__ == "__main__":
        ServiceResourcesServer.run_webserver()
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.responses_converter import ResponsesConverter
from pydantic import ConfigDict, model_validator

from reward_serve.client import Client, connect
from reward_serve.client.rows import check_first_results, conversation_of, request_of
from reward_serve.messages import Message

__all__ = ["ServiceResourcesServer", "ServiceResourcesServerConfig"]

_FAILURE = "_ng_failure_class"


class ServiceResourcesServerConfig(BaseResourcesServerConfig):  # type: ignore[misc]  # untyped
    """How to ask the service, in the server's section of the run's YAML."""

    REVERIFY_MODE: ClassVar[str] = "stateless"  # of NeMo Gym after 0.4

    url: str | None = None
    """URL of the service; default ``REWARD_SERVE_URL``, or ``REWARD_SERVE_APP`` by handle."""
    api_key: str | None = None
    model: str | None = None
    """A reward model of the service; default: its first."""
    timeout_s: float | None = None
    """Deadline over all attempts; default ``REWARD_SERVE_TIMEOUT_S``, or 60."""
    answer_field: str = "expected_answer"
    """The row's field with the gold answer, or a list of them; a row may lack it."""
    question_field: str = ""
    """The row's field with the question; empty: the prompt's last user turn."""
    rubric_field: str = ""
    """The row's field with a rubric: a name, or criteria."""
    view: Literal["last_reply", "full_trace"] = "last_reply"
    """``full_trace`` sends all turns, with tools and what they answered."""
    turns: bool = False
    """Whether each assistant turn is scored too; needs ``full_trace``."""

    @model_validator(mode="after")
    def _turns_are_of_a_trace(self) -> ServiceResourcesServerConfig:
        if self.turns and self.view != "full_trace":
            raise ValueError("turns: a last reply is one turn; set view to full_trace")
        return self


class ServiceVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
    """A rollout, with the fields of its row."""

    model_config = ConfigDict(extra="allow")


class ServiceVerifyResponse(BaseVerifyResponse):  # type: ignore[misc]
    """A verified rollout, with the fields of its row, and ``component_NAME`` for metrics."""

    model_config = ConfigDict(extra="allow")

    reward_components: dict[str, float]
    """The components that have a score."""
    verdict: dict[str, Any]
    """The service's ``ScoreResult``."""


class ServiceResourcesServer(SimpleResourcesServer):  # type: ignore[misc]
    """Asks the service in ``/verify``."""

    config: ServiceResourcesServerConfig

    async def verify(self, body: ServiceVerifyRequest) -> ServiceVerifyResponse:
        """The rollout's reward.

        Without a verdict, the row is as that of NeMo Gym's own judges that fail: ``reward`` 0.0,
        which its contract demands, ``_ng_failure_class`` ``judge_failed``, by which the runner
        writes it to the failures file and not to the rollouts, and ``mask_sample``, by which a
        trainer leaves it out of the loss.

        Raises:
            RefusedRowError: the service refuses all rollouts, as for a wrong key. The run ends.
        """
        client = self._client()
        result = await client.ascore(self._request(body))
        check_first_results(client, [result])
        row = {**body.model_dump(), "verdict": result.model_dump(mode="json")}
        if result.score is None:
            failed = {
                "reward": 0.0,
                "mask_sample": True,
                _FAILURE: "judge_failed",
                "_ng_failure_judge_error": f"{result.status.value}: {result.reason}",
            }
            return JSONResponse(jsonable_encoder(row | failed))  # type: ignore[return-value]
        components = result.components or {}
        scores = {name: part.score for name, part in components.items() if part.score is not None}
        metrics = {f"component_{name}": score for name, score in scores.items()}
        return ServiceVerifyResponse(
            **{**row, **metrics, "reward": result.score, "reward_components": scores}
        )

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Metrics of the rows that have a verdict; the runner of 0.4 sends the others too."""
        decided = [row for row in body.verify_responses if _FAILURE not in row]
        return await super().aggregate_metrics(AggregateMetricsRequest(verify_responses=decided))

    def _client(self) -> Client:
        config = self.config
        return connect(
            url=config.url,
            api_key=config.api_key,
            timeout_s=config.timeout_s,
            model=config.model,
            on_failure="none",
        )

    def _request(self, body: ServiceVerifyRequest) -> dict[str, Any]:
        config, row = self.config, body.model_extra or {}
        params = body.responses_create_params
        prompt = params.input
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        whole = type(params).model_validate(
            {"input": [*prompt, *body.response.output], "tools": params.tools}
        )
        converter = ResponsesConverter(return_token_id_information=False)
        chat = converter.responses_to_chat_completion_create_params(whole)
        last_texts = {turn["role"]: Message.model_validate(turn).text for turn in chat.messages}
        question = row.get(config.question_field, last_texts.get("user"))
        group = f"{config.name}/{row['_ng_task_index']}" if "_ng_task_index" in row else None
        request = request_of(
            last_texts.get("assistant", ""),
            row.get(config.answer_field),
            question,
            row.get(config.rubric_field),
            {"judge_group": group},
        )
        if config.view == "last_reply":
            return request
        turns = {"turns": True} if config.turns else {}
        return conversation_of(request, chat.messages, chat.tools or []) | turns
