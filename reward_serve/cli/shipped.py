"""``reward-serve deployments`` and ``reward-serve requirements``: files shipped in the wheel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from reward_serve.shipped import Build, deployments_files, requirements_file

deployments = typer.Typer(no_args_is_help=True, help="List, print and copy deployments files.")

Name = Annotated[str, typer.Argument(help="Name of a shipped file, such as judge.yaml.")]


@deployments.command("list")
def list_files() -> None:
    """List the files, each with its first comment."""
    for name, path in deployments_files().items():
        with path.open(encoding="utf-8") as lines:
            typer.echo(f"{name:<22}{lines.readline().removeprefix('#').strip()}")


@deployments.command()
def show(name: Name) -> None:
    """Print a file."""
    typer.echo(shipped_file(name).read_text(encoding="utf-8"), nl=False)


@deployments.command()
def copy(
    name: Name,
    to: Annotated[Path, typer.Argument(help="Target file or folder.")] = Path(),
) -> None:
    """Copy a file to edit it; never overwrites an existing file."""
    target = to / shipped_file(name).name if to.is_dir() else to
    if target.exists():
        raise typer.BadParameter(f"{target}: already exists; choose another name")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"{target}: the folder {target.parent} does not exist")
    shutil.copyfile(shipped_file(name), target)
    typer.echo(str(target))


def requirements(
    build: Annotated[Build, typer.Argument(help="Build of vLLM: cpu or cuda.")],
) -> None:
    """Print the pinned requirements of a serving environment.

    Install them with `reward-serve requirements cpu | uv pip install --no-deps
    --torch-backend=cpu -r -`; for cuda, omit --torch-backend.
    """
    typer.echo(requirements_file(build).read_text(encoding="utf-8"), nl=False)


def shipped_file(name: str) -> Path:
    """The path of a shipped deployments file, by its name with or without ``.yaml``.

    Raises:
        typer.BadParameter: no shipped file has this name.
    """
    files = deployments_files()
    path = files.get(name) or files.get(f"{name}.yaml")
    if path is None:
        raise typer.BadParameter(f"no file is named {name!r}; choose from {', '.join(files)}")
    return path
