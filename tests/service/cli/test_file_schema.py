from typing import Any

import pytest

from reward_serve.cli.file_schema import checked
from reward_serve.config.base import ConfigError
from tests.rows import rows

RULE = {"models": [{"name": "rule", "kind": "rule"}]}


def file(application: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    path = {"import_path": "reward_serve.app:build_app", "args": RULE}
    return {"applications": [path | (application or {})], **fields}


@pytest.mark.parametrize(("content", "expected"), rows(__file__, "invalid"))
def test_invalid_fields_are_refused_by_name(content: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(content)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("http", "host", "is_open", "url"), rows(__file__, "interfaces"))
def test_all_interfaces_are_bound_only_if_the_file_says_so(
    http: dict[str, Any], host: str, is_open: bool, url: str
) -> None:
    checked_file = checked(file({"route_prefix": "/judge"}, http_options=http))
    assert checked_file.content["http_options"] == {"host": host, **http}
    assert (checked_file.is_open, checked_file.urls) == (is_open, [url])
    with_keys = {**RULE, "server": {"api_keys_file": "keys"}}
    assert not checked(file({"args": with_keys}, http_options=http)).is_open


def test_models_and_servers_are_those_of_this_projects_applications() -> None:
    models = [{"name": "rule", "application": "hidden"}]
    theirs = {"route_prefix": "/theirs", "import_path": "theirs:app", "args": {"anything": 1}}
    applications = [
        {"name": "theirs", **theirs},
        {**file()["applications"][0], "name": "hidden", "route_prefix": None},
        {"import_path": "reward_serve.app:build_gateway", "args": {"models": models}},
    ]
    checked_file = checked({"applications": applications})
    assert checked_file.names == ["theirs", "hidden", "default"]
    assert [model.name for model in checked_file.models] == ["rule"]
    assert len(checked_file.servers) == 1
    assert checked_file.urls == ["http://127.0.0.1:8000/theirs", "http://127.0.0.1:8000"]
