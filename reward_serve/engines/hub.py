"""Asks the model hub for a model before an engine does, to say what is wrong and how to fix it."""

from __future__ import annotations

from reward_serve.engines.checkpoint import CheckpointError

_TIMEOUT_S = 10.0


def check_hub_id(model: str, revision: str | None = None) -> None:
    """Ask the hub once for a model that is not in this machine's cache.

    Temporary failures of the hub are left to the engine, which retries.

    Args:
        model: such as Qwen/Qwen2.5-1.5B-Instruct.
        revision: a branch, tag or commit; None for the default branch.

    Raises:
        CheckpointError: the hub cannot be reached, or does not have it for this account.
    """
    import httpx
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    hub = HfApi()
    try:
        if isinstance(try_to_load_from_cache(model, "config.json", revision=revision), str):
            return
        if hub.model_info(model, revision=revision, timeout=_TIMEOUT_S).gated:
            hub.auth_check(model)
    except (httpx.HTTPError, HFValidationError, OfflineModeIsEnabled) as error:
        if message := _message(model, revision, error):
            raise CheckpointError(message) from None


def _message(model: str, revision: str | None, error: Exception) -> str | None:
    """What is wrong and how to fix it; None if it may be temporary."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return (
            f"engine.model: {model!r} is gated; accept its terms on the hub, and set HF_TOKEN to a "
            "token of that account"
        )
    if isinstance(error, (RepositoryNotFoundError, HFValidationError)):
        return (
            f"engine.model: the hub has no {model!r}, or not for this account, and there is no "
            "such folder; check the spelling, or set HF_TOKEN to a token that may read it"
        )
    if isinstance(error, RevisionNotFoundError):
        return (
            f"engine.revision: the hub has no {revision!r} of {model!r}; name a branch, a tag or "
            "a commit"
        )
    if isinstance(error, HfHubHTTPError):
        return None
    reason = " ".join(str(error).split()) or type(error).__name__
    return (
        f"engine.model: {model!r} is not in this machine's cache, and the hub cannot be "
        f"reached ({reason}); download it where there is a network (hf download {model} "
        f"--local-dir FOLDER) and serve the folder, or name a mirror in HF_ENDPOINT"
    )
