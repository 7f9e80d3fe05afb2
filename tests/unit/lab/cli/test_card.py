from pathlib import Path
from typing import Any

import pytest
import yaml

import reward_serve_lab.cli.attack
import reward_serve_lab.cli.card
import reward_serve_lab.cli.evaluate
from reward_serve.client.check import Finding
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult, Status, failure
from tests.unit.lab.fakes import FakeClient, invoke, judged, reported, ruled, written

PARTS = "weights=org/model;device=cpu;template=final_answer@0123456789ab;mode=label;rules=gsm8k-17"
ABOUT = {"fingerprint": PARTS, "model": "mine"}
ROWS = [
    {"response": f"#### {n}", "reference": "3", "correct": n == 3, "format": "hash"}
    for n in range(5)
] + [
    {"response": f"So it is {n}.", "reference": "3", "correct": n in (3, 4), "format": "prose"}
    for n in range(5)
]


def asked(request: dict[str, Any]) -> tuple[str, str]:
    response = request.get("response") or request["messages"][-1]["content"]
    return response, request["reference"].rpartition("####")[2].strip()


class FakeService(FakeClient):
    """Rules decide `#### n`; the model reads `n.` at the end, and believes "answer is"."""

    def __init__(self) -> None:
        super().__init__(lambda request, _: self.verdict(request))
        self.explained = 0

    def verdict(self, request: dict[str, Any]) -> ScoreResult:
        response, reference = asked(request)
        by_rule = "####" in response
        result = ruled(response == f"#### {reference}") if by_rule else self.model(request)
        return result.model_copy(update={**ABOUT, "id": request["id"]})

    def model(self, request: dict[str, Any]) -> ScoreResult:
        response, reference = asked(request)
        accepts = response.endswith(f" {reference}.") or "answer is" in response.lower()
        return judged(0.9 if accepts else 0.2)

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        self.explained += 1
        model = self.model(request).model_copy(update={**ABOUT, "id": request["id"]})
        return Explanation(result=self.verdict(request), model=model)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeService:
    service = FakeService()
    for command in (
        reward_serve_lab.cli.attack,
        reward_serve_lab.cli.evaluate,
        reward_serve_lab.cli.card,
    ):
        monkeypatch.setattr(command, "client_for", lambda *_: service)
    monkeypatch.setattr(reward_serve_lab.cli.card, "FORMATS", written(tmp_path, *ROWS))
    here = {"CPU cores": "2, AVX2", "memory": "8 GiB", "GPUs": "none", "bundled judge": "in /home"}
    findings = [Finding(*fact) for fact in here.items()]  # the real one asks nvidia-smi
    monkeypatch.setattr(reward_serve_lab.cli.card, "examine_machine", lambda: findings)
    monkeypatch.chdir(tmp_path)
    return service


def carded(*arguments: object, file: str = "cards/mine.yaml") -> dict[str, Any]:
    result = invoke("card", "--attacks", 60, *arguments)
    assert result.exit_code == 0, result.output
    card: dict[str, Any] = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    return card


def test_a_card_has_the_figures_of_eval_and_attack(service: FakeService, tmp_path: Path) -> None:
    card = carded("--url", "http://user:secret@host.example:8000")
    evaluated = reported("eval", "lines.jsonl", folder=tmp_path)
    attacked = reported("attack", "--sample", 60, folder=tmp_path, code=1)
    served = card["labelled"]["lines"]["served"]
    for name in ("n", "agreement", "confusion", "ece", "unscored", "statuses"):
        assert served[name] == pytest.approx(evaluated[name], abs=1e-4)
    assert served["agreement_interval"] == pytest.approx(evaluated["agreement_interval"], abs=1e-4)
    assert served["by_rules"] == 0.5
    kinds = {"true_reject": 3, "false_accept": 0, "false_reject": 1, "true_accept": 1}
    assert served["kinds"]["prose"] == {**kinds, "unscored": 0}
    families = {name: counts["n"] for name, counts in attacked["families"].items()}
    resisted = card["attacks"]["served"]
    assert {name: family["n"] for name, family in resisted["families"].items()} == families
    assert resisted["false_accepts"] == attacked["false_accepts"] > 0
    right = card["right_answers_in_attacked_conversations"]
    assert right["accepted"] == right["n"] > 0
    assert {name: card[name] for name in ("model", "weights", "template", "mode")} == {
        "model": "mine",
        "weights": "org/model",
        "template": "final_answer@0123456789ab",
        "mode": "label",
    }
    assert card["fingerprint"] == PARTS
    assert card["command"] == "reward-serve card --attacks=60"
    assert card["summary"].startswith("90.0% agreement on 10 rows of lines, 0 of 7 wrong ones")
    assert card["versions"]["reward-serve"]
    assert {*card["machine"]} == {"CPU", "CPU cores", "memory", "GPUs"}
    assert not [text for text in ("host.example", "secret", str(tmp_path)) if text in str(card)]


