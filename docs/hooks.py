"""What mkdocs does not do: links out of ``docs/`` become names of files, the search gets a name.

In a clone, those links work.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")
_log = logging.getLogger("mkdocs.hooks.outside")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace links that leave the documentation; a missing target is a warning."""
    docs = Path(config["docs_dir"]).resolve()

    def replaced(match: re.Match[str]) -> str:
        target = (docs / page.file.src_uri).parent / match[2]
        target = target.resolve()
        if target.is_relative_to(docs):
            return match[0]
        if not target.exists():
            _log.warning("%s: no file %s", page.file.src_uri, match[2])
        where = f"`{target.relative_to(docs.parent)}`"
        return where if match[1].strip("`") in where else f"{match[1]} ({where})"

    return _LINK.sub(replaced, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the theme's search dialog for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


on_post_template = on_post_page  # the page for what is not found
