import asyncio
import inspect
import math
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.client.rows import RefusedRowError
from reward_serve_trl import judge_components, judge_reward
from tests.fake_service import FakeService, Reply, dead_url


async def called(rewards: Any, completions: list[Any], **columns: Any) -> list[Any]:
    """What reward functions say of a batch, called as TRL calls them."""
    shared = {"prompts": ["p"] * len(completions), "completions": completions, **columns}
    return await asyncio.gather(*(reward(**shared) for reward in rewards))


async def test_completions_and_assistants_last_turns_are_in_order(service: FakeService) -> None:
    reward = judge_reward(url=service.url, name="judge")
    assert inspect.iscoroutinefunction(reward.__call__)  # as TRL asks of a callable object
    assert reward.__name__ == "judge"
    turns = [
        {"role": "assistant", "content": "#### 17"},
        {"role": "user", "content": "#### 17"},
        {"role": "assistant", "content": "#### 18"},
    ]
    completions: list[Any] = ["#### 18", "#### 17", "#### 19", turns]

    assert await called([reward], completions, answer=["18", "18", "19", "18"]) == [
        [1.0, 0.0, 1.0, 1.0]
    ]


async def test_a_failed_verdict_is_none_and_the_others_are_kept(service: FakeService) -> None:
    logged: dict[str, float] = {}
    columns = {"answer": ["18", "18"], "log_metric": logged.__setitem__}
    rewards = await called([judge_reward(url=service.url)], ["18 or 17?", "#### 18"], **columns)

    assert rewards == [[None, 1.0]]
    assert logged == {"judge/ok": 0.5, "judge/fallback": 0.0}


@pytest.mark.parametrize(("on_failure", "score"), [("rule", 1.0), ("none", None)])
async def test_a_dead_services_fallbacks_are_counted(on_failure: str, score: float | None) -> None:
    logged: dict[str, float] = {}
    settings: dict[str, Any] = {"timeout_s": 1, "max_attempts": 1}
    reward = judge_reward(url=dead_url(), on_failure=on_failure, **settings)
    rewards = await called([reward], ["#### 18"], answer=["18"], log_metric=logged.__setitem__)

    assert rewards == [[score]]
    assert logged == {"judge/ok": 0.0, "judge/fallback": score or 0.0}


async def test_functions_of_one_request_work_in_another_process(service: FakeService) -> None:
    parts = {name: {"score": score, "status": "ok"} for name, score in (("a", 1.0), ("b", 0.5))}
    reply = {"status": "ok", "score": 0.75, "components": parts}
    service.replies["/v1/score/batch"] = Reply({"results": [reply]})
    rewards = judge_components("a", "b", url=service.url)
    await called(rewards, ["#### 18"])
    copies = pickle.loads(pickle.dumps(rewards))
    assert [function.__name__ for function in copies] == ["a", "b"]
    assert await called(copies, ["#### 18"]) == [[1.0], [0.5]]
    assert len(service.calls) == 2


async def test_a_trainer_that_counts_none_as_zero_is_refused(service: FakeService) -> None:
    class GRPOWithReplayBufferTrainer:
        def _log_metric(self, name: str, value: float) -> None: ...

    trainer = type("Mine", (GRPOWithReplayBufferTrainer,), {})()
    with pytest.raises(TypeError, match="counts a reward of None as 0"):
        await called(
            [judge_reward(url=service.url)], ["18"], answer=["18"], log_metric=trainer._log_metric
        )
    assert not service.calls


@pytest.mark.parametrize("settings", [{"on_failur": "none"}, {"on_failure": "zero"}])
def test_a_wrong_setting_is_refused_when_the_function_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="on_failur"):
        judge_reward(url="http://127.0.0.1:1", **settings)


