"""Tables of tests that are data: texts, and what is said of them."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml


def rows(file: str, table: str) -> list[Any]:
    """The rows of a table in the YAML file beside a test's file; the keys of a mapping are ids."""
    content = _tables(Path(file).with_suffix(".yaml"))[table]
    if isinstance(content, dict):
        return [pytest.param(*row, id=name) for name, row in content.items()]
    return list(content)


@cache
def _tables(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
