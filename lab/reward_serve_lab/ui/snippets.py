"""A request as curl and Python code, in ASCII and exact to the character."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from reward_serve.keys import API_KEY_VARIABLE


def as_curl(url: str, request: Mapping[str, Any], has_key: bool) -> str:
    """A shell command that sends the request; it reads the key from the environment."""
    key = f' \\\n  -H "authorization: Bearer ${API_KEY_VARIABLE}"' if has_key else ""
    # On stdin, because Linux limits an argument to 128 KiB.
    return (
        f"curl -s {shlex.quote(url + '/v1/score')} -H 'content-type: application/json'{key} \\\n"
        f"  --data-binary @- <<'EOF'\n{json.dumps(request, indent=1)}\nEOF"
    )


def as_python(url: str, request: Mapping[str, Any], has_key: bool) -> str:
    """Python code that sends the request with this project's client."""
    key = f", os.environ[{API_KEY_VARIABLE!r}]" if has_key else ""
    lines = ["import os\n"] if has_key else []
    lines += ["from reward_serve import HttpRewardClient\n", "request = {"]
    lines += [f"    {name!r}: {value!a}," for name, value in request.items()]
    lines += ["}", f"with HttpRewardClient({url!r}{key}) as judge:"]
    lines += ["    print(judge.score(request))"]
    return "\n".join(lines)
