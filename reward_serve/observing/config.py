"""The ``verdict_log`` section of a deployments file."""

from typing import Annotated

from pydantic import Field

from reward_serve.config_base import Count, Section


class VerdictLogConfig(Section):
    """A sample of the verdicts, written as JSON lines by each replica on its node."""

    folder: str | None = Field(None, min_length=1, description="where to; none is written without")
    rate: Annotated[float, Field(ge=0, le=1)] = Field(0.01, description="share of the requests")
    redact: bool = Field(False, description="leave out the response and the reference")
    tail_characters: Count = Field(400, description="of a response, its last")
    max_mib: Annotated[float, Field(gt=0)] = Field(64.0, description="kept, of a replica")
