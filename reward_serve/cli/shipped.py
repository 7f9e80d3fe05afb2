"""``reward-serve deployments`` and ``reward-serve requirements``: what a wheel carries."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from reward_serve.shipped import Build, deployments_files, requirements_file

deployments = typer.Typer(no_args_is_help=True, help="The deployments files that are shipped.")

Name = Annotated[str, typer.Argument(help="Of a shipped file, such as judge.yaml.")]


@deployments.command("list")
def list_files() -> None:
    """Name each file, with its first line, which says what it serves."""
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
    to: Annotated[Path, typer.Argument(help="A file or a folder.")] = Path(),
) -> None:
    """Copy a file, to be edited; one that is there already is left alone."""
    target = to / shipped_file(name).name if to.is_dir() else to
    if target.exists():
        raise typer.BadParameter(f"{target}: exists; name another file")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"{target}: there is no folder {target.parent}")
    shutil.copyfile(shipped_file(name), target)
    typer.echo(str(target))


def requirements(
    build: Annotated[Build, typer.Argument(help="Of vLLM: cpu, or cuda.")],
) -> None:
    """Print the compiled requirements of an environment that serves.

    Install them with `reward-serve requirements cpu | uv pip install --no-deps
    --torch-backend=cpu -r -`; with cuda, leave --torch-backend out.
    """
    typer.echo(requirements_file(build).read_text(encoding="utf-8"), nl=False)


def shipped_file(name: str) -> Path:
    """A shipped deployments file, by its name with or without ``.yaml``.

    Raises:
        typer.BadParameter: there is no such file.
    """
    files = deployments_files()
    path = files.get(name) or files.get(f"{name}.yaml")
    if path is None:
        raise typer.BadParameter(f"there is no {name!r}; choose of {', '.join(files)}")
    return path
