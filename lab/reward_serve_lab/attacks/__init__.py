"""Adversarial responses that deserve no reward, to test a judge before a policy exploits it.

>>> len({attack.family for attack in crossed(seed=0, per_text=1)}) == len(FAMILIES)
True
"""

from __future__ import annotations

from reward_serve_lab.attacks.families import FAMILIES
from reward_serve_lab.attacks.family import Attack, Family
from reward_serve_lab.attacks.suite import crossed

__all__ = ["FAMILIES", "Attack", "Family", "crossed"]
