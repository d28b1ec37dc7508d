"""Text to graph functions: what is read, what is inferred, and what is refused where."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import (
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    If,
    ShapeExpr,
    Tuple,
)
from burnish.graphir.module import IRModule
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import format_type
from burnish.graphir.verify import verify_module
from burnish.support.errors import ParseError
from burnish.support.structural import assert_structural_equal

MIXTURE = """
from burnish.script import I, T, R

@I.ir_module
class MyModuleMixture:
    @T.prim_func
    def linear0(X: T.Buffer((1, 784), "float32"), W: T.Buffer((128, 784), "float32"),
                B: T.Buffer((128,), "float32"), Z: T.Buffer((1, 128), "float32")):
        T.func_attr({"global_symbol": "linear0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 128), "float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(x: R.Tensor((1, 784), "float32"), w0: R.Tensor((128, 784), "float32"),
             b0: R.Tensor((128,), "float32"), w1: R.Tensor((10, 128), "float32"),
             b1: R.Tensor((10,), "float32")):
        with R.dataflow():
            lv0 = R.call_dps_packed("linear0", (x, w0, b0), R.Tensor((1, 128), dtype="float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 128), dtype="float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, 10), dtype="float32"))
            R.output(out)
        return out
"""


def main_of(
    body: str, params: str = 'x: R.Tensor((2, 3), "float32")', **kwargs: object
) -> IRModule:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return parse_module((f"@R.function\ndef main({params}):\n{lines}"), **kwargs)  # type: ignore[arg-type]


def values(module: IRModule) -> list[object]:
    return [b.value for k in module["main"].body.blocks for b in k.bindings]  # type: ignore[union-attr]


def round_trip(module: IRModule) -> IRModule:
    verify_module(module)
    assert_structural_equal(parse_module(module.script(), constants=module.constants), module)
    return module


def test_the_mixture_of_calls_and_prim_funcs() -> None:
    module = round_trip(parse_module(MIXTURE))
    assert list(module) == ["linear0", "main"]
    first, second, _ = values(module)
    assert isinstance(first, CallDPSPacked)
    assert isinstance(second, CallDPSPacked)
    assert second.name == "env.relu"
    assert format_type(module["main"].ret_type) == 'R.Tensor((1, 10), dtype="float32")'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "call",
    [
        "R.call_dps(cls.linear0, (x, w0, b0), out_type=R.Tensor((1, 128)))",
        "R.call_tir(linear0, (x, w0, b0), R.Tensor((1, 128)))",
        "R.call_dps(MyModuleMixture.linear0, [x, w0, b0], out_sinfo=R.Tensor((1, 128)))".replace(
            "MyModuleMixture", "Module"
        ),
        'R.call_tir("linear0", (x, w0, b0), (1, 128), dtype="float32")',
        "R.call_tir(cls.linear0, (x, w0, b0), out_sinfo=[R.Tensor((1, 128))])",
        'R.call_tir("linear0", (x, w0, b0), R.Tensor((1, 128)))',
    ],
)
def test_call_dps_takes_a_function_in_six_spellings(call: str) -> None:
    packed = 'R.call_dps_packed("linear0", (x, w0, b0), R.Tensor((1, 128), dtype="float32"))'
    (first, *_) = values(round_trip(parse_module(MIXTURE.replace(packed, call))))
    assert isinstance(first, CallDPS)
    assert first.func.name == "linear0"


def test_call_tir_of_a_name_that_the_module_has_not_calls_what_is_registered() -> None:
    packed = 'R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 128), dtype="float32"))'
    call = 'R.call_tir("env.relu", (lv0,), (1, 128), dtype="float32")'
    assert packed in MIXTURE
    assert_structural_equal(parse_module(MIXTURE.replace(packed, call)), parse_module(MIXTURE))
    with pytest.raises(ParseError, match=r"'env\.relu' is not; a registered one is called with"):
        parse_module(MIXTURE.replace(packed, call.replace("call_tir", "call_dps")))


def own_calls(first: str, name: str) -> IRModule:
    function = f"""
    @R.function
    def own(x: R.Tensor((1, 784)), w: R.Tensor((128, 784)), b: R.Tensor((128,))):
        {first}
        with R.dataflow():
            y = R.call_tir({name}.linear0, (x, w, b), out_sinfo=R.Tensor((1, 128)))
            R.output(y)
        return y
"""
    return parse_module(MIXTURE + function)


def test_a_module_may_be_called_by_the_name_of_its_class() -> None:
    assigned = own_calls("cls = MyModuleMixture", "cls")
    assert_structural_equal(own_calls("pass", "MyModuleMixture"), assigned)
    with pytest.raises(ParseError, match="'Other' is not defined"):
        own_calls("cls = Other", "cls")


def test_nested_calls_become_bindings() -> None:
    module = round_trip(main_of("return R.relu(R.add(R.exp(x), 2.0))"))
    assert [getattr(v, "op", "") for v in values(module)] == ["exp", "add", "relu"]
    (constant,) = [a for v in values(module) for a in v.args if isinstance(a, Constant)]  # type: ignore[attr-defined]
    assert constant.type.dtype == "float32"


def test_a_number_takes_the_dtype_of_the_other_operand() -> None:
    module = main_of("return R.add(2, x)", 'x: R.Tensor((3,), "int8")')
    assert format_type(module["main"].ret_type) == 'R.Tensor((3,), dtype="int8")'  # type: ignore[union-attr]


def test_symbolic_dims_are_one_var_a_name() -> None:
    module = round_trip(
        main_of("return R.add(x, y)", 'x: R.Tensor(("m", 3)), y: R.Tensor(("m", 1))')
    )
    x, y = module["main"].params
    assert x.type.shape[0] is y.type.shape[0]  # type: ignore[union-attr]


def test_shapes_tuples_and_items() -> None:
    module = round_trip(
        main_of(
            "t = (R.reshape(x, (3, 2)), x)\nu = R.tuple(t, t)\na = u[0]\nreturn (a[1], R.tuple())"
        )
    )
    assert any(isinstance(a, ShapeExpr) for v in values(module) for a in getattr(v, "args", ()))
    assert isinstance(module["main"].body.result, Tuple)  # type: ignore[union-attr]


def test_if_gives_a_value() -> None:
    text = (
        "if c:\n    z = R.exp(x)\n    y = z\nelse:\n    with R.dataflow():\n        z = R.relu(x)\n"
        "        R.output(z)\n    y = R.tanh(z)\nreturn y"
    )
    module = round_trip(main_of(text, 'x: R.Tensor((2,)), c: R.Tensor((), "bool")'))
    (found,) = values(module)
    assert isinstance(found, If)


def test_calls_of_graph_functions_infer_their_type() -> None:
    module = round_trip(
        parse_module(
            "@I.ir_module\nclass M:\n    @R.function\n"
            '    def main(x: R.Tensor((4, "m"))):\n        y = cls.f(x)\n        return y\n'
            '    @R.function\n    def f(a: R.Tensor(("k", "j"))):\n'
            "        return R.permute_dims(a)\n"
        )
    )
    (call,) = values(module)
    assert isinstance(call, CallFunction)
    assert format_type(call.out_type) == 'R.Tensor(("m", 4), dtype="float32")'
    assert list(module) == ["main", "f"]


def test_names_come_from_env() -> None:
    module = main_of(
        "return R.add(R.sum(x, axis=AXIS), SCALE)",
        "x: R.Tensor((N, 3))",
        env={"AXIS": 1, "SCALE": 0.5, "N": 7},
    )
    assert format_type(module["main"].ret_type) == 'R.Tensor((7,), dtype="float32")'  # type: ignore[union-attr]


def test_declared_dims_stand_before_names_around_the_program() -> None:
    text = """
@R.function
def main(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor((size * 2, "k"), "float32")):
    m, n = T.int64(), T.int64()
    k = T.int64()
    lv: R.Tensor((m, n), "float32") = R.relu(x)
    lw: R.Tensor((size * 2, k), "float32") = R.relu(y)
    out: R.Tuple(R.Tensor((m, n), "float32"), R.Tensor((18, k), "float32")) = (lv, lw)
    return out
"""
    module = parse_module(text, env={"n": 9, "k": 3, "size": 9})
    assert [format_type(p.type) for p in module["main"].params] == [  # type: ignore[union-attr]
        'R.Tensor(("m", "n"), dtype="float32")',
        'R.Tensor((18, "k"), dtype="float32")',
    ]
    plain = text.replace("    k = T.int64()\n", "")
    with pytest.raises(ParseError, match=r"is annotated R.Tensor\(\(18, 3\)"):
        parse_module(plain, env={"n": 9, "k": 3, "size": 9})


def test_functions_from_env_join_the_module() -> None:
    relu = parse_module(
        '@T.prim_func\ndef relu(X: T.Buffer((2, 3), "float32"), Y: T.Buffer((2, 3), "float32")):\n'
        "    for i, j in T.grid(2, 3):\n        with T.block('Y'):\n"
        "            vi, vj = T.axis.remap('SS', [i, j])\n"
        "            Y[vi, vj] = T.max(X[vi, vj], 0.0)\n"
    )["relu"]
    module = main_of("y = R.call_dps(relu, (x,), R.Tensor((2, 3)))\nreturn y", env={"relu": relu})
    assert module["relu"] is relu


def test_large_constants_come_back_by_name() -> None:
    weights = np.arange(20, dtype="float32").reshape(4, 5)
    module = main_of("return R.add(x, W)", "x: R.Tensor((4, 5))", env={"W": weights})
    (name,) = module.constants
    assert name.startswith("sha256:")
    assert name in module.script()
    back = parse_module(module.script(), constants=module.constants)
    (constant,) = [a for v in values(back) for a in v.args if isinstance(a, Constant)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(back.weights.array(constant), weights)
    assert parse_module(module.script(), constants=module.weights).script() == module.script()
    with pytest.raises(ParseError, match="No values for 'sha256:"):
        parse_module(module.script())
    with pytest.raises(ParseError, match=r"is R.Tensor\(\(5, 4\)"):
        parse_module(module.script(), constants={name: weights.T})


def test_small_constants_stand_in_the_text() -> None:
    consts = [
        np.array([np.inf, -np.inf, np.nan, -0.0, 0.1, 1e-45, 3.4e38], "float32"),
        np.array([[1, 2], [3, 4]], "int64"),
        np.array(True),
        np.zeros((0, 3), "float16"),
        np.array(1 / 3),
        np.array([2**64 - 1], "uint64"),
    ]
    for data in consts:
        module = round_trip(main_of("y = x\nreturn (y, C)", env={"C": data}))
        assert module.constants == {}


def test_module_attrs_and_function_attrs_round_trip() -> None:
    text = (
        '@I.ir_module\nclass Module:\n    I.module_attrs({"version": 2})\n    N = 3\n'
        "    @R.function\n    def main(x: R.Tensor((N,))):\n"
        '        R.func_attr({"num_input": 1})\n        return x\n'
    )
    module = round_trip(parse_module(text))
    assert module.attrs == {"version": 2}
    assert module["main"].attr("num_input") == 1


D = "with R.dataflow():\n    "
ERRORS = [
    ("return y", "'y' is not defined.", "y"),
    (
        "scale = R.relu(x)\nreturn scales",
        "'scales' is not defined. Did you mean 'scale'?",
        "scales",
    ),
    ("return R.rleu(x)", "There is no operator R.rleu. Did you mean 'relu'?", "R.rleu(x)"),
    (
        "y: R.Tensor((3, 2)) = R.relu(x)\nreturn y",
        (
            'y is annotated R.Tensor((3, 2), dtype="float32"), '
            'but it is R.Tensor((2, 3), dtype="float32").'
        ),
        "y: R.Tensor",
    ),
    (D + "y = R.relu(x)\nreturn y", "'y' does not leave its dataflow block", "y"),
    (D + "R.output(x)\n    y = x\nreturn x", "R.output(...) is the last line", "y = x"),
    (D + "return x", "return stands outside of the dataflow block", "return x"),
    (
        D + "if x:\n        y = x\n    else:\n        y = x\nreturn x",
        "if stands outside of it",
        "if x:",
    ),
    ("R.relu(x)", "Expected an assignment", "R.relu(x)"),
    ("a, b = R.relu(x)", "Several names at once declare dims", "a, b = R.relu(x)"),
    ("y = x", "Function 'main' returns nothing.", "def main"),
    ("return x\ny = x", "A statement after return.", "y = x"),
    (
        'y = R.call_dps("f", (x,))\nreturn y',
        "R.call_dps takes a function of the module",
        'R.call_dps("f", (x,))',
    ),
    (
        "y = R.call_dps(cls.g, (x,), R.Tensor((1,)))\nreturn y",
        "The module has no function 'g'.",
        "cls.g",
    ),
    (
        'y = R.call_dps_packed("f", (x,))\nreturn y',
        "Expected (function, (arguments, ...), out_type=",
        "R.call",
    ),
    ('y = R.call_dps_packed("f", (x,), 3)\nreturn y', "Expected a type", "3"),
    ("y = R.const('a', R.Tensor((2,)))\nreturn y", "No values for 'a'", "R.const"),
    ('y = R.const([1.5], "int31")\nreturn y', "Expected a dtype", "R.const"),
    ("y = R.const([[1], [1, 2]])\nreturn y", "inhomogeneous", "R.const"),
    (
        "y = R.reshape(x, R.shape([k, 2]))\nreturn y",
        "'k' is no dimension; declare it, `k = T.int64()`, or write the whole dim as a string",
        "k",
    ),
    ('y = R.reshape(x, R.shape(["m **"]))\nreturn y', "Expected a dimension", '"m **"'),
    (
        "def g(y: R.Tensor((2,))):\n    return y\nreturn g(x)",
        "There are no closures: write 'g' as a function of the module and call cls.g(...)",
        "def g(y",
    ),
    ('y: R.Prim("int64") = x\nreturn y', "A number is a tensor of shape ()", 'R.Prim("int64")'),
    ("y = lambda: x\nreturn y", "Expected a name, a number, a tuple or a call", "lambda: x"),
    ("if x:\n    y = x\nelse:\n    z = x\nreturn x", "one name; found 'y' and 'z'", "if x:"),
    ("if x:\n    y = x\nreturn x", "Both branches of an if", "if x:"),
    (
        "if x:\n    y = x\nelse:\n    y = R.sum(x)\nreturn x",
        "The branches of this if have different types",
        "if x:",
    ),
    ("y = main(x)\nreturn y", "A recursive call of 'main' needs its type annotated", "main(x)"),
]


@pytest.mark.parametrize(("body", "message", "place"), ERRORS)
def test_errors_point_at_the_text(body: str, message: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        main_of(body)
    assert message in caught.value.message
    span = caught.value.span
    assert span is not None
    assert span.source.text.split("\n")[span.line - 1][span.column :].startswith(place)


MODULE_ERRORS = [
    ("x = = 1", "Not Python syntax"),
    ("x + 1", "Expected a module class, functions, or NAME = literal."),
    ("", "found 0 classes and 0 functions"),
    ("def f(): pass", "Expected the decorator @T.prim_func or @R.function."),
    ("@R.function\ndef f(x): return x", "Parameter 'x' needs a type, such as R.Tensor((1, 784))."),
    ("@R.function\ndef f(*x): return x", "A function takes plain parameters."),
    ("@R.function\ndef f(x: int): return x", "Expected a type: R.Tensor("),
    ("@R.function\ndef f(x: R.Tensor((2,), 'flot')): return x", "Expected a dtype"),
    (
        "@R.function\ndef f(x: R.Tensor(ndim=2)): return x",
        'Expected R.Tensor(dtype="float32", ndim=2).',
    ),
    (
        "@R.function\ndef f(x: R.Tensor((2,))) -> R.Tensor((3,)):\n    return x",
        "The result is annotated",
    ),
    (
        "@I.ir_module\nclass M:\n    for i in x: pass",
        "Expected functions, I.module_attrs or NAME = literal",
    ),
    ("@I.ir_module\nclass M:\n    a = f()", "Expected a literal."),
    (
        "@I.ir_module\nclass M:\n    @R.function\n    def f(): return ()\n"
        "    @R.function\n    def f(): return ()",
        "'f' is defined twice",
    ),
]


@pytest.mark.parametrize(("text", "message"), MODULE_ERRORS)
def test_texts_that_are_no_module(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert message in caught.value.message
    assert caught.value.span is not None


def test_an_error_shows_the_line(golden) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParseError) as caught:
        main_of("y = R.add(x, R.const([1.0, 2.0]))\nreturn y")
    golden(str(caught.value))


def test_what_is_no_text() -> None:
    with pytest.raises(ParseError, match=r"parse takes the text of a module; found int\."):
        parse_module(3)  # type: ignore[arg-type]