@pytest.mark.parametrize("gold", [None, math.nan, " ", [None]])
async def test_a_run_ends_if_its_first_samples_lack_gold(service: FakeService, gold: Any) -> None:
    reward = judge_reward(url=service.url)
    with pytest.raises(RefusedRowError, match=r"2 of 2 samples so far cannot.*reference: is mis"):
        await called([reward], ["#### 18"] * 2, answer=[gold] * 2)

    assert [r.keys() & {"reference"} for r in service.calls[0].body["requests"]] == [set()] * 2
    assert await called([reward], ["#### 18"] * 2, answer=["18", gold]) == [[1.0, None]]
    assert await called([reward], ["#### 18"] * 2, answer=[gold] * 2) == [[None, None]]


async def test_a_data_set_without_gold_answers_sends_no_reference(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply({"results": [{"status": "ok", "score": 0.5}]})
    reward = judge_reward(url=service.url, reference=None)

    assert await called([reward], ["a poem"], question=[math.nan]) == [[0.5]]
    sent = service.calls[0].body["requests"][0].keys()
    assert sent == {"response", "timeout_s", "id"}


async def test_a_missing_column_is_named() -> None:
    trls: dict[str, Any] = dict.fromkeys(["completion_ids", "trainer_state", "log_metric"])
    with pytest.raises(KeyError, match=r"no column 'answer'; its columns .*: \['solution'\]; pass"):
        await called([judge_reward(url="http://x")], ["1"], solution=["1"], **trls)
    with pytest.raises(KeyError, match=r"no column 'criteria'.*judge_reward\(rubric=\.\.\.\)"):
        await called([judge_reward(url="http://x", rubric="criteria")], ["1"], answer=["1"])


async def test_trls_table_has_what_was_judged(service: FakeService) -> None:
    table: dict[str, list[Any]] = {}
    columns: dict[str, Any] = {"log_extra": table.__setitem__, "answer": ["18", "18"]}
    columns["trainer_state"] = SimpleNamespace(global_step=4)
    reward = judge_reward(url=service.url)
    await called([reward], ["18 or 17?", "#### 18"], **columns)

    assert table["judge_status"] == ["unparseable", "ok"]
    assert table["judge_source"] == [None, "rule"]
    assert table.keys() == {f"judge_{c}" for c in ("status", "source", "label", "probability")}


async def test_samples_are_keyed_by_their_place_in_the_whole_step(service: FakeService) -> None:
    class Trainer:
        model = SimpleNamespace(training=True)
        accelerator = SimpleNamespace(process_index=1, num_processes=2)
        args = SimpleNamespace(run_name=None, output_dir="runs/first/")
        num_generations, num_generations_eval = 4, 1

        def _log_metric(self, name: str, value: float) -> None: ...

    reward, trainer = judge_reward(url=service.url), Trainer()
    state = SimpleNamespace(global_step=7)
    columns = {"answer": ["18"] * 2, "trainer_state": state, "log_metric": trainer._log_metric}

    async def keys(**others: Any) -> list[Any]:
        await called([reward], ["#### 18"] * 2, **{**columns, **others})
        sent = service.calls[-1].body["requests"]
        return [(*request["metadata"].values(), request.get("group")) for request in sent]

    second_half = [("first", 7, "7-0-2", "7-0"), ("first", 7, "7-0-3", "7-0")]
    assert await keys() == second_half
    assert await keys() == [("first", 7, "7-1-2", "7-1"), ("first", 7, "7-1-3", "7-1")]
    trainer.model.training = False
    evaluated = [("first/eval", 7, "7-2-0", "7-2"), ("first/eval", 7, "7-3-0", "7-3")]
    assert await keys() == evaluated
    trainer.model.training = True
    assert await keys() == second_half  # in another run of the function, or after a resume
    assert await keys(log_metric=None) == [(7, None)] * 2  # of trainers that show their state alone


async def test_a_column_data_source_is_sent_beside_the_samples_keys(service: FakeService) -> None:
    state = SimpleNamespace(global_step=7)
    columns: dict[str, Any] = {"answer": ["18"] * 2, "data_source": ["openai/gsm8k", None]}
    for others in ({}, {"trainer_state": state}):
        await called([judge_reward(url=service.url)], ["#### 18"] * 2, **columns, **others)
    sent = [request.get("metadata") for call in service.calls for request in call.body["requests"]]
    of_row, keys = {"data_source": "openai/gsm8k"}, {"step": 7}
    assert sent == [of_row, None, {**of_row, **keys}, keys]


async def test_each_component_is_a_column_with_none_if_absent(service: FakeService) -> None:
    def result(**scores: float | None) -> dict[str, Any]:
        parts = {
            name: {"score": score, "status": "error" if score is None else "ok"}
            for name, score in scores.items()
        }
        failed = None in scores.values()
        whole = {"status": "error", "score": None} if failed else {"status": "ok", "score": 0.5}
        return {**whole, "components": parts}

    results = [result(true=1.0, brief=0.0), result(true=0.0, brief=None), result(own=1.0)]
    service.replies["/v1/score/batch"] = Reply({"results": results})
    rewards = judge_components("true", "brief", rubric="rubric", url=service.url, max_attempts=1)
    criteria = [{"name": "true", "text": "It is true.", "weight": None}]
    components = await called(rewards, ["a", "b", "c"], rubric=[criteria, "style", None])

    assert [reward.__name__ for reward in rewards] == ["true", "brief"]
    assert components == [[1.0, 0.0, None], [0.0, None, None]]
    assert len(service.calls) == 1
    asked = [request.get("rubric") for request in service.calls[0].body["requests"]]
    assert asked == [[{"name": "true", "text": "It is true."}], "style", None]


async def test_a_prompts_completions_are_judged_against_each_other(service: FakeService) -> None:
    reward = judge_reward(url=service.url, reference=None, group_size=2)
    turns = [{"role": "user", "content": "P?"}]
    scores = await reward(
        prompts=["p", "p", "q", "q", turns, turns],
        completions=["a", "aa", "bbb", "", "a", "aa"],
        question=["P?", "P?", None, None, None, None],
    )

    assert scores == [0.5, 1.0, 1.0, None, 0.5, 1.0]
    bodies = [call.body for call in service.calls if call.path == "/v1/score/group"]
    asked = {body.get("question"): body["responses"] for body in bodies}
    assert asked == {"P?": ["a", "aa"], "q": ["bbb", ""], None: ["a", "aa"]}
    assert [body["messages"] for body in bodies if "messages" in body] == [turns]


@pytest.mark.parametrize("prompts", [["p", "p", "p"], ["p", "q", "q", "p"]])
async def test_a_batch_of_cut_groups_is_refused(service: FakeService, prompts: list[str]) -> None:
    reward = judge_reward(url=service.url, reference=None, group_size=2)
    with pytest.raises(ValueError, match="does not consist of groups of this size"):
        await reward(prompts=prompts, completions=["a"] * len(prompts))


async def test_async_grpos_worker_sends_the_tools_of_the_reward(service: FakeService) -> None:
    """In a spawned process, without the trainer, and with the keys of gpt-oss's chat template."""
    tool = {"name": "add", "parameters": {}}
    reward = judge_reward(url=service.url, tools=[tool], turns=True, template="t")
    copied = pickle.loads(pickle.dumps(reward))
    call = {"type": "function", "function": {"name": "add", "arguments": {"x": math.nan}}}
    turn = {"role": "assistant", "content": "#### 18", "thinking": "", "tool_calls": [call]}
    await called([copied], [[turn]], answer=["18"])

    asked = service.calls[0].body["requests"][0]
    call["function"] = {"name": "add", "arguments": {"x": "NaN"}}
    del turn["thinking"]
    assert asked["messages"] == [{"role": "user", "content": "p"}, turn]
    assert (asked["tools"], asked["turns"], asked["template"]) == ([tool], True, "t")
    with pytest.raises(
        ValueError, match="group_size: groups are judged by no rubric, and not by turn"
    ):
        judge_reward(url=service.url, turns=True, group_size=4)
