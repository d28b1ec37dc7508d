"""The meaning of an unscheduled PrimFunc, in a hundred lines: plain loops over NumPy arrays.

Used to tell what the kernels of legalisation and fusion compute, without any code generation. Loops
run one element at a time, so shapes must be tiny.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnish.tensorir import expr as e
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import BlockRealize, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt

_BINARY = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": np.minimum,
    "Max": np.maximum,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_CALLS = {
    "erf": lambda x: math.erf(x),
    "erfc": lambda x: math.erfc(x),
    "exp_negative": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "neg": lambda x: -x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": np.power,
    "round": np.rint,
    "fma": lambda a, b, c: a * b + c,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "clz": lambda x: 64 - int(x).bit_length() if x >= 0 else 0,
}


def run_prim_func(
    func: PrimFunc, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> None:
    """Write ``outputs`` as the function does; symbolic dims come from the arrays' shapes."""
    env: dict[Any, Any] = {}
    for buffer, array in zip(func.buffers, [*inputs, *outputs], strict=True):
        env[buffer] = array
        for dim, size in zip(buffer.shape, array.shape, strict=True):
            if isinstance(dim, e.Var):
                assert env.setdefault(dim, size) == size, f"{dim} is {env[dim]} and {size}"
            elif isinstance(dim, e.IntImm):
                assert dim.value == size, f"{buffer.name}: {dim.value} and {size}"
    for buffer in func.root.alloc_buffers:
        env[buffer] = np.full([_eval(d, env) for d in buffer.shape], 99, buffer.dtype.to_numpy())
    with np.errstate(all="ignore"):
        _run(func.root.body, env)


def _run(stmt: Stmt, env: dict[Any, Any]) -> None:
    match stmt:
        case SeqStmt():
            for s in stmt.stmts:
                _run(s, env)
        case For():
            for i in range(_eval(stmt.extent, env)):
                env[stmt.var] = _eval(stmt.min, env) + i
                _run(stmt.body, env)
        case IfThenElse() | LetStmt():
            _run_control(stmt, env)
        case BlockRealize():
            _run_block(stmt, env)
        case BufferStore():
            env[stmt.buffer][tuple([_eval(i, env) for i in stmt.indices])] = _eval(stmt.value, env)
        case _:
            raise AssertionError(type(stmt).__name__)


def _run_control(stmt: IfThenElse | LetStmt, env: dict[Any, Any]) -> None:
    if isinstance(stmt, LetStmt):
        env[stmt.var] = _eval(stmt.value, env)
        _run(stmt.body, env)
    elif _eval(stmt.condition, env):
        _run(stmt.then_case, env)
    elif stmt.else_case is not None:
        _run(stmt.else_case, env)


def _run_block(stmt: BlockRealize, env: dict[Any, Any]) -> None:
    block = stmt.block
    for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
        env[axis.var] = _eval(value, env)
    for buffer in block.alloc_buffers:
        shape = [_eval(d, env) for d in buffer.shape]
        env[buffer] = np.full(shape, 99, buffer.dtype.to_numpy())
    reduced = [env[a.var] for a in block.iter_vars if a.kind == "reduce"]
    if block.init is not None and not any(reduced):
        _run(block.init, env)
    _run(block.body, env)


def _eval(n: e.Expr, env: dict[Any, Any]) -> Any:
    match n:
        case e.IntImm() | e.FloatImm():
            return n.value if n.dtype == "int64" else n.dtype.to_numpy().type(n.value)
        case e.Var():
            return env[n]
        case e.BufferLoad():
            return env[n.buffer][tuple([_eval(i, env) for i in n.indices])]
        case e.Select():
            return _eval(n.true_value if _eval(n.condition, env) else n.false_value, env)
        case e.Let():
            env[n.var] = _eval(n.value, env)
            return _eval(n.body, env)
        case e.Call(op="if_then_else"):
            return _eval(n.args[1] if _eval(n.args[0], env) else n.args[2], env)
    return _apply(n, env)


def _apply(n: e.Expr, env: dict[Any, Any]) -> Any:
    match n:
        case e.Cast():
            return n.dtype.to_numpy().type(_eval(n.value, env))
        case e.Not():
            return not _eval(n.a, env)
        case e.Div():
            a, b = _eval(n.a, env), _eval(n.b, env)
            return a / b if n.dtype.is_float else type(a)(math.trunc(a / b))
        case e.Call(op="reinterpret", args=(a,)):
            bits = np.asarray(_eval(a, env), a.dtype.to_numpy())
            return bits.view(n.dtype.to_numpy())[()]
        case e.Call():
            function = _CALLS.get(n.op) or getattr(np, n.op)
            return n.dtype.to_numpy().type(function(*[_eval(a, env) for a in n.args]))
    return _BINARY[type(n).__name__](_eval(n.a, env), _eval(n.b, env))  # type: ignore[attr-defined]
