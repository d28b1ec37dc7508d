"""Guards are read from what torch says of named sizes."""

from __future__ import annotations

import torch
from torch import nn

from burnish.frontend.torch.dynamic_shapes import plan_export
from burnish.frontend.torch.said_guards import gaps_of
from burnish.support.errors import FrontendError


def test_guards_that_are_no_python_leave_the_refusal_to_torch() -> None:
    plan = plan_export(nn.ReLU(), (torch.rand(2, 3),), None, ({0: "n"},))
    said = "  - Not all values of n = s in the specified range satisfy the generated guard {}"
    for guard, found in (("s != 3", [("n", 3)]), ("2s", None), ("Unheard(s) > 1", None)):
        error = FrontendError("no export")
        error.__cause__ = RuntimeError(said.format(guard))
        assert gaps_of(error, plan) == found, guard
