"""The deployed service, through Serve's proxy, against its own OpenAPI document."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis

from tests.conformance import Case, ask, ask_for_lines, settings
from tests.fake_ingress import served
from tests.tiers import share

# Of this process, since schemathesis makes a test of each operation as tests are collected.
DOCUMENT: dict[str, Any] = served().get("/openapi.json").json()
described = schemathesis.openapi.from_dict(DOCUMENT, config=settings(share(25, 3)))


def test_the_deployed_document_is_the_one_that_is_tested(rule_url: str) -> None:
    document = httpx.get(f"{rule_url}/openapi.json").json()
    assert document["paths"] == DOCUMENT["paths"]


@described.parametrize()
def test_every_reply_is_as_the_document_says(case: Case, rule_url: str) -> None:
    ask(case, base_url=rule_url)


@pytest.mark.slow
@described.include(path="/v1/score/batch").parametrize()
def test_every_line_of_a_streamed_batch_is_as_the_document_says(case: Case, rule_url: str) -> None:
    ask_for_lines(case, base_url=rule_url)
