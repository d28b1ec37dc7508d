"""Modules whose ``forward()`` takes derivatives: forces of a potential, Jacobians, divergences.

torch.export looks at a module from above autograd, where what a derivative depends on is lost: it
refuses, or gives a program of constants. Such a module is first traced from below, where the
operators of a derivative are operators like others (``make_fx``, and for torch.func as well), and
what is exported is that graph, in the place of ``forward()``:

    module ──make_fx on its weights and inputs──> graph of aten operators ──torch.export──> program

Whether a module takes derivatives is seen in a call on the examples.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._functorch import eager_transforms
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from ...support.errors import FrontendError
from .dynamic_shapes import ExportPlan
from .eager_call import copied, unchanged
from .known_types import replaced_forward

_TAKES = (
    (torch.autograd, "_engine_run_backward"),
    (forward_ad, "make_dual"),
    (eager_transforms, "jvp_increment_nesting"),
)
"""What every derivative in torch comes through: backwards, and forwards."""


aten = torch.ops.aten
_SIZES = (*range(2, 36), 64, 65, 100, 128, 200, 256, 512, 1000, 4096)
"""Where branches are looked at."""


def _convolution_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """The derivative by the image: the convolution the other way."""
    if output_mask[1] or output_mask[2]:
        return NotImplemented
    rank = x.dim() - 2
    if transposed:
        other = aten.convolution(
            grad, weight, None, stride, padding, dilation, False, [0] * rank, groups
        )
        return other, None, None
    rest = [
        x.shape[2 + d]
        - ((grad.shape[2 + d] - 1) * _at(stride, d) - 2 * _at(padding, d))
        - (_at(dilation, d) * (weight.shape[2 + d] - 1) + 1)
        for d in range(rank)
    ]
    found = aten.convolution(grad, weight, None, stride, padding, dilation, True, rest, groups)
    return found, None, None


def _avg_pool2d_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Any:
    """That of a convolution of each channel with equal weights."""
    edges_count_less = any(padding) and not count_include_pad and divisor is None
    if x.dim() != 4 or ceil_mode or edges_count_less:
        return NotImplemented
    kernel = [_at(kernel, d) for d in range(2)]
    channels = x.shape[1]
    weight = grad.new_full((channels, 1, *kernel), 1 / (divisor or kernel[0] * kernel[1]))
    stride = [_at(stride or kernel, d) for d in range(2)]
    padding = [_at(padding, d) for d in range(2)]
    mask = (True, False, False)
    return _convolution_backward(
        grad, x, weight, None, stride, padding, [1, 1], False, [0, 0], channels, mask
    )[0]


def _max_pool2d_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:
    """What each window gives back lands on its largest element."""
    flat = x.new_zeros((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return flat.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).view_as(x)


def _at(values: Sequence[int], d: int) -> int:
    return values[d if len(values) > 1 else 0]


_BACKWARD: dict[Any, Any] = {
    op: function
    for op, function in decomposition_table.items()
    if isinstance(op, torch._ops.OpOverload) and "backward" in op.name()
} | {
    aten.convolution_backward.default: _convolution_backward,
    aten.avg_pool2d_backward.default: _avg_pool2d_backward,
    aten.max_pool2d_with_indices_backward.default: _max_pool2d_backward,
}
"""Derivatives of operators as operators that have converters."""


def may_be_lost(program: ExportedProgram) -> bool:
    """Whether a program has functions of torch.func in it, below which derivatives are lost."""
    return any(
        "_functorch" in getattr(node.target, "__module__", "")
        for m in program.graph_module.modules()
        if isinstance(m, torch.fx.GraphModule)
        for node in m.graph.nodes
        if node.op == "call_function" and callable(node.target)
    )


def takes_derivatives(module: torch.nn.Module, plan: ExportPlan) -> bool:
    """Whether ``forward()`` takes a derivative in a call on the examples."""
    seen: list[str] = []

    def noting(name: str, function: Any) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return function(*args, **kwargs)

        return noted

    held = [(place, name, getattr(place, name)) for place, name in _TAKES]
    args, kwargs = copied((plan.args, plan.kwargs))
    try:
        for place, name, function in held:
            setattr(place, name, noting(name, function))
        with unchanged(module), torch.enable_grad():
            module(*args, **kwargs)
    except Exception:  # whatever the model's own code raises
        return bool(seen)
    finally:
        for place, name, function in held:
            setattr(place, name, function)
    return bool(seen)


@contextlib.contextmanager
def traced_below_autograd(module: torch.nn.Module, plan: ExportPlan) -> Iterator[None]:
    """The module's ``forward()`` is a graph of operators, its derivatives among them."""
    graph = _trace(module, plan)

    def forward(*args: Any, **kwargs: Any) -> Any:
        leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        return graph(_state(module), leaves)

    forward.__signature__ = inspect.signature(module.forward)  # type: ignore[attr-defined]
    with replaced_forward(module, forward):
        yield


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _trace(module: torch.nn.Module, plan: ExportPlan) -> torch.fx.GraphModule:
    """The graph of (weights, tensors among the inputs), with the plan's named dims of any size."""
    leaves, structure = pytree.tree_flatten((plan.args, plan.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def called(state: dict[str, torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        filled = list(leaves)
        for i, x in zip(places, tensors, strict=True):
            filled[i] = x
        args, kwargs = pytree.tree_unflatten(filled, structure)
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            result = torch.func.functional_call(module, state, args, kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)

    fake = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), allow_non_fake_inputs=True)
    named = {(i, axis) for i, axis, _ in plan.places}
    state = {name: fake.from_tensor(x, static_shapes=True) for name, x in _state(module).items()}
    tensors = [_fake_input(fake, leaves[i], {a for j, a in named if j == i}) for i in places]
    # What makes tensors of named sizes needs the mode, which forward-mode derivatives cannot have.
    try:
        with fake if named else contextlib.nullcontext():
            graph = make_fx(called, decomposition_table=_BACKWARD)(state, tensors)
    except Exception as error:  # whatever torch or the model's own code raises
        if not named:
            raise
        reason = (str(error).splitlines() or [""])[0]
        raise FrontendError(
            f"{type(module).__name__} takes derivatives that torch cannot trace with "
            f"{' and '.join(plan.names)} of any size: {type(error).__name__}: {reason}\n"
            "Leave dynamic_shapes out and compile it for each size; derivatives backwards "
            "(torch.autograd.grad, torch.func.grad) have named sizes, those forwards do not."
        ) from error
    plan.doubtful = (
        1,
        *_other_sides(plan, fake.shape_env, dict(zip(places, tensors, strict=True))),
    )
    graph.graph.eliminate_dead_code()  # what autograd asked of shapes and devices
    graph.recompile()
    return graph


def _other_sides(plan: ExportPlan, env: Any, tensors: dict[int, Any]) -> tuple[int, ...]:
    """For each branch that the trace came through, the least size at which another side would have
    been taken, if any: torch's choice of a kernel, which is no matter, or the module's own."""
    found = set()
    for guard in env.guards:
        for size in _SIZES:
            values = {
                tensors[i].shape[axis].node.expr: extent(size) for i, axis, extent in plan.extents
            }
            if guard.expr.xreplace(values) == False:  # noqa: E712 - sympy's, not Python's
                found.add(size)
                break
    return tuple(sorted(found))


def _fake_input(fake: FakeTensorMode, x: torch.Tensor, named: set[int]) -> torch.Tensor:
    sizes = [DimDynamic.DYNAMIC if a in named else DimDynamic.STATIC for a in range(x.dim())]
    context: Any = StatelessSymbolicContext(dynamic_sizes=sizes)
    return fake.from_tensor(x, symbolic_context=context)


__all__ = ["may_be_lost", "takes_derivatives", "traced_below_autograd"]
