"""The meaning of graph functions, on one screen: a NumPy interpreter of operators. The oracle of
tests.

``run(module, "main", x, ...)`` gives an array, or a tuple of them. It shares nothing with the
compiler but the nodes. Calls of PrimFuncs go to ``prim_func_reference``, so every stage of the
graph can be run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnish.graphir import expr as g
from burnish.graphir.module import IRModule
from burnish.graphir.op import get_op
from burnish.graphir.type import TupleType, tensors_of
from burnish.graphir.weights import Weights
from burnish.tests import elementwise_cases
from burnish.tests.graphir import data_reference, window_reference
from burnish.tests.graphir.prim_func_reference import _eval, run_prim_func
from burnish.tests.recurrent_reference import recurrent
from burnish.vm.registry import get_func
from burnish.vm.tensor import Tensor, empty

ERF = np.vectorize(math.erf, otypes=[np.float64])


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def gelu(x: np.ndarray, approximate: str) -> np.ndarray:
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + (np.tanh(inner) if approximate == "tanh" else ERF(x / np.sqrt(2))))


def layer_norm(x: Any, gamma: Any = 1, beta: Any = 0, *, axes: Any, epsilon: float) -> np.ndarray:
    centred = x - x.mean(tuple(axes), keepdims=True)
    return centred / np.sqrt((centred**2).mean(tuple(axes), keepdims=True) + epsilon) * gamma + beta


def strided_slice(x: np.ndarray, axes: Any, begin: Any, end: Any, strides: Any) -> np.ndarray:
    index = [slice(None)] * x.ndim
    for a, b, e, s in zip(axes, begin, end, strides or [1] * len(axes), strict=True):
        index[a] = slice(b, e, s)
    return x[tuple(index)]


def flatten(x: np.ndarray, start_dim: int, end_dim: int) -> np.ndarray:
    end = end_dim % x.ndim
    return x.reshape(
        *x.shape[:start_dim], math.prod(x.shape[start_dim : end + 1]), *x.shape[end + 1 :]
    )


def gather_elements(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    place = list(np.indices(indices.shape))
    place[axis] = indices
    return x[tuple(place)]


def swap(x: np.ndarray, flag: bool) -> np.ndarray:
    return x.swapaxes(-1, -2) if flag else x


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    scale: float | None,
    causal: bool,
    zero_masked_rows: bool,
) -> np.ndarray:
    k, v = (x.repeat(q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    lowest = -np.inf
    if mask is not None:
        scores = np.where(mask, scores, lowest) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, lowest)
    largest = scores.max(-1, keepdims=True, initial=lowest)
    powers = np.exp(scores - np.where(largest == lowest, 0, largest))
    total = powers.sum(-1, keepdims=True)
    empty = 1 if zero_masked_rows else np.nan
    return (powers @ v / np.where(total == 0, empty, total)).astype(q.dtype)


def _axis(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def scaled_linear(x: Any, w: Any, scale: Any, zero: Any = None, *, bits: int) -> Any:
    places = np.arange(0, 32, bits, dtype="uint32")
    numbers = (w[..., None] >> places & np.uint32((1 << bits) - 1)).reshape(*w.shape[:2], -1)
    middle = (1 << (bits - 1)) if zero is None else zero[..., None]
    weight = (numbers.astype("float64") - middle) * scale[..., None]
    return x @ weight.reshape(len(w), -1).T


def reduction(function: Any) -> Any:
    return lambda x, axis, keepdims, **kw: function(x, axis=_axis(axis), keepdims=keepdims, **kw)


OPERATORS: dict[str, Any] = {
    "recurrent": recurrent,
    **data_reference.OPERATORS,
    **elementwise_cases.NUMPY,
    "gelu": gelu,
    "leaky_relu": lambda x, negative_slope: np.where(x > 0, x, x * negative_slope),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "astype": lambda x, dtype: x.astype(dtype),
    "clip": lambda x, min, max: np.clip(x, min, max),
    "linear": lambda x, w, bias=0, out_dtype="": x @ w.T + bias,
    "matmul": lambda a, b, transpose_a, transpose_b, out_dtype: (
        swap(a, transpose_a) @ swap(b, transpose_b)
    ),
    "integer_matmul": lambda a, b: a.astype("int32") @ b.astype("int32"),
    "scaled_linear": scaled_linear,
    "softmax": softmax,
    "log_softmax": lambda x, axis: np.log(softmax(x, axis)),
    "layer_norm": layer_norm,
    "attention": attention,
    "sum": reduction(np.sum),
    "mean": reduction(np.mean),
    "max": reduction(np.max),
    "min": reduction(np.min),
    "prod": reduction(np.prod),
    "variance": reduction(
        lambda x, axis, keepdims, correction: np.var(x, axis, ddof=correction, keepdims=keepdims)
    ),
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": flatten,
    "broadcast_to": np.broadcast_to,
    "squeeze": lambda x, axis: np.squeeze(x, _axis(axis)),
    "expand_dims": lambda x, axis: np.expand_dims(x, _axis(axis)),
    "permute_dims": lambda x, axes: np.transpose(x, axes),
    "concat": lambda *x, axis: np.concatenate(x, axis),
    "interleave": lambda *x: np.stack(x, -1).reshape(*x[0].shape[:-1], -1),
    "strided_slice": strided_slice,
    "take": lambda x, indices, axis: np.take(x, indices, axis),
    "gather_elements": gather_elements,
    "conv": window_reference.conv,
    "im2col": window_reference.im2col,
    "conv_transpose": window_reference.conv_transpose,
    "winograd_conv": window_reference.winograd_conv,
    "max_pool": window_reference.max_pool,
    "avg_pool": window_reference.avg_pool,
    "adaptive_pool": window_reference.adaptive_pool,
    "reinterpret": lambda x, dtype: x.view("uint16" if dtype == "bfloat16" else dtype),
    "pad": lambda x, pad_width, pad_value: np.pad(
        x, np.reshape(pad_width, (-1, 2)), constant_values=pad_value
    ),
}
"""Operators that are not simply the NumPy function of their name."""


def run(module: IRModule, name: str, *inputs: Any) -> Any:
    """The result of a graph function of the module on arrays (tuples of them for tuples)."""
    func = module[name]
    assert isinstance(func, g.Function)
    env: dict[Any, Any] = {Weights: module.weights}
    for param, value in zip(func.params, inputs, strict=True):
        env[param] = value
        for dim, size in zip(param.type.shape, value.shape, strict=True):  # type: ignore[union-attr]
            env.setdefault(dim, size)
    with np.errstate(all="ignore"):
        return _sequence(func.body, env, module)


def _environment(call: g.CallDPSPacked, env: dict[Any, Any]) -> Any:
    """A call of a registered function: the outputs, which it writes."""
    outs = [
        empty([_eval(d, env) for d in kind.shape], str(kind.dtype))
        for kind in tensors_of(call.out_type)
    ]
    get_func(call.name)(*[Tensor(np.asarray(_atom(a, env), order="C")) for a in call.args], *outs)
    arrays = tuple([out.numpy() for out in outs])
    return arrays if isinstance(call.out_type, TupleType) else arrays[0]


def _sequence(body: g.SeqExpr, env: dict[Any, Any], module: IRModule) -> Any:
    for block in body.blocks:
        for binding in block.bindings:
            env[binding.var] = _value(binding.value, env, module)
    return _atom(body.result, env)


def _atom(atom: g.Atom, env: dict[Any, Any]) -> Any:
    match atom:
        case g.Constant():
            return env[Weights].array(atom)
        case g.Tuple():
            return tuple([_atom(f, env) for f in atom.fields])
        case g.ShapeExpr():
            return tuple([_eval(d, env) for d in atom.values])
    return env[atom]


def _value(value: g.Value, env: dict[Any, Any], module: IRModule) -> Any:
    match value:
        case g.Call():
            function = OPERATORS.get(value.op) or getattr(np, value.op)
            attrs = {**get_op(value.op).attrs, **dict(value.attrs)}
            args = [_atom(a, env) for a in value.args]
            result = np.asarray(function(*args, **attrs))
            own = ("astype", "integer_matmul", "last_match", "reinterpret", "winograd_conv")
            keeps = result.dtype == bool or value.op in own or value.op.startswith("arg")
            return (
                result
                if keeps
                else result.astype(args[-1].dtype if value.op == "where" else args[0].dtype)
            )
        case g.CallDPSPacked() if value.name not in module:
            return _environment(value, env)
        case g.CallDPS() | g.CallDPSPacked():
            func = module[value.func if isinstance(value, g.CallDPS) else value.name]
            shape = [_eval(d, env) for d in value.out_type.shape]  # type: ignore[union-attr]
            out = np.zeros(shape, value.out_type.dtype.to_numpy())  # type: ignore[union-attr]
            run_prim_func(func, [_atom(a, env) for a in value.args], [out])  # type: ignore[arg-type]
            return out
        case g.CallFunction():
            return run(module, value.func.name, *[_atom(a, env) for a in value.args])
        case g.TupleGetItem():
            return _atom(value.value, env)[value.index]
        case g.If():
            chosen = value.true_branch if _atom(value.condition, env) else value.false_branch
            return _sequence(chosen, env, module)
    return _atom(value, env)
