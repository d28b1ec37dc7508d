"""SelectWinograd: which convolutions become Winograd's, and that the model stays what it was."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from burnish.graphir.analysis import bindings
from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.pipeline import pipeline, stages
from burnish.graphir.passes.select_winograd import Axis, SelectWinograd, Shape
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tensorir.operators.winograd import transform_weight
from burnish.tests.graphir.reference import run

SAME = "strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1]"
LAST = f"{SAME}, channels_last=True"
SELECT = SelectWinograd("llvm -mcpu=znver4")


def model(
    *lines: str, x: str = '(1, 12, 12, 32), "float32"', w: tuple[int, ...] = (32, 32, 3, 3)
) -> tuple[IRModule, np.ndarray]:
    """A model of lines over x and the constants w and b; the weight."""
    kind = x.rsplit(", ", 1)[1]
    body = "".join(f"        {line}\n" for line in lines)
    module = parse_module(
        f"@R.function\ndef main(x: R.Tensor({x}), w: R.Tensor({w}, {kind}), "
        f"b: R.Tensor(({w[0]},), {kind})):\n    with R.dataflow():\n{body}"
        "        R.output(y)\n    return y\n"
    )
    rng = np.random.default_rng(0)
    weight = (rng.standard_normal(w) / 16).astype(kind.strip('"'))
    params = {"w": weight, "b": rng.standard_normal(w[0]).astype(weight.dtype)}
    return BindParams("main", params)(module), weight


def calls(module: IRModule) -> list[Call]:
    return [b.value for b in bindings(module["main"]) if isinstance(b.value, Call)]  # type: ignore[arg-type]


def test_a_convolution_becomes_winograds_and_computes_the_same() -> None:
    module, weight = model(f"a = R.conv(x, w, b, {LAST})", "y = R.relu(a)")
    found = verify_module(DeadCodeElimination()(SELECT(module)))
    call, relu = calls(found)
    assert (call.op, relu.op) == ("winograd_conv", "relu")
    tile = dict(call.attrs)["tile"]
    w = found.weights.array(call.args[1])  # type: ignore[arg-type]
    assert np.array_equal(w, transform_weight(weight, tile))
    x = np.random.default_rng(1).standard_normal((1, 12, 12, 32)).astype("float32")
    np.testing.assert_allclose(run(found, "main", x), run(module, "main", x), rtol=0, atol=5e-5)


@pytest.mark.parametrize("step", [1, 2])
def test_any_number_of_images(step: int) -> None:
    line = f"strides=[1, 1], padding={[step] * 4}, dilation={[step] * 2}, channels_last=True"
    lines = f"a = R.conv(x, w, b, {line})", "y = R.relu(a)"
    module, _ = model(*lines, x='("n", 23, 24, 64), "float32"', w=(64, 64, 3, 3))
    found = verify_module(DeadCodeElimination()(SELECT(module)))
    assert "winograd_conv" in [c.op for c in calls(found)]
    for count in (1, 3):
        x = np.random.default_rng(1).standard_normal((count, 23, 24, 64)).astype("float32")
        np.testing.assert_allclose(run(found, "main", x), run(module, "main", x), rtol=0, atol=1e-4)


@pytest.mark.parametrize("steps", [(2, 2), (3, 3), (1, 2), (4, 1)])
def test_a_dilated_convolution_becomes_one_of_its_phases(steps: tuple[int, int]) -> None:
    down, across = steps
    padding = [down, 2 * down, 0, across]
    line = f"strides=[1, 1], padding={padding}, dilation={list(steps)}, channels_last=True"
    lines = f"a = R.conv(x, w, b, {line})", "y = R.relu(a)"
    module, _ = model(*lines, x='(2, 36, 24, 64), "float32"', w=(64, 64, 3, 3))
    found = verify_module(DeadCodeElimination()(SELECT(module)))
    names = [c.op for c in calls(found)]
    assert names == ["reshape", "permute_dims", "reshape", "winograd_conv", "reshape",
                     "permute_dims", "reshape", "relu"]  # fmt: skip
    x = np.random.default_rng(1).standard_normal((2, 36, 24, 64)).astype("float32")
    np.testing.assert_allclose(run(found, "main", x), run(module, "main", x), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("steps", "padding", "rows", "columns"),
    [
        ((2, 2), [2, 1, 2, 2], 36, 24),
        ((2, 2), [1, 1, 3, 0], 36, 25),
        ((3, 3), [3, 3, 3, 3], 35, 25),
        ((3, 2), [1, 5, 4, 7], 34, 23),
        ((5, 1), [0, 0, 1, 1], 37, 24),
        ((4, 3), [9, 0, 0, 8], 39, 26),
    ],
)
def test_a_dilation_need_not_divide_the_image(
    steps: tuple[int, int], padding: list[int], rows: int, columns: int
) -> None:
    line = f"strides=[1, 1], padding={padding}, dilation={list(steps)}, channels_last=True"
    lines = f"a = R.conv(x, w, b, {line})", "y = R.relu(a)"
    module, _ = model(*lines, x=f'(2, {rows}, {columns}, 64), "float32"', w=(64, 64, 3, 3))
    found = verify_module(DeadCodeElimination()(SELECT(module)))
    names = [c.op for c in calls(found)]
    assert "winograd_conv" in names
    assert "conv" not in names
    x = np.random.default_rng(1).standard_normal((2, rows, columns, 64)).astype("float32")
    np.testing.assert_allclose(run(found, "main", x), run(module, "main", x), rtol=0, atol=1e-4)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_phases_have_all_results(step: int) -> None:
    """Each result of an axis is one of its phases', and padding is what the axis had at least."""
    for size, first, last in itertools.product((3, 8, 20), (0, 1, 6), (0, 2, 9)):
        wanted = size + first + last - 2 * step
        if wanted < 1:
            continue
        axis = Axis.of(size, (first, last), step)
        assert (axis.before + size + axis.behind) % step == 0
        assert axis.before + axis.padding[0] * step == first
        assert axis.results * step >= wanted
        assert 0 <= axis.before < step
        assert 0 <= axis.behind < step


