"""The generated reference is that of the code, and nothing links to nowhere."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from docs.generate import DOCS, _Config, pages
from examples.gsm8k import tables
from tests.fake_service import FakeService
from tests.service.docs.pages import blocks
from tests.unit.cli.test_main import invoke

ROOT = DOCS.parent
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


@pytest.mark.parametrize("path", pages(), ids=str)
def test_a_generated_page_is_as_the_code_says(path: str) -> None:
    committed = (DOCS / path).read_text(encoding="utf-8")
    assert committed == pages()[path], "run `python -m docs.generate`"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", tracked(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_broken(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S
    )
    broken = []
    for target, anchor in _LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = Path(os.path.normpath(page.parent / target)) if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Config)
    listed = re.findall(r"[\w/-]+\.md", str(config["nav"]))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_readers_guide_names_what_exists() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    guide = guide[guide.index("## Read") : guide.index("## Add")]
    files = [*ROOT.glob("reward_serve/**/*.py"), *ROOT.glob("answers/*/*.py")]
    code = "\n".join(file.read_text("utf-8") for file in files)
    defined = re.findall(r"^ *(?:async )?(?:def|class) (\w+)|^ *(\w+)(?:: | = )", code, re.M)
    known = {name for names in defined for name in names}
    named = {part for name in re.findall(r"`([\w.]+)`", guide) for part in name.split(".")}
    assert named - known <= {"py", "notation"}  # parts of file names


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Names that Python code imports from our distributions, each with its module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reward_serve"):
            yield from ((str(node.module), alias.name) for alias in node.names)


WRITTEN = [p for p in DOCS.rglob("*.md") if p.parent.name not in ("development", "reference")]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_a_pages_python_imports_is_there(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            for module, name in imported(block.text):  # SkyRL's own modules are not installed here
                spec = importlib.util.find_spec(module)
                assert spec is not None and spec.origin is not None, module
                source = Path(spec.origin).read_text(encoding="utf-8")
                assert re.search(rf"(class|def|import) .*\b{name}\b", source), (module, name)


def test_the_tutorials_question_is_decided_by_a_rule(service: FakeService) -> None:
    (block,) = (b for b in blocks(DOCS / "tutorial.md") if b.text.startswith("reward-serve ask"))
    words = shlex.split(block.text)[1:]
    result = invoke(*words, "--url", service.url)
    assert result.stdout.splitlines() == ["score: 1.0", "status: ok", "source: rule"]
    words[2] = "It comes to eighteen."  # which the page says that the model decides
    assert "score:" not in invoke(*words, "--url", service.url).stdout


def test_the_tables_of_skyrls_tutorial_are_those_that_its_command_prints() -> None:
    page = (DOCS / "tutorial-skyrl.md").read_text(encoding="utf-8")
    runs = ROOT / "examples/grpo/figures/results.json"
    assert f"{runs.relative_to(ROOT)}/{{rule,judge}}-sync --curve docs/tutorial-skyrl.svg" in page
    app = typer.Typer()
    app.command()(tables.main)
    printed = CliRunner().invoke(app, [f"{runs}/rule-sync", f"{runs}/judge-sync"])
    seconds, _ = printed.output.split("\n\n")
    assert seconds.startswith("| seconds per step | sync rule")
    assert seconds in page


def test_the_block_for_verl_is_that_of_the_launch_script() -> None:
    script = (ROOT / "examples/verl/run_grpo.sh").read_text(encoding="utf-8")
    block = next(b for b in blocks(DOCS / "how-to/verl.md") if "custom_reward" in b.text)
    settings = re.findall(r"^  (\S+=\S+)", block.text, re.M)
    assert len(settings) == 11
    assert [setting for setting in settings[:-1] if setting not in script] == []
