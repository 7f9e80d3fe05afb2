"""Everything that ``args`` of a ``deployments/*.yaml`` may say, checked when it is read.

>>> config = parse_config({"models": [{"name": "judge", "kind": "judge"}]})
>>> config.models[0].resources.num_cpus
2.0
"""

from reward_serve.config.app import (
    AppConfig,
    GatewayConfig,
    GatewayModel,
    ServerConfig,
    parse_config,
    parse_gateway,
)
from reward_serve.config.base import INGRESS_NAME, ConfigError
from reward_serve.config.engine import (
    BUNDLED_MODEL,
    NO_ADAPTER,
    SHIPPED_ADAPTER,
    EngineConfig,
    RemoteConfig,
)
from reward_serve.config.judge import JudgeConfig
from reward_serve.config.kinds import ClassifierConfig, MemberConfig, PanelConfig, RuleConfig
from reward_serve.config.models import (
    ClassifierModel,
    JudgeModel,
    ModelConfig,
    PanelModel,
    RemoteModel,
    RuleModel,
)
from reward_serve.config.replicas import (
    AutoscalingConfig,
    CacheConfig,
    ResourcesConfig,
    VerdictLogConfig,
)

__all__ = [
    "BUNDLED_MODEL",
    "INGRESS_NAME",
    "NO_ADAPTER",
    "SHIPPED_ADAPTER",
    "AppConfig",
    "AutoscalingConfig",
    "CacheConfig",
    "ClassifierConfig",
    "ClassifierModel",
    "ConfigError",
    "EngineConfig",
    "GatewayConfig",
    "GatewayModel",
    "JudgeConfig",
    "JudgeModel",
    "MemberConfig",
    "ModelConfig",
    "PanelConfig",
    "PanelModel",
    "RemoteConfig",
    "RemoteModel",
    "ResourcesConfig",
    "RuleConfig",
    "RuleModel",
    "ServerConfig",
    "VerdictLogConfig",
    "parse_config",
    "parse_gateway",
]