def test_the_model_alone_is_asked_only_where_a_rule_decided(service: FakeService) -> None:
    card = carded()
    alone = card["labelled"]["lines"]["model_alone"]
    assert alone["confusion"]["true_accept"] == 1  # of the prose; it reads no marker
    assert (alone["by_rules"], alone["kinds"]["hash"]["false_reject"]) == (0, 1)
    labelled_and_attacks = [request for batch in service.asked[:5] for request in batch]
    assert len(labelled_and_attacks) == len(ROWS) + 60
    assert service.explained == sum("####" in asked(row)[0] for row in labelled_and_attacks)


def test_the_speeds_are_of_responses_that_no_cache_has(service: FakeService) -> None:
    card = carded()
    assert set(card["verdicts_per_s"]) == {"rows", "in_flight", "served", "model_alone"}
    assert card["verdicts_per_s"]["in_flight"] == 128
    *_, served, alone = service.asked
    assert (len(served), len(alone)) == (10, 5)
    assert all(request["response"].startswith("(") for request in (*served, *alone))
    assert not any("####" in request["response"] for request in alone)


def test_absent_verdicts_are_counted_and_are_not_wrong(service: FakeService) -> None:
    verdict = service.verdict

    def lost(request: dict[str, Any]) -> ScoreResult:
        if request.get("response") in ("#### 3", "So it is 4."):
            return failure(Status.TIMEOUT, "late").model_copy(update={"id": request["id"]})
        return verdict(request)

    service.answer = lambda request, _: lost(request)
    card = carded()
    served = card["labelled"]["lines"]["served"]
    assert (served["n"], served["unscored"], served["agreement"]) == (10, 2, 1.0)
    assert served["statuses"] == {"ok": 8, "timeout": 2}
    assert served["kinds"]["hash"]["unscored"] == 1
    assert "2 without a verdict" in card["summary"]


def test_a_card_is_refreshed_as_a_whole_and_own_rows_stand_beside(service: FakeService) -> None:
    Path("mine.yaml").write_text("old: figures\n", encoding="utf-8")
    Path("own.jsonl").write_text(Path("lines.jsonl").read_text("utf-8"), encoding="utf-8")
    card = carded("--data", Path("own.jsonl").absolute(), "--out", "mine.yaml", file="mine.yaml")
    assert "old" not in card
    assert {*card["labelled"]} == {"lines", "own"}
    assert card["command"] == "reward-serve card --attacks=60 --data=own.jsonl"


def test_without_rules_there_is_one_set_of_figures(service: FakeService) -> None:
    identity = {**ABOUT, "fingerprint": "weights=gpt-5-mini;endpoint=https://api.example/v1"}
    service.answer = lambda request, _: service.model(request).model_copy(
        update={**identity, "id": request["id"]}
    )
    card = carded()
    assert {*card["labelled"]["lines"]} == {*card["attacks"]} == {"served"}
    assert (card["mode"], card["template"], service.explained) == (None, None, 0)


def test_a_judge_without_verdicts_gets_no_card(service: FakeService) -> None:
    service.answer = lambda request, _: failure(Status.UNPARSEABLE, "no verdict").model_copy(
        update={"id": request["id"]}
    )
    result = invoke("card")
    assert result.exit_code == 1
    assert "lines: no row has a verdict; unparseable: no verdict" in result.stderr
    assert not Path("cards").exists()


def test_a_service_that_explains_nothing_is_named(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(request: dict[str, Any]) -> Explanation:
        raise ServiceUnavailableError("http://host: HTTP 404: Not Found")

    monkeypatch.setattr(service, "aexplain", refused)
    result = invoke("card", "--attacks", 60)
    assert (result.exit_code, "HTTP 404: Not Found" in result.stderr) == (1, True)
