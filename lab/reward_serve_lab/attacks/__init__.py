"""Adversarial responses that deserve no reward, to test a judge before a policy exploits it.

>>> {attack.family for attack in generate(seed=0)} == {family.name for family in FAMILIES}
True
"""

from __future__ import annotations

from reward_serve_lab.attacks.families import FAMILIES
from reward_serve_lab.attacks.family import Attack, Family
from reward_serve_lab.attacks.suite import crossed, generate

__all__ = ["FAMILIES", "Attack", "Family", "crossed", "generate"]
