"""``reward-serve template check`` and ``rubric check``: find mistakes in templates and rubrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from reward_serve.cli.console import printable
from reward_serve.cli.shipped import template
from reward_serve.config.engine import BUNDLED_MODEL
from reward_serve.engines.base import Tokenizer
from reward_serve.engines.checkpoint import CheckpointError, check_hub_id, is_folder
from reward_serve_lab.linting.rubric_file import check_rubric
from reward_serve_lab.linting.template_file import Finding, check_file

__all__ = ["rubric", "template"]

rubric = typer.Typer(no_args_is_help=True)
_Model = Annotated[
    str, typer.Option(help="Judge model, for its tokenizer: bundled, a folder or a hub id.")
]


@template.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Template files (YAML).")],
    model: _Model = BUNDLED_MODEL,
) -> None:
    """Check template files and print one finding per line; exit 1 on errors."""
    print_findings(files, model, check_file)


@rubric.callback()
def _rubric_group() -> None:
    """Check your own rubrics."""


@rubric.command("check")
def check_rubrics(
    files: Annotated[list[Path], typer.Argument(help="Rubric files (YAML lists of criteria).")],
    model: _Model = BUNDLED_MODEL,
) -> None:
    """Check rubric files and print one finding per line; exit 1 on errors.

    A model that only this machine lacks is a warning.
    """
    print_findings(files, model, check_rubric, is_required=False)


def print_findings(
    files: Sequence[Path],
    model: str,
    check: Callable[[Path, Tokenizer], list[Finding]],
    is_required: bool = True,
) -> None:
    """Print each file's findings.

    Raises:
        typer.Exit: there are errors, or the model has no tokenizer and is required.
    """
    try:
        tokenizer = tokenizer_of(model)
    except (CheckpointError, OSError, ValueError) as error:
        message = " ".join(str(error).split()).removeprefix("engine.model: ")
        typer.echo(
            f"{'' if is_required else 'on this machine, '}--model {model}: {message}", err=True
        )
        if is_required:
            raise typer.Exit(1) from None
        tokenizer = tokenizer_of(BUNDLED_MODEL)
    failed = False
    for file in files:
        findings = check(file, tokenizer)
        for finding in findings:
            typer.echo(printable(f"{file}: {finding}"))
        if not findings:
            typer.echo(f"{file}: no findings")
        failed |= any(finding.severity == "error" for finding in findings)
    if failed:
        raise typer.Exit(1)


def tokenizer_of(model: str) -> Tokenizer:
    """Load the tokenizer of a judge model.

    Raises:
        CheckpointError: it has no chat template or no ``tokenizers`` backend, or the hub has no
            such model or cannot be reached.
        OSError: the folder has no tokenizer.
    """
    from transformers import AutoTokenizer

    from reward_serve.engines.vllm import ChatTokenizer
    from reward_serve_judge.weights import prepare_bundled

    if model != BUNDLED_MODEL and not is_folder(model):
        check_hub_id(model)  # transformers would try for a minute
    folder = prepare_bundled() if model == BUNDLED_MODEL else model
    return ChatTokenizer(AutoTokenizer.from_pretrained(folder))
