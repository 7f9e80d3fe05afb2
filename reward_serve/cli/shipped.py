"""``reward-serve deployments``, ``template`` and ``requirements``: the shipped files.

In a wheel they are inside the package; in a clone they are in the top-level folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

import reward_serve
from reward_serve.config.resolve import Build

Files = Callable[[], dict[str, Path]]
_PACKAGE = Path(reward_serve.__file__).parent
Name = Annotated[str, typer.Argument(help="Name of a shipped file, with or without .yaml.")]


def deployments_files() -> dict[str, Path]:
    """The shipped deployments files, by name."""
    return {path.name: path for path in sorted(_folder("deployments").glob("*.yaml"))}


def template_files() -> dict[str, Path]:
    """The files of the shipped judging templates, by file name."""
    return {path.name: path for path in sorted((_PACKAGE / "templates").glob("*.yaml"))}


def requirements_file(build: Build) -> Path:
    """The pinned requirements of a serving environment with this build of vLLM."""
    return _folder("requirements") / f"{build}.txt"


def _folder(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def _commands(what: str, files: Files) -> typer.Typer:
    """The commands ``list`` and ``show`` of a folder of shipped files."""
    app = typer.Typer(no_args_is_help=True, help=f"List and print {what}.")

    @app.command("list")
    def list_files() -> None:
        """List the files, each with the first sentence of its comment."""
        for name, path in files().items():
            lines = path.read_text(encoding="utf-8").splitlines()
            comment = takewhile(lambda line: line.startswith("#"), lines)
            text = " ".join(line.removeprefix("#").strip() for line in comment)
            typer.echo(f"{name:<22}{re.split(r'(?<=[.?]) ', text)[0]}")

    @app.command()
    def show(name: Name) -> None:
        """Print a file; `show NAME > FILE` copies it, to edit."""
        typer.echo(shipped_file(name, files).read_text(encoding="utf-8"), nl=False)

    return app


deployments = _commands("deployments files", deployments_files)
template = _commands("judging templates", template_files)


def requirements(
    build: Annotated[Build, typer.Argument(help="Build of vLLM: cpu or cuda.")],
) -> None:
    """Print the pinned requirements of a serving environment.

    Install them with `reward-serve requirements cpu | uv pip install --no-deps --compile-bytecode
    --torch-backend=cpu -r -`; for cuda, omit --torch-backend.
    """
    typer.echo(requirements_file(build).read_text(encoding="utf-8"), nl=False)


def shipped_file(name: str, among: Files = deployments_files) -> Path:
    """The path of a shipped file, by its name with or without ``.yaml``."""
    files = among()
    path = files.get(name) or files.get(f"{name}.yaml")
    if path is None:
        raise typer.BadParameter(
            f"{name}: there is no such file; the shipped ones are {', '.join(files)}"
        )
    return path
