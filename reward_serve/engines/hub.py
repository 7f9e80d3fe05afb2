"""Checks that the hub has a model before an engine starts, for errors that name the remedy."""

from __future__ import annotations

from reward_serve.engines.checkpoint import CheckpointError

_TIMEOUT_S = 10.0


def check_hub_id(model: str, revision: str | None = None) -> None:
    """Ask the hub once for a model that is not in this machine's cache.

    Temporary failures of the hub are left to the engine, which retries.

    Args:
        model: a hub id such as Qwen/Qwen2.5-1.5B-Instruct.
        revision: a branch, tag or commit; None for the default branch.

    Raises:
        CheckpointError: the hub is unreachable, or has no such model for this account.
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
            f"engine.model: {model!r} is neither a folder nor a model that this account can read "
            "on the hub; check the spelling, or set HF_TOKEN to a token that may read it"
        )
    if isinstance(error, RevisionNotFoundError):
        return (
            f"engine.revision: {model!r} has no revision {revision!r} on the hub; name a branch, "
            "a tag or a commit"
        )
    if isinstance(error, HfHubHTTPError):
        return None
    reason = " ".join(str(error).split()) or type(error).__name__
    return (
        f"engine.model: {model!r} is not in this machine's cache, and the hub cannot be "
        f"reached ({reason}); download it on a machine with network access (hf download {model} "
        f"--local-dir FOLDER) and serve the folder, or set HF_ENDPOINT to a mirror"
    )
