from __future__ import annotations

import pytest

from examples.grpo.placement import Placement, resources_of


def test_a_part_stands_where_its_resource_is() -> None:
    placement = Placement(resources=resources_of(["workers=rollout", "engine=policy"]))

    assert placement.options("workers") == {"num_cpus": 0, "resources": {"rollout": 0.001}}
    assert placement.options("data") == {"num_cpus": 0, "resources": None}


@pytest.mark.parametrize("pair", ["learner=gpu", "workers", "workers="])
def test_an_unknown_part_or_no_resource_is_refused(pair: str) -> None:
    with pytest.raises(ValueError, match=r"PART=RESOURCE.*engine"):
        resources_of([pair])
