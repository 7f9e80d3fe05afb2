"""The code blocks of a documentation page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
COOKBOOK = sorted((DOCS / "cookbook").glob("*.md"))
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(match[1], match[2] or None, match[3]) for match in _BLOCK.finditer(text)]


def commands(block: Block) -> Iterator[str]:
    """The lines of a shell block, continued ones joined, without comments."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if command := re.sub(r"\s+#.*$", "", line).strip():
            yield command
