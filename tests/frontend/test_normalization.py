"""Group norm and RMS norm as compositions: which operators they become."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.normalization import group_norm, rms_norm, scalar
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Atom, Var
from burnish.graphir.module import IRModule
from burnish.graphir.op import type_of
from burnish.graphir.type import TensorType, tensor_type
from burnish.graphir.verify import verify_module
from burnish.support.dtype import DType
from burnish.tests.graphir.reference import run


class Emitter:
    """The part of a front end's context that emits operators."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()
        self.names: list[str] = []

    def op(self, name: str, *args: Atom, **attrs: object) -> Var:
        self.names.append(name)
        return self.builder.emit(call_op(name, *args, **attrs))

    def type(self, atom: Atom) -> TensorType:
        kind = type_of(atom)
        assert isinstance(kind, TensorType)
        return kind


def made(dtype: str, norm: str) -> tuple[IRModule, list[str]]:
    emitter = Emitter()
    x = Var("x", tensor_type([2, 6, 4], dtype))
    with emitter.builder.function("main", [x]):
        with emitter.builder.dataflow():
            if norm == "group":
                y = group_norm(emitter, x, 3, None, None, 1e-5)
            elif norm == "instance":
                y = group_norm(emitter, x, None, None, None, 1e-5)
            else:
                y = rms_norm(emitter, x, (-1,), None, 1e-5)
            out = emitter.builder.emit_output(y)
        emitter.builder.emit_func_output(out)
    return verify_module(emitter.builder.get()), emitter.names


X = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)


@pytest.mark.parametrize(("norm", "groups"), [("group", 3), ("instance", 6)])
def test_groups_are_rows_of_a_layer_norm(norm: str, groups: int) -> None:
    module, names = made("float32", norm)
    assert names == ["reshape", "layer_norm", "reshape"]
    rows = X.reshape(2, groups, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    expected = centred / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(module, "main", X), expected.reshape(X.shape), atol=1e-5)


def test_rms_norm_of_half_precision_is_computed_in_float32() -> None:
    module, names = made("float16", "rms")
    assert names[0] == names[-1] == "astype"
    x = (X * 300).astype(np.float16)  # its squares do not fit float16
    wide = x.astype(np.float32)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    found = run(module, "main", x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_scalars_have_the_dtype() -> None:
    assert scalar(0.5, DType("float64")).type.dtype == "float64"
    assert scalar(0.5, DType("bfloat16")).type.dtype == "bfloat16"
