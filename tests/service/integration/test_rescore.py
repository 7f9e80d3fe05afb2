"""A log of rules is scored again by the real judge, with two templates."""

import json
from pathlib import Path

from tests.service.integration.test_scoring import PROSE, RIGHT, WRONG
from tests.unit.lab.cli.test_rescore import lines_of
from tests.unit.lab.evaluation.test_rescored import LOGGED
from tests.unit.lab.fakes import invoke


def test_the_judge_decides_what_rules_left_by_one_template(url: str, tmp_path: Path) -> None:
    log = tmp_path / "verdicts-rule-1.jsonl"
    lines = [
        {
            **LOGGED, "response_tail": row["response"], "response_characters": len(row["response"]),
            "score": score, "status": "ok" if score is not None else "unparseable", "sample": n,
        }
        for n, (row, score) in enumerate([(RIGHT, 1.0), (WRONG, 0.0), (PROSE, None)])
    ]  # fmt: skip
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    result = invoke("rescore", log, "--with", url)
    assert result.exit_code == 0, result.output
    out = tmp_path / "rescored-verdicts-rule-1.jsonl"
    by_sample = {line["sample"]: line for line in lines_of(out)}
    assert [by_sample[n]["score"] for n in range(2)] == [1.0, 0.0]
    assert by_sample[2]["score"] in (0.0, 1.0)
    assert [by_sample[n]["source"] for n in range(2)] == ["rule", "rule"]
    assert by_sample[2]["source"] in ("judge", "cache")
    assert all("template=final_answer@" in line["fingerprint"] for line in by_sample.values())
    assert "0 of 1 lose their gradient, 0 gain one" in result.stdout
    before = out.read_bytes()
    refused = invoke("rescore", log, "--with", url, "--template", "problem")
    assert (refused.exit_code, "give another --out" in refused.stderr) == (2, True)
    again = ("rescore", log, "--with", url, "--out", tmp_path / "b.jsonl")
    needs = invoke(*again, "--template", "problem")
    assert needs.exit_code == 1
    assert "3 have no result: invalid: question: template 'problem' needs it" in needs.stderr
    assert out.read_bytes() == before
