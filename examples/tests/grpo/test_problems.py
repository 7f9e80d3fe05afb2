from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
import yaml

from examples.grpo import problems
from examples.grpo.problems import Split, make
from examples.grpo.samples import right_by_format, right_by_value
from examples.grpo.solutions import MARKED_EVERY, solution


def test_the_same_seed_writes_the_same_problems() -> None:
    assert make("train", 50, 3) == make("train", 50, 3)
    assert make("train", 50, 3) != make("train", 50, 4)


def test_no_problem_is_written_twice() -> None:
    questions = [problem.question for problem in make("train", 2000, 0)]

    assert len(set(questions)) == 2000


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
        assert all(step.result > 0 for step in problem.steps)
        assert problem.unit in problem.question or problem.unit == "years"


def test_every_solution_ends_in_the_right_answer() -> None:
    rng = Random(0)
    for index, problem in enumerate(make("train", 400, 1)):
        written = solution(problem, index, rng)

        assert right_by_value(written, problem.answer), written
        assert right_by_format(written, problem.answer) == (index % MARKED_EVERY == 0)


def test_the_templates_are_read_as_data() -> None:
    templates = yaml.safe_load((Path(problems.__file__).parent / "templates.yaml").read_text())

    assert all(re.fullmatch(r"a( [-+*/] [bc]){1,2}", t["steps"]) for t in templates["train"])
