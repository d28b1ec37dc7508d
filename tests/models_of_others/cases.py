"""Every model of others that is compiled and compared, in a fixed order."""

from __future__ import annotations

from . import cases_timm, cases_torchvision, cases_transformers
from .case import Case

CASES: list[Case] = [*cases_torchvision.CASES, *cases_timm.CASES, *cases_transformers.CASES]
BY_NAME = {case.name: case for case in CASES}
