"""What the service tests ask: deployed once, together, behind one port."""

from pathlib import Path
from typing import Any, Final

import yaml

from deployments.local import APP, ROOT
from tests.sandboxed import FAULT
from tests.service.docs.pages import DOCS, blocks

RULES: Final = "rules"
SEVERAL: Final = "several"
GATEWAY: Final = "gateway"
GUARDED: Final = "guarded"
SHARED: Final = "shared"
MIXED: Final = "mixed"
MISSING: Final = "missing"  # its replica cannot start

OWN = "tests.own_functions"
KEYS_VARIABLE = "REWARD_SERVE_API_KEYS"
KEY_LIMIT = 4
JUDGE = {"model": "judge", "application": APP}
_FEW: dict[str, Any] = {"resources": {"num_cpus": 0.1}}


def rule(name: str, verifier: str, **fields: Any) -> dict[str, Any]:
    """A rule that needs a tenth of a core."""
    settings = {"verifier": verifier, **fields.pop("rule", {})}
    return {"name": name, "kind": "rule", "rule": settings, **_FEW, **fields}


def function_rule(name: str, function: str, **fields: Any) -> dict[str, Any]:
    """A rule that calls a function of ``tests.own_functions``."""
    return rule(name, "function", rule={"function": f"{OWN}:{function}"}, **fields)


def judge_and_keys(port: int, keys: Path) -> dict[str, Any]:
    """``deployments/judge.yaml`` on another port, and a rule with keys."""
    config: dict[str, Any] = yaml.safe_load(
        (ROOT / "deployments" / "judge.yaml").read_text(encoding="utf-8")
    )
    config["http_options"]["port"] = port
    (judge,) = config["applications"][0]["args"]["models"]
    judge["autoscaling"] = {"min_replicas": 1, "max_replicas": 1}  # tests look into its one replica
    judge["group"] = {}
    judge["teacher"] = True
    server = {
        "api_keys_file": str(keys),
        "api_keys_env": KEYS_VARIABLE,
        "max_concurrent_items_per_key": KEY_LIMIT,
    }
    config["applications"].append(
        {
            "name": GUARDED,
            "route_prefix": f"/{GUARDED}",
            "import_path": "reward_serve.app:build_app",
            "args": {"models": [rule("rule", "gsm8k")], "server": server},
        }
    )
    return config


def mixed() -> dict[str, Any]:
    """The cookbook's application, with a tenth of a core for each model."""
    page = blocks(DOCS / "cookbook/mixed.md")
    (text,) = (block.text for block in page if block.title == "mixed.yaml")
    args: dict[str, Any] = yaml.safe_load(text)["applications"][0]["args"]
    return {**args, "models": [{**model, **_FEW} for model in args["models"]]}


# What costs no model: one of each, of which the first is the default.
RULE_MODELS = [
    rule("rule", "gsm8k"),
    rule("exact", "exact"),
    rule("pattern", "regex", rule={"pattern": r"(?:A+)+: (\S+)"}),
    function_rule("own", "later"),
    function_rule("turns", "last_number"),
    function_rule("counted", "later"),
    function_rule("shed", "is_here", max_concurrent_items=10, max_queued_items=10),
    {
        "name": "composite",
        "kind": "composite",
        "composite": {"members": [JUDGE, "rule", "exact"], "aggregate": "vote", "quorum": 2},
        **_FEW,
    },
    {
        # A judge's probability is always within, so that only its rules decide before `exact`.
        "name": "cascade",
        "kind": "cascade",
        "cascade": {"members": [JUDGE, "exact"], "unsure": [0.0, 1.0]},
        **_FEW,
    },
]

BESIDE: dict[str, dict[str, Any]] = {
    RULES: {"models": RULE_MODELS},
    SEVERAL: {
        "models": [
            function_rule("several", "is_here", autoscaling={"min_replicas": 3, "max_replicas": 3})
        ]
    },
    SHARED: {
        "models": [function_rule("busy", "works", max_concurrent_items=8, max_queued_items=72)],
        "server": {"api_keys_env": KEYS_VARIABLE},
    },
    **({} if FAULT else {MIXED: mixed()}),
    MISSING: {"models": [function_rule("own", "no_such")]},
}

BEHIND_THE_GATEWAY: dict[str, Any] = {
    "models": [
        {"name": "judge", "application": APP},
        {"name": "rule", "application": RULES},
        {"name": "several", "application": SEVERAL},
    ],
    "server": {"compatible_with": ["openai", "sglang"], "aliases": {"Qwen/Qwen3-32B": "judge"}},
}
