"""PyTorch's own database of operators (OpInfo), seen as operators of a compiled model.

An entry has the samples that PyTorch tests its operator with. Here each is a ``Sample``: a function
of tensors alone, what is no tensor being part of it. Entries that no compiled model is asked for
have a reason in ``OUT_OF_SCOPE``.
"""

from __future__ import annotations

import random
import re
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "bool")
OUT_OF_SCOPE = {
    "random": (
        r"cauchy|exponential|geometric|log_normal|normal(\..*)?|uniform|rand.*|multinomial|"
        r"bernoulli|nn\.functional\.(.*dropout.*|fractional_max_pool.*|rrelu)|"
        r"(svd|pca)_lowrank"
    ),
    "left empty": r"(new_)?empty.*",
    "resizes in place": r"resize_.*",
    "sparse": r"sparse\..*|to_sparse|jiterator.*",
    "complex": (
        r"view_as_(real|complex)|complex|polar|cdouble|cfloat|chalf|stft|istft|imag|"
        r".*\.complex|fft\.(i?fft|ihfft|rfft)[2n]?"  # of complex results
    ),
    "dense factorisation": (
        r"cholesky.*|geqrf|lu(_.*)?|matrix_exp|ormqr|qr|svd|pinverse|triangular_solve|logdet|"
        r"norm\.nuc|linalg\.(det|cholesky.*|cond|eig.*|householder_product|ldl.*|lstsq.*|qr|"
        r"slogdet|lu.*|inv.*|solve.*|matrix_rank.*|pinv.*|svd.*|tensorinv|tensorsolve|"
        r"matrix_norm|norm.*|matrix_power)"
    ),
    "gives no tensor": r"item|allclose|equal|broadcast_shapes",
    "for other devices": r"torch\._scaled_mm.*|.*_(flash|efficient)_attention_forward|.*triton.*",
    "gradients": r"gradient|.*backward|.*\.grad",
}
"""Why some operators are not asked for: by reason, patterns of whole names."""


@dataclass(frozen=True)
class Sample:
    """One call of an operator: a function of tensors."""

    function: Any
    tree: Any
    leaves: tuple[Any, ...]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple([x for x in self.leaves if isinstance(x, torch.Tensor)])

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """On copies: some operators write their operands, which belong to the caller."""
        rest = iter(tensors)
        filled = [next(rest).clone() if isinstance(x, torch.Tensor) else x for x in self.leaves]
        args, kwargs = pytree.tree_unflatten(filled, self.tree)
        return self.function(*args, **kwargs)

    @property
    def signature(self) -> str:
        """What is alike in samples that are compiled to the same program."""
        return repr([_described(x) for x in self.leaves]) + str(self.tree)

    def __str__(self) -> str:
        return ", ".join([_described(x) for x in self.leaves])[:300]


def _described(leaf: Any) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    dtype = str(leaf.dtype).removeprefix("torch.")
    strides = "" if leaf.is_contiguous() else f":{leaf.stride()}"
    return f"{dtype}{list(leaf.shape)}{strides}"


@cache
def entries() -> dict[str, Any]:
    """All entries by name; a variant's name is behind a dot."""
    # The database imports the base class of PyTorch's own tests, which nothing here runs.
    if find_spec("expecttest") is None:
        stub: Any = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stub
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found: dict[str, Any] = {}
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)
        assert name not in found, name
        found[name] = op
    return found


def why_not(name: str) -> str:
    """The reason why an operator is out of scope; nothing for the others."""
    return next((why for why, names in OUT_OF_SCOPE.items() if re.fullmatch(names, name)), "")


def pairs() -> Iterator[tuple[str, str]]:
    """Every operator in scope with each dtype that PyTorch has it for."""
    for name, op in entries().items():
        if not why_not(name):
            for dtype in DTYPES:
                if getattr(torch, dtype) in op.dtypes:
                    yield name, dtype


def samples(name: str, dtype: str, most: int | None = None) -> list[Sample]:
    """The samples of an operator that differ, always the same; ``most`` of them from all over the
    list."""
    op = entries()[name]
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    found: dict[str, Sample] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = list(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False))
    for sample in given:
        leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        made = Sample(op.op, tree, tuple(leaves))
        found.setdefault(made.signature, made)
    chosen = list(found.values())
    if most is not None and len(chosen) > most:
        step = (len(chosen) - 1) / max(most - 1, 1)
        chosen = [chosen[round(i * step)] for i in range(most)]
    return chosen
