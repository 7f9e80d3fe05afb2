"""``reward-serve template check``: find mistakes in judging templates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reward_serve.cli.shipped import template
from reward_serve.config.engine import BUNDLED_MODEL
from reward_serve.engines.base import Tokenizer
from reward_serve.engines.checkpoint import CheckpointError
from reward_serve_lab.linting.check import check_file

__all__ = ["template"]


@template.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Template files (YAML).")],
    model: Annotated[
        str, typer.Option(help="Judge model, for its tokenizer: bundled, a folder or a hub id.")
    ] = BUNDLED_MODEL,
) -> None:
    """Check template files and print one finding per line; exit 1 on errors."""
    try:
        tokenizer = tokenizer_of(model)
    except (CheckpointError, OSError, ValueError) as error:
        typer.echo(f"--model {model}: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from None
    failed = False
    for file in files:
        findings = check_file(file, tokenizer)
        for finding in findings:
            typer.echo(f"{file}: {finding}")
        if not findings:
            typer.echo(f"{file}: no findings")
        failed |= any(finding.severity == "error" for finding in findings)
    if failed:
        raise typer.Exit(1)


def tokenizer_of(model: str) -> Tokenizer:
    """Load the tokenizer of a judge model.

    Raises:
        CheckpointError: it has no chat template, or no ``tokenizers`` backend.
        OSError: the model does not exist.
    """
    from transformers import AutoTokenizer

    from reward_serve.engines.bundled import prepare_bundled
    from reward_serve.engines.tokenizer import ChatTokenizer

    folder = prepare_bundled() if model == BUNDLED_MODEL else model
    return ChatTokenizer(AutoTokenizer.from_pretrained(folder))
