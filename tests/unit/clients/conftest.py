import pytest

from reward_serve.client import retrying


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)
    for name in ("URL", "APP", "API_KEY", "TIMEOUT_S"):
        monkeypatch.delenv(f"REWARD_SERVE_{name}", raising=False)
    for name in ("URL", "API_KEY", "TIMEOUT"):
        monkeypatch.delenv(f"LLM_JUDGE_SERVER_{name}", raising=False)
