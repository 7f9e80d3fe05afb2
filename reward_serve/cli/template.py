"""``python -m reward_serve template check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reward_serve.config.engine import BUNDLED_MODEL
from reward_serve.engines.base import Tokenizer
from reward_serve.engines.checkpoint import CheckpointError
from reward_serve.linting.check import check_file

template = typer.Typer(no_args_is_help=True, help="Judging templates of your own.")


@template.callback()
def _group() -> None:
    """Judging templates of your own."""


@template.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="YAML files, as judge.template names them.")],
    model: Annotated[
        str, typer.Option(help="Whose tokenizer: bundled, a folder, or a hub id.")
    ] = BUNDLED_MODEL,
) -> None:
    """Tell what is wrong with a template, a line a finding; exit 1 on errors."""
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
            typer.echo(f"{file}: nothing found")
        failed |= any(finding.severity == "error" for finding in findings)
    if failed:
        raise typer.Exit(1)


def tokenizer_of(model: str) -> Tokenizer:
    """The tokenizer of a model that could judge.

    Raises:
        CheckpointError: it has no chat template, or no ``tokenizers`` backend.
        OSError: there is no such model.
    """
    from transformers import AutoTokenizer

    from reward_serve.embedded.bundled import prepare_bundled
    from reward_serve.engines.tokenizer import ChatTokenizer

    folder = prepare_bundled() if model == BUNDLED_MODEL else model
    return ChatTokenizer(AutoTokenizer.from_pretrained(folder))
