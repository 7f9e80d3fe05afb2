"""The dashboard and the alerts of deploy/monitoring; loadtests/monitoring.py runs them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.monitoring import generate
from deploy.monitoring.generate import FOLDER, files
from docs.generate import metrics
from tests.rows import rows

PROMTOOL = shutil.which(
    Path(os.environ.get("PROMETHEUS", "prometheus")).with_name("promtool")
) or shutil.which("promtool")


@pytest.mark.parametrize("name", files(), ids=str)
def test_a_file_is_as_the_metrics_definitions_say(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == files()[name], "run `python -m deploy.monitoring.generate`"


def test_every_metric_is_in_a_panel_that_says_what_it_counts() -> None:
    panels = json.loads(files()["reward-serve.json"])["panels"]
    for name, _, _, description in metrics():
        (panel, *_) = (p for p in panels if f"`{name}`" in p["description"])
        assert description in panel["description"]
        assert any(name in target["expr"] for target in panel["targets"])


@pytest.mark.parametrize(("old", "new", "message"), rows(__file__, "errors"))
def test_a_query_of_what_is_not_defined_and_a_metric_that_is_not_shown_are_errors(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (FOLDER / "source.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "source.yaml").write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="ray_") as raised:
        files()
    assert message in str(raised.value)


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool beside PROMETHEUS= or in PATH")
@pytest.mark.parametrize("what", ["check", "test"])
def test_each_alert_fires_in_its_bad_series_and_in_no_quiet_one(what: str) -> None:
    rules = {
        "check": FOLDER / "rules.yaml",
        "test": Path(__file__).with_name("monitoring_rules.yaml"),
    }
    command = [str(PROMTOOL), what, "rules", str(rules[what])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
