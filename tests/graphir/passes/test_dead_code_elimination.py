"""DeadCodeElimination: what is unread goes, what has effects or is called stays."""

from __future__ import annotations

from burnish.graphir.expr import Function
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.structural import assert_structural_equal

KERNEL = """
    @T.prim_func
    def {name}(X: T.Buffer((2,), "float32"), Y: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("Y"):
                vi = T.axis.spatial(2, i)
                Y[vi] = X[vi]
"""
X = "(x,), R.Tensor((2,))"


def run(text: str) -> str:
    return verify_module(DeadCodeElimination()(parse_module(text))).script()


def test_chains_of_unread_bindings_go() -> None:
    module = parse_module(
        "@R.function\ndef main(x: R.Tensor((2,))):\n    with R.dataflow():\n"
        "        a = R.exp(x)\n        b = R.relu(a)\n"
        "        y = R.tanh(x)\n        R.output(y)\n    return y\n"
    )
    expected = parse_module(
        "@R.function\ndef main(x: R.Tensor((2,))):\n    with R.dataflow():\n"
        "        y = R.tanh(x)\n        R.output(y)\n    return y\n"
    )
    once = DeadCodeElimination()(module)
    assert_structural_equal(once, expected)
    assert DeadCodeElimination()(once)["main"] is once["main"]


def test_packed_calls_stay_outside_of_dataflow_blocks() -> None:
    text = run(
        f"@R.function\ndef main(x: R.Tensor((2,))):\n"
        f'    a = R.call_dps_packed("env.log", {X})\n    b = R.exp(x)\n'
        f'    with R.dataflow():\n        c = R.call_dps_packed("env.pure", {X})\n'
        f"        R.output(c)\n    return x\n"
    )
    assert "env.log" in text
    assert "env.pure" not in text
    assert "R.exp" not in text


def test_an_if_with_an_effect_stays() -> None:
    text = (
        '@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
        "    if c:\n        d = R.exp(x)\n"
        f'        a = R.call_dps_packed("env.log", {X})\n        y = a\n'
        f"    else:\n        y = x\n    return x\n"
    )
    assert "env.log" in run(text)
    assert "R.exp" not in run(text)
    assert "if c" not in run(
        text.replace("env.log", "env.log").replace(f'R.call_dps_packed("env.log", {X})', "x")
    )


def test_uncalled_kernels_go_and_packed_names_count() -> None:
    kernels = "".join(KERNEL.format(name=n) for n in ("used", "by_name", "unused"))
    module = DeadCodeElimination()(
        parse_module(
            f"@I.ir_module\nclass M:\n{kernels}\n    @R.function\n"
            f"    def main(x: R.Tensor((2,))):\n"
            f"        a = R.call_dps(cls.used, {X})\n"
            f'        b = R.call_dps_packed("by_name", (a,), R.Tensor((2,)))\n'
            "        return cls.helper(b)\n    @R.function\n"
            "    def helper(x: R.Tensor((2,))):\n        return x\n"
        )
    )
    assert list(module) == ["used", "by_name", "main", "helper"]


def test_entries_can_be_named() -> None:
    module = parse_module(
        "@R.function\ndef f(x: R.Tensor((2,))):\n    return x\n@R.function\n"
        "def g(x: R.Tensor((2,))):\n    return x\n"
    )
    assert list(DeadCodeElimination(("g",))(module)) == ["g"]


def test_a_library_of_kernels_stays_whole() -> None:
    module = parse_module(
        f"@I.ir_module\nclass M:\n{KERNEL.format(name='a')}{KERNEL.format(name='b')}"
    )
    assert list(DeadCodeElimination()(module)) == ["a", "b"]


def test_what_an_empty_block_kept_apart_becomes_one_block() -> None:
    """Else the text would read back as another module."""
    call = 'R.call_dps_packed("env.f", (x,), out_type=R.Tensor((2,)))'
    module = DeadCodeElimination()(
        parse_module(
            "@R.function\ndef main(x: R.Tensor((2,))):\n"
            f"    a = {call}\n"
            "    with R.dataflow():\n"
            "        b = R.exp(a)\n        R.output(b)\n"
            f"    c = {call}\n"
            "    return c\n"
        )
    )
    func = module["main"]
    assert isinstance(func, Function)
    (block,) = func.body.blocks
    assert [b.var.name for b in block.bindings] == ["a", "c"]
    assert_structural_equal(parse_module(module.script()), module)


def test_an_if_that_binds_a_size_for_what_is_behind_it_stays() -> None:
    text = run(
        '@R.function\ndef main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool")):\n'
        '    if c:\n        a = R.bind_size(x, R.shape(["n"]))\n        y = a\n'
        '    else:\n        b = R.bind_size(x, R.shape(["n"]))\n        y = b\n'
        '    z = R.broadcast_to(R.const(1.0, "float32"), R.shape(["n"]))\n    return z\n'
    )
    assert text.count("R.bind_size") == 2


def test_an_if_whose_sizes_stay_in_its_branches_goes() -> None:
    text = run(
        '@R.function\ndef main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool")):\n'
        '    if c:\n        a = R.bind_size(x, R.shape(["n"]))\n'
        '        b = R.broadcast_to(R.const(1.0, "float32"), R.shape(["n"]))\n'
        "        y = R.sum(b)\n"
        '    else:\n        y = R.const(2.0, "float32")\n'
        "    z = R.negative(x)\n    return z\n"
    )
    assert "if c" not in text
    assert "R.bind_size" not in text


def test_a_size_of_an_inner_if_that_is_read_outside_of_both_stays() -> None:
    def binds(side: str) -> str:
        return (
            f'        if c:\n            a{side} = R.bind_size(x, R.shape(["n"]))\n'
            f"            r{side} = a{side}\n        else:\n"
            f'            b{side} = R.bind_size(x, R.shape(["n"]))\n            r{side} = b{side}\n'
            f"        y = R.negative(x)\n"
        )

    text = run(
        '@R.function\ndef main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool")):\n'
        f"    if c:\n{binds('t')}    else:\n{binds('f')}"
        '    z = R.broadcast_to(R.const(1.0, "float32"), R.shape(["n"]))\n    return z\n'
    )
    assert text.count("R.bind_size") == 4
