"""The service in this process against its own OpenAPI document."""

from __future__ import annotations

from typing import Any

import schemathesis

from tests.conformance import Case, ask, ask_for_lines, settings
from tests.fake_ingress import BEARER, KEYS, served
from tests.tiers import share

# Loaded as they are collected: schemathesis makes a test of each operation.
open_app: Any = served().app
keyed_app: Any = served(KEYS, max_concurrent_items_per_key=64).app
compatible_app: Any = served(compatible_with=["openai", "openrlhf", "slime"], absent_reward=0.0).app
described = schemathesis.openapi.from_asgi("/openapi.json", open_app, config=settings(share(60, 4)))
keyed = schemathesis.openapi.from_asgi(
    "/openapi.json", keyed_app, config=settings(share(15, 5)), headers=BEARER
)
compatible = schemathesis.openapi.from_asgi(
    "/openapi.json", compatible_app, config=settings(share(40, 6))
)


@compatible.include(path_regex="get_reward|remote_rm|chat").parametrize()
def test_what_other_services_clients_call_is_as_the_document_says(case: Case) -> None:
    ask(case)


@described.parametrize()
def test_every_reply_is_as_the_document_says(case: Case) -> None:
    ask(case)


@described.include(path="/v1/score/batch").parametrize()
def test_every_line_of_a_streamed_batch_is_as_the_document_says(case: Case) -> None:
    ask_for_lines(case)


@keyed.parametrize()
def test_with_keys_too(case: Case) -> None:
    ask(case, headers=BEARER)
