"""Reports as text or as one HTML file that opens offline: the templates in ``pages``.

Texts are untrusted: Jinja escapes them, and the pages' policy forbids scripts and requests.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from reward_serve.lines import OWNER_ONLY
from reward_serve_lab.evaluation.tables import shown_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rendered(template: str, **values: Any) -> str:
    """A template of ``pages``."""
    from jinja2 import Environment, PackageLoader, select_autoescape

    pages = Environment(
        loader=PackageLoader(__package__, "pages"), autoescape=select_autoescape(),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.filters |= {"shown": shown_text, "cells": _cells, "svg": _svg}
    return pages.get_template(template).render(values)


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write a page, with the command line; raises ``OSError``."""
    command = shlex.join(["reward-serve", *sys.argv[1:]])
    values["command"] = re.sub(r"//[^/@\s]*@", "//", command)  # without a URL's password
    page = rendered(template, **values)
    with open(path, "w", encoding="utf-8", errors="backslashreplace", opener=OWNER_ONLY) as file:
        file.write(page)


def _cells(table: Table) -> list[list[str]]:
    columns = [[column.header, *column.cells] for column in table.columns]
    return [
        [Text.from_markup(str(cell)).plain for cell in row] for row in zip(*columns, strict=True)
    ]


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return "".join(file.getvalue().partition("<svg")[1:])
