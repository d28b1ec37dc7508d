"""Operators of torch that cannot be compiled, each with the reason and what to do instead."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from ...graphir.expr import Atom, constant
from ...graphir.op import tensor_type_of
from ...support.dtype import DType
from ...support.errors import RAISES
from . import numbers_of_data
from .registry import REGISTRY, Context, arguments, converts, location

REGISTRY.refuses(
    "its result has as many elements as the data say, and a compiled model's shapes must follow "
    "from those of its inputs; compute it outside of the model, or use an operator that keeps the "
    "shape (torch.where, masked_fill, topk)",
    "aten.unique_dim.default", "torchvision.nms.default",
)  # fmt: skip
REGISTRY.refuses(
    "it transforms to or from frequencies along an axis whose size has a name, or is too large and "
    "has no factors; make the size static, or compute that outside of the model",
    "aten._fft_r2c.default", "aten._fft_c2r.default", "aten._fft_c2c.default",
)  # fmt: skip
REGISTRY.refuses(
    "it draws random numbers, and a compiled model is a function of its inputs; draw them outside "
    "and pass them in",
    "aten.rand.default", "aten.rand_like.default", "aten.randn.default", "aten.randn_like.default",
    "aten.randint.low", "aten.randint.default", "aten.randperm.default", "aten.bernoulli.default",
    "aten.multinomial.default", "aten.exponential.default",
    "aten.uniform.default", "aten.normal_functional.default",
)  # fmt: skip


@converts("aten._assert_scalar.default")
def size_of_data(context: Context, node: Node) -> None:
    """torch puts this behind what reads a number out of data."""
    numbers_of_data.asserts(context, node)


@converts("aten._assert_async.msg", "aten._functional_assert_async.msg")
def assertion(context: Context, node: Node) -> Any:
    """Checked when the model runs."""
    said, of_sizes = str(node.args[1]), numbers_of_data.OF_SIZES
    is_of_sizes = said.startswith(of_sizes)
    told = said.removeprefix(of_sizes) if is_of_sizes else f"{RAISES} {said}"
    holds = context.operand(node.args[0])
    kind = tensor_type_of(holds).dtype
    if kind != DType("bool"):
        holds = context.op("not_equal", holds, constant(0, kind))
    numbers_of_data.check(context, holds, [], location(node), told)
    return context.operand(node.args[2]) if len(node.args) > 2 else None


@converts("aten.bernoulli.p")
def bernoulli(context: Context, node: Node) -> Atom:
    """Never, or always: dropout whose rate a model's configuration has set to 0."""
    probability, kind = arguments(node)["p"], context.result_type(node)
    if probability not in (0, 1):
        raise context.refuse(
            "draws random numbers, and a compiled model is a function of its inputs; draw them "
            "outside and pass them in."
        )
    return context.broadcast(context.scalar(probability, kind.dtype), kind)
