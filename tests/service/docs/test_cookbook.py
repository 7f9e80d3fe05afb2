"""Every page of the cookbook runs as it stands, with what needs a model's weights as a dry run."""

import contextlib
import importlib
import io
import json
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

from reward_serve.client import ScoringError
from reward_serve.criteria import Rubric
from reward_serve.reward_models.rule import own_function
from reward_serve.schema import ScoreRequest
from reward_serve_skyrl import GSM8kJudgeEnv
from tests.fake_service import FakeService, Reply
from tests.service.docs.pages import COOKBOOK, DOCS, Block, blocks, commands
from tests.unit.cli.test_main import invoke

pages = pytest.mark.parametrize("page", COOKBOOK, ids=lambda page: page.stem)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def save(page: Path) -> list[Block]:
    page_blocks = blocks(page)
    for block in page_blocks:
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
    return page_blocks


def run(command: str, service: FakeService) -> str:
    """What the command prints; `serve` as a dry run."""
    words = shlex.split(command.replace("http://127.0.0.1:8001", service.url))
    if words[0] != "reward-serve":
        subprocess.run(["bash", "-ec", command], check=True, capture_output=True)
        return ""
    target = words.pop() if len(words) > 2 and words[-2] == ">" else None
    if target:
        words.pop()
    if words[1] == "serve" and "--dry-run" not in words:
        words.append("--dry-run")
    if words[1:3] in (["template", "check"], ["rubric", "check"]) or words[1] == "ui":
        return ""  # a tokenizer: tests/service/lab; a browser: tests/long/lab
    result = invoke(*words[1:])
    assert result.exit_code == 0, result.output
    if target:
        Path(target).write_text(result.stdout, encoding="utf-8")
    return result.stdout


@pages
def test_a_page_has_at_most_40_lines(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 40


@pages
def test_its_commands_run_and_print_what_it_says(page: Path, service: FakeService) -> None:
    page_blocks = save(page)
    if page.stem == "upgrade":
        save(DOCS / "cookbook/good-enough.md")  # the labelled rows
    if page.stem == "own-rubric":  # its model is a rubric's, the stand-in's a rule
        scored = {"status": "ok", "score": 0.5, "source": "judge"}
        service.replies["/v1/score/batch"] = Reply({"results": [scored]})
    printed = ""
    for block in page_blocks:
        if block.language == "sh":
            printed = ""
            for command in commands(block):
                output = run(command, service)
                printed += output if " check " in command else ""
        elif block.language == "python" and block.title == "bound.py":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block.text, block.title, "exec"), {})
            printed = out.getvalue()
        elif block.language == "text":
            assert printed == block.text


@pages
def test_its_python_compiles_and_its_rows_are_json(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, block.title or page.name, "exec")
        elif block.language == "json":
            assert all(json.loads(line) for line in block.text.splitlines())


async def test_the_function_scores_and_is_found() -> None:
    save(DOCS / "cookbook/own-function.md")
    verifier = own_function("brevity:score")
    right = ScoreRequest(response="9 + 9\n18", reference="18")
    grades = await verifier.verify(right, ["18", "19", ""])
    assert [grade.score for grade in grades] == [1.0, 0.5, None]
    sys.modules.pop("brevity", None)


def test_the_reward_kits_criterion_scores_or_raises(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = types.ModuleType("rewardkit")  # whose decorator needs Python 3.12
    kit.criterion = lambda function: function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rewardkit", kit)
    save(DOCS / "cookbook/harbor.md")
    answers, scores = folder / "answer.txt", []
    criterion = importlib.import_module("quality").right_answer
    for text in ("#### 18", "#### 17"):
        answers.write_text(text)
        scores.append(criterion(folder))
    assert scores == [{"score": s, "reasoning": "", "model": "rule"} for s in (1.0, 0.0)]
    answers.write_text("18 or 17, who knows?")
    with pytest.raises(ScoringError, match="no verdict: unparseable"):
        criterion(folder)


def test_the_environment_runs_the_tool_and_asks_the_judge_at_its_end(service: FakeService) -> None:
    save(DOCS / "cookbook/multi-turn.md")
    row = {"reward_spec": {"ground_truth": "18"}, "extra_info": {"index": 0}, "max_turns": 8}
    environment = GSM8kJudgeEnv({"url": service.url, "tools": "calculator:Calculator"}, row)
    sys.modules.pop("calculator", None)
    environment.init([{"role": "user", "content": "9 * 2?"}])
    call = {"name": "multiply", "arguments": {"a": 9, "b": 2}}
    first = environment.step(f"<tool_call>{json.dumps(call)}</tool_call>")
    assert (first["done"], first["observations"][0]["content"], service.calls) == (False, "18", [])
    second = environment.step("#### 18")
    assert (second["done"], second["reward"]) == (True, 1.0)


def test_the_rubric_on_its_page_is_one_that_every_judge_can_answer() -> None:
    save(DOCS / "cookbook/own-rubric.md")
    rubric = Rubric.validate_python(yaml.safe_load(Path("support.yaml").read_bytes()))
    assert [criterion.weight for criterion in rubric] == [3, 1, -2]


async def test_two_rewards_are_the_components_of_one_request(service: FakeService) -> None:
    save(DOCS / "cookbook/two-rewards.md")
    module = importlib.import_module("two_rewards")
    sys.modules.pop("two_rewards", None)
    parts = {"length": {"status": "ok", "score": 300}, "correct": {"status": "unparseable"}}
    result = {"status": "unparseable", "components": parts, "model": "both"}
    service.replies["/v1/score/batch"] = Reply({"results": [result] * 2})
    texts, rows = ["#### 18", "#### 17"], {"answer": ["18", "18"]}
    got = [await reward(prompts=["?", "?"], completions=texts, **rows) for reward in module.rewards]
    assert got == [[None, None], [300.0, 300.0]]
    (call,) = service.calls
    assert {request["model"] for request in call.body["requests"]} == {"both"}


def test_the_fingerprint_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (b for b in save(DOCS / "cookbook/upgrade.md") if b.title == "fingerprint.py")
    exec(compile(block.text, "fingerprint.py", "exec"), {})
    assert "verifier=gsm8k" in capsys.readouterr().out
