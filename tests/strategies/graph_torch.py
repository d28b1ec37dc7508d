"""A graph module as a torch module: each binding evaluated by eager torch, constants as buffers, so
that ``double()`` gives the same graph in float64."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from burnish.graphir import expr as g
from burnish.graphir.module import IRModule, constants_of
from burnish.graphir.op import get_op
from burnish.graphir.type import TensorType
from burnish.tests.graphir.prim_func_reference import _eval


def _slice(x: torch.Tensor, *, axes: Any, begin: Any, end: Any, strides: Any) -> torch.Tensor:
    for axis, b, e, step in zip(axes, begin, end, strides, strict=True):
        if step < 0:  # the generator reverses whole axes only
            x = x.flip(axis)
            continue
        index = [slice(None)] * x.ndim
        index[axis] = slice(b, e, step)
        x = x[tuple(index)]
    return x


def _pad(x: torch.Tensor, *, pad_width: Any, pad_value: float) -> torch.Tensor:
    """torch takes the widths of the last axis first."""
    pairs = [pad_width[2 * i : 2 * i + 2] for i in reversed(range(x.ndim))]
    return F.pad(x, [w for pair in pairs for w in pair], value=pad_value)


def _reduce(function: Any) -> Any:
    def reduce(x: torch.Tensor, *, axis: Any, keepdims: bool, **rest: Any) -> torch.Tensor:
        axes = tuple(range(x.ndim)) if axis is None else tuple(axis)
        # No axes mean all to torch, and none here.
        return function(x, dim=axes, keepdim=keepdims, **rest) if axes else function.of_one(x)

    return reduce


class _Reduction:
    """A reduction, and what it does to a single element."""

    def __init__(self, function: Any, of_one: Any = lambda x: x * 1) -> None:
        self.function, self.of_one = function, of_one

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)


_OPERATORS: dict[str, Any] = {
    "negative": torch.neg,
    "relu": torch.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "clip": lambda x, min, max: x.clamp(min, max),
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "equal": torch.eq,
    "linear": F.linear,
    "matmul": lambda a, b, transpose_a, transpose_b: torch.matmul(a, b),
    "sum": _reduce(_Reduction(torch.sum)),
    "mean": _reduce(_Reduction(torch.mean)),
    "max": _reduce(_Reduction(torch.amax)),
    "min": _reduce(_Reduction(torch.amin)),
    "variance": _reduce(_Reduction(torch.var, lambda x: x * 0)),
    "softmax": lambda x, axis: torch.softmax(x, axis),
    "log_softmax": lambda x, axis: torch.log_softmax(x, axis),
    "layer_norm": lambda x, *w, axes, epsilon: F.layer_norm(x, x.shape[-len(axes) :], *w, epsilon),
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": lambda x, start_dim, end_dim: x.flatten(start_dim, end_dim),
    "permute_dims": lambda x, axes: x.permute(axes),
    "expand_dims": lambda x, axis: x.unsqueeze(axis),
    "concat": lambda *x, axis: torch.cat(x, axis),
    "strided_slice": _slice,
    "pad": _pad,
}


def _key(constant: g.Constant) -> Any:
    return constant.name, constant.bits, constant.shape, constant.type.dtype


class GraphModule(nn.Module):
    """``main`` of a module of operators."""

    def __init__(self, module: IRModule) -> None:
        super().__init__()
        func = module["main"]
        assert isinstance(func, g.Function)
        self.func = func
        self.names: dict[Any, str] = {}
        for held in constants_of(func):
            if _key(held) not in self.names:
                self.names[_key(held)] = f"c{len(self.names)}"
                values = torch.tensor(module.weights.array(held))
                self.register_buffer(self.names[_key(held)], values)
        self.register_buffer("probe", torch.zeros(()))

    def forward(self, *inputs: torch.Tensor) -> Any:
        env: dict[Any, Any] = {}
        for param, x in zip(self.func.params, inputs, strict=True):
            env[param] = x
            assert isinstance(param.type, TensorType)
            env.update(zip(param.type.shape, x.shape, strict=True))
        for block in self.func.body.blocks:
            for binding in block.bindings:
                assert isinstance(binding.value, g.Call)
                env[binding.var] = self.call(binding.value, env)
        return self.atom(self.func.body.result, env)

    def atom(self, atom: g.Atom, env: dict[Any, Any]) -> Any:
        match atom:
            case g.Constant():
                return getattr(self, self.names[_key(atom)])
            case g.Tuple():
                return tuple([self.atom(f, env) for f in atom.fields])
            case g.ShapeExpr():
                return [_eval(d, env) for d in atom.values]
        return env[atom]

    def call(self, call: g.Call, env: dict[Any, Any]) -> Any:
        args = [self.atom(a, env) for a in call.args]
        attrs = {**get_op(call.op).attrs, **dict(call.attrs)}
        if attrs.get("out_dtype") == "":
            del attrs["out_dtype"]
        if call.op == "astype":
            name = attrs["dtype"]
            return args[0].to(self.probe.dtype if name == "float32" else getattr(torch, name))
        if call.op == "squeeze":
            axes = attrs["axis"]
            axes = [i for i, n in enumerate(args[0].shape) if n == 1] if axes is None else axes
            return args[0].squeeze(tuple(axes))
        function = _OPERATORS.get(call.op)
        if function is None:
            return getattr(torch, call.op)(*args)
        if call.op == "layer_norm":
            args += [None] * (3 - len(args))
        return function(*args, **attrs)
