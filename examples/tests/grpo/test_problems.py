"""The task, the data set in its place, the warm-up's solutions and the policy's prompt."""

import json
import re
from importlib import resources
from pathlib import Path
from random import Random

import pytest
import typer

from examples.grpo import problems
from examples.grpo.data_server import DataServer, read_data
from examples.grpo.problems import Split, make, prompt_tokens
from examples.grpo.samples import right_by_format, right_by_value
from examples.grpo.warm_up import MARKED_EVERY, solution


def test_problems_held_out_share_no_template_with_those_trained_on() -> None:
    texts = problems._texts()
    skeletons = {
        split: {re.sub(r"\{\w+\}", "_", template["text"]) for template in texts[split]}
        for split in ("train", "held_out")
    }

    assert not skeletons["train"] & skeletons["held_out"]


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_the_answer_follows_from_the_numbers_of_the_question(split: Split) -> None:
    templates = problems._texts()[split]
    for problem in make(split, 200, 0):
        numbers = map(int, re.findall(r"\d+", problem.question))
        names = re.findall(r"\{([abc])\}", templates[problem.template]["text"])
        value = eval(templates[problem.template]["steps"], dict(zip(names, numbers, strict=True)))

        assert value == problem.answer > 0
        assert problem.unit in problem.question or problem.unit == "years"


def test_every_solution_ends_in_the_right_answer() -> None:
    rng = Random(0)
    for index, problem in enumerate(make("train", 400, 1)):
        written = solution(problem, index, rng)

        assert right_by_value(written, problem.answer), written
        assert right_by_format(written, problem.answer) == (index % MARKED_EVERY == 0)


def test_qwen3_is_asked_not_to_think() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    template = resources.files("trl") / "chat_templates" / "qwen3.jinja"
    qwen3 = PreTrainedTokenizerFast(
        tokenizer_object=backend, chat_template=template.read_text(encoding="utf-8")
    )
    text = qwen3.decode(prompt_tokens(qwen3, "What is 9 + 9?"))
    assert text == (
        "<|im_start|>system\nEnd with #### <number>.<|im_end|>\n"
        "<|im_start|>user\nWhat is 9 + 9?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_a_step_has_the_same_problems_in_every_run_of_a_seed_and_an_epoch_has_all() -> None:
    server = DataServer(0, read_data(""))
    assert server.batch(7, 4) == DataServer(0, read_data("")).batch(7, 4)
    assert server.batch(7, 4) != DataServer(1, read_data("")).batch(7, 4)
    assert len({index for step in range(500) for index, _ in server.batch(step, 4)}) == 2000
    assert len(server.held_out()) == 200


def test_a_file_is_served_with_every_20th_row_held_out(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"question": f"Q{n}?", "answer": ["Paris", "the city"]} for n in range(40)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = read_data(str(file))

    assert [problem.question for problem in data.held_out] == ["Q0?", "Q20?"]
    assert data.train[0].answer == ["Paris", "the city"]
    assert sorted(index for index, _ in DataServer(0, data).batch(0, 38)) == list(range(38))
    with pytest.raises(typer.BadParameter, match="an answer, which is a number"):
        read_data(str(file), "rule")