def test_moves_to_phases_and_back_are_counted() -> None:
    still, moved = Shape(4, 28, 28, 64, 64), Shape(4, 28, 28, 64, 64, moved=1 << 20)
    extra = SELECT.winograd_cycles(moved, 4) - SELECT.winograd_cycles(still, 4)
    assert extra == pytest.approx(2 * 4 * (1 << 20) / 16)
    assert SELECT.direct_cycles(moved) == SELECT.direct_cycles(still)


def test_a_shared_weight_is_transformed_once() -> None:
    module, _ = model(f"a = R.conv(x, w, b, {LAST})", f"y = R.conv(a, w, b, {LAST})")
    first, second = calls(SELECT(module))
    assert first.op == second.op == "winograd_conv"
    assert first.args[1] is second.args[1]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (f"R.conv(x, w, {LAST.replace('strides=[1, 1]', 'strides=[2, 2]')})", {}),
        (f"R.conv(x, w, {LAST.replace('dilation=[1, 1]', 'dilation=[2, 2]')})", {}),
        (f"R.conv(x, w, {LAST}, out_channels_last=False)", {}),
        (f"R.conv(x, w, {SAME})", {"x": '(1, 32, 12, 12), "float32"'}),
        (f"R.conv(x, w, {LAST})", {"x": '(1, "h", 12, 32), "float32"'}),
        (f"R.conv(x, w, {LAST})", {"x": '(1, 12, 12, 32), "float64"'}),
        (f"R.conv(x, w, {LAST})", {"w": (32, 32, 5, 5)}),
        (f"R.conv(x, w, {LAST}, groups=2)", {"w": (32, 16, 3, 3)}),
        (f"R.conv(x, w, {LAST})", {"x": '(1, 12, 12, 24), "float32"', "w": (32, 24, 3, 3)}),
    ],
)
def test_all_others_stay(line: str, changed: dict[str, object]) -> None:
    module, _ = model(f"y = {line}", **changed)  # type: ignore[arg-type]
    assert [c.op for c in calls(SELECT(module))] == ["conv"]


def test_a_weight_that_is_no_constant_stays() -> None:
    module = parse_module(
        '@R.function\ndef main(x: R.Tensor((1, 12, 12, 32), "float32"), '
        'w: R.Tensor((32, 32, 3, 3), "float32")):\n    with R.dataflow():\n'
        f"        y = R.conv(x, w, {LAST})\n        R.output(y)\n    return y\n"
    )
    assert SELECT(module)["main"] is module["main"]


def test_the_estimate_decides_by_the_use_that_is_made_of_a_weight() -> None:
    tiles = [
        SELECT.tile(Shape(1, n, n, c, c)) for n, c in ((56, 64), (28, 128), (14, 256), (7, 512))
    ]
    assert tiles == [4, 4, 2, None]
    assert SELECT.tile(Shape(1, 56, 56, 16, 64)) is None
    # Where a smaller cache makes the products come first, weights come while others are used.
    small = SelectWinograd("llvm -mcpu=znver3")
    tiles = [
        small.tile(Shape(1, n, n, c, c)) for n, c in ((56, 64), (28, 128), (14, 256), (7, 512))
    ]
    assert tiles == [4, 4, 4, 2]
    # Where the caches hold the results of all products, as here, weights come ahead of their use,
    # and how fast they come decides.
    server = "llvm -mcpu=sapphirerapids"
    shapes = [Shape(1, n, n, c, c) for n, c in ((14, 256), (7, 512))]
    for memory, expected in ((2, [2, None]), (4, [2, 2]), (8, [4, 2])):
        given = SelectWinograd(f"{server} -bandwidth=128,48,12,{memory}")
        assert [given.tile(shape) for shape in shapes] == expected
    # Vectors of eight halve what an instruction does, not what is to be fetched.
    narrow = SelectWinograd("llvm -mcpu=haswell -l2=1M")
    assert narrow.direct_cycles(Shape(1, 56, 56, 64, 64)) > SELECT.direct_cycles(
        Shape(1, 56, 56, 64, 64)
    )


def test_the_epilogue_joins_the_kernel() -> None:
    module, _ = model(f"a = R.conv(x, w, b, {LAST})", "c = R.add(a, x)", "y = R.relu(c)")
    for stage in stages(selection=[SELECT]).values():
        module = stage(module)
    assert list(module.prim_funcs) == ["fused_winograd_conv_add_relu"]
    assert module.prim_funcs["fused_winograd_conv_add_relu"].attr("layout_free") == [1, 2]


def test_pipelines_select_nothing_unless_told() -> None:
    assert "select-winograd" not in str(pipeline())
    assert "select-winograd" in str(stages(selection=[SELECT])["20-legalized"])
