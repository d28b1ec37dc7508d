"""``precision=``: what each word gives, and what the report says of it."""

from __future__ import annotations

import copy

import pytest
import torch

from burnish.driver.compile import compile as compile_model
from burnish.driver.kernels import resolve_target
from burnish.driver.precision import layer_name
from burnish.driver.quantize import quantize
from burnish.support.errors import ArgumentError


def model() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A module, an input, and the result in float64."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(48, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 33)
    ).eval()
    x = torch.randn(5, 48)
    with torch.no_grad():
        expected = layers.double()(x.double())
    return layers.float(), x, expected


def test_bfloat16_stays_within_its_bound_and_the_types_stay() -> None:
    module, x, expected = model()
    made = compile_model(module, (x,), precision="bfloat16")
    found = made(x)
    assert found.dtype == torch.float32
    error = float((found.double() - expected).abs().max() / expected.abs().max())
    assert 1e-5 < error < 1e-2
    (note,) = [n for n in made.report.notes if "precision" in n]
    assert "2 of 2 matrix products" in note


def test_float32_is_the_default_to_the_bit() -> None:
    module, x, _ = model()
    default = compile_model(module, (x,))
    again = compile_model(module, (x,), precision="float32")
    assert torch.equal(default(x), again(x))
    assert not [n for n in default.report.notes if "precision" in n]


def test_threads_change_no_bit_of_bfloat16() -> None:
    module, x, _ = model()
    one, two = (compile_model(module, (x,), precision="bfloat16", threads=n) for n in (1, 2))
    assert torch.equal(one(x), two(x))


@pytest.mark.parametrize(("bits", "least", "most"), [(8, 1e-4, 1e-2), (4, 1e-2, 0.2)])
def test_integer_weights_keep_inputs_and_sums_in_float32(
    bits: int, least: float, most: float
) -> None:
    module, x, expected = model()
    made = compile_model(module, (x,), precision=f"int{bits}-weights")
    error = float((made(x).double() - expected).abs().max() / expected.abs().max())
    assert least < error < most
    (note,) = [n for n in made.report.notes if "precision" in n]
    assert f"the weights of 2 of 2 linear layers are integers of {bits} bits" in note
    assert "MB in place of" in note
    assert "(3.weight)" in note or "(0.weight)" in note


def test_threads_change_no_bit_of_integer_weights() -> None:
    module, x, _ = model()
    one, two = (compile_model(module, (x,), precision="int4-weights", threads=n) for n in (1, 2))
    assert torch.equal(one(x), two(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [2, 16])
def test_models_of_every_float_have_integer_weights(rows: int, dtype: torch.dtype) -> None:
    """Activations keep their type; groups are as long as the word says."""
    module, x, _ = model()
    x = x[:1].repeat(rows, 1)
    expected = copy.deepcopy(module).double()(x.double()).detach()
    narrow = copy.deepcopy(module).to(dtype)
    for word, bound in (("int8-weights:32", 3e-2), ("int4-weights:64", 0.4), ("int8", 6e-2)):
        made = compile_model(narrow, (x.to(dtype),), precision=word)
        found = made(x.to(dtype))
        assert found.dtype == dtype
        assert float((found.double() - expected).abs().max() / expected.abs().max()) < bound
        (note,) = [n for n in made.report.notes if "precision" in n]
        assert f"precision={word!r}" in note
        assert "2 of 2" in note


def test_float16_rounds_eight_times_finer_than_bfloat16() -> None:
    module, x, expected = model()

    def error(word: str) -> float:
        found = compile_model(module, (x,), precision=word)(x)
        return float((found.double() - expected).abs().max() / expected.abs().max())

    assert 1e-5 < error("float16") < error("bfloat16") / 3


def test_numbers_that_float16_does_not_have_become_infinite() -> None:
    linear = torch.nn.Linear(8, 4)
    x = torch.full((2, 8), 1e5)
    assert torch.isfinite(compile_model(linear, (x,), precision="bfloat16")(x)).all()
    made = compile_model(linear, (x,), precision="float16")
    assert not torch.isfinite(made(x)).any()
    (note,) = [n for n in made.report.notes if "precision" in n]
    assert "above 65504 become infinite" in note


@pytest.mark.parametrize(("features", "rounded"), [("", 0), (" -mattr=+emulated-tiles", 1)])
def test_attention_is_written_out_where_its_products_are_faster(
    features: str, rounded: int
) -> None:
    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    target = f"llvm -mcpu=haswell{features}"
    made = compile_model(
        Attention(), (torch.randn(1, 2, 8, 16),), precision="bfloat16", target=target
    )
    (note,) = [n for n in made.report.notes if "attentions" in n]
    assert f"the two products of {rounded} of 1 attentions take rounded operands" in note
    assert ("this CPU does not multiply bfloat16 faster" in note) == (rounded == 0)


def test_bytes_of_each_call_leave_convolutions_and_say_so() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(8, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4)
    )
    x = torch.randn(2, 8, 8, 8)
    made = compile_model(net, (x,), precision="int8")
    (note,) = [n for n in made.report.notes if "precision" in n]
    assert "1 of 1 matrix products and 0 of 1 convolutions are of bytes" in note
    assert "1 stay float32: it is a convolution" in note
    expected = copy.deepcopy(net).double()(x.double()).detach()
    assert float((made(x).double() - expected).abs().max() / expected.abs().max()) < 3e-2


def test_layers_that_keep_their_weights_are_named() -> None:
    odd = torch.nn.Sequential(torch.nn.Linear(37, 8), torch.nn.ReLU(), torch.nn.Linear(8, 32))
    made = compile_model(odd, (torch.randn(2, 37),), precision="int8-weights")
    (note,) = [n for n in made.report.notes if "precision" in n]
    assert "1 of 2 linear layers" in note
    assert "0.weight stays float32: 37 terms" in note
    none = compile_model(torch.nn.ReLU(), (torch.randn(2, 3),), precision="int8-weights")
    assert any("there is no linear layer" in n for n in none.report.notes)


def test_layers_have_words_of_their_own() -> None:
    """Names, names of weights and patterns; the first that fits; float32 where none does."""
    module, x, expected = model()
    whole = {p: compile_model(module, (x,), precision=p) for p in ("float32", "int8-weights")}
    mixed = compile_model(module, (x,), precision={"3": "int8-weights", "0.w*": "bfloat16"})
    notes = " ".join(mixed.report.notes)
    assert "1 of 2 matrix products take operands rounded to bfloat16" in notes
    assert "the weights of 1 of 2 linear layers are integers of 8 bits" in notes
    assert [s.rule for s in mixed.report.schedules.values()].count("scaled") == 1
    for words, same in (
        ({"*": "int8-weights"}, "int8-weights"),
        ({"3": "float32", "0": "float32", "*": "int4-weights"}, "float32"),
        ({}, "float32"),
    ):
        assert torch.equal(compile_model(module, (x,), precision=words)(x), whole[same](x))
    error = float((mixed(x).double() - expected).abs().max() / expected.abs().max())
    assert 1e-4 < error < 1e-2


def test_layers_that_there_are_not_and_words_of_whole_models_are_refused() -> None:
    module, x, _ = model()
    with pytest.raises(ArgumentError, match=r"no layer fits 'head'; there are 0, 3"):
        compile_model(module, (x,), precision={"head": "bfloat16"})
    with pytest.raises(ArgumentError, match="precision of a layer: expected one of float32"):
        compile_model(module, (x,), precision={"*": "strict"})
    with pytest.raises(ArgumentError, match=r"int8-weights.*auto; found 'fp8'"):
        compile_model(module, (x,), precision="fp8")


@pytest.mark.parametrize(
    ("weight", "layer"),
    [("a.fc.weight", "a.fc"), ("fc.weight.scaled", "fc"), ("w0", "w0"), ("weight", "weight")],
)
def test_names_of_layers(weight: str, layer: str) -> None:
    assert layer_name(weight) == layer


class Quantised(torch.nn.Module):
    """A linear layer as models have it that were quantised by others."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        rng = torch.Generator().manual_seed(0)
        shape = (48, 2, 32) if way == "groups" else (48, 64)
        low, high = (-8, 8) if way == "groups" else (-128, 128)
        self.register_buffer("w", torch.randint(low, high, shape, generator=rng).to(torch.int8))
        self.register_buffer("scale", torch.rand(*shape[:-1], 1, generator=rng) / 64)
        self.bias = torch.nn.Parameter(torch.rand(48, generator=rng))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "behind":
            return (x @ self.w.t().to(x.dtype)) * self.scale.flatten() + self.bias
        weight = (self.w.to(x.dtype) * self.scale).reshape(48, 64)
        return torch.nn.functional.linear(x, weight, self.bias).relu()


@pytest.mark.parametrize(("way", "bits"), [("columns", 8), ("groups", 4), ("behind", 8)])
def test_weights_that_a_model_has_as_integers_stay_integers(way: str, bits: int) -> None:
    module, x = Quantised(way).eval(), torch.randn(3, 64)
    made = compile_model(module, (x,))
    with torch.no_grad():
        torch.testing.assert_close(made(x), module(x), rtol=1e-5, atol=1e-5)
    assert made.report.constant_bytes < 48 * 64 * bits // 8 + 48 * 4 * 8
    assert any(f"weights as integers of {bits} bits" in n for n in made.report.notes)
    assert [s.rule for s in made.report.schedules.values()] == ["scaled"]


def test_another_word_is_refused_with_the_nearest() -> None:
    module, x, _ = model()
    with pytest.raises(ArgumentError, match="bfloat16"):
        compile_model(module, (x,), precision="bfloat61")


@pytest.mark.parametrize(
    ("cpu", "rows", "precision", "said"),
    [
        ("znver4", 4096, "fast", True),
        ("znver4", 8, "fast", False),
        ("znver4", 4096, "strict", False),
        ("sapphirerapids", 4096, "fast", False),
        ("znver3", 4096, "fast", False),
    ],
)
def test_the_report_says_where_the_cpu_could_do_more(
    cpu: str, rows: int, precision: str, said: bool
) -> None:
    layer, x = torch.nn.Linear(256, 512), torch.randn(rows, 256)
    made = compile_model(layer, (x,), target=f"llvm -mcpu={cpu}", precision=precision)
    notes = [n for n in made.report.notes if "vdpbf16ps" in n]
    assert len(notes) == said
    assert all("1 matrix products are float32" in n and "at 2 times" in n for n in notes)


@pytest.mark.parametrize(("cpu", "fast"), [("znver3", False), ("znver4", True)])
def test_the_report_says_where_a_narrow_type_gains_nothing(cpu: str, fast: bool) -> None:
    layer, x = torch.nn.Linear(48, 32), torch.randn(40, 48)
    target = f"llvm -mcpu={cpu}"
    for word, quick in (("bfloat16", fast), ("float16", False)):
        notes = compile_model(layer, (x,), target=target, precision=word).report.notes
        said = [n for n in notes if f"multiplies {word} no faster than float32" in n]
        assert bool(said) is not quick
    for dtype, quick in ((torch.bfloat16, fast), (torch.float16, False), (torch.float32, True)):
        made = compile_model(copy.deepcopy(layer).to(dtype), (x.to(dtype),), target=target)
        said = [n for n in made.report.notes if "has no arithmetic" in n]
        assert bool(said) is not quick
    (note,) = [
        n
        for n in compile_model(layer, (x,), precision="int8-weights", target=target).report.notes
        if "int8-weights" in n
    ]
    assert "up to a tenth longer" in note


def convolutions() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """Convolutions of every kind, an input, and the result in float64."""
    torch.manual_seed(0)
    nn = torch.nn
    layers = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, groups=64), nn.Conv2d(64, 33, 3, stride=2), nn.ReLU(),
        nn.Conv2d(33, 40, 3, bias=False), nn.Flatten(), nn.Linear(40 * 4 * 4, 10),
    ).eval()  # fmt: skip
    x = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        expected = layers.double()(x.double())
    return layers.float(), x, expected


@pytest.mark.parametrize("target", ["native", "llvm -mcpu=x86-64-v3"])
def test_convolutions_take_rounded_operands(target: str) -> None:
    module, x, expected = convolutions()
    made = compile_model(module, (x,), precision="bfloat16", target=target)
    error = float((made(x).double() - expected).abs().max() / expected.abs().max())
    assert 1e-4 < error < 1e-2
    (note,) = [n for n in made.report.notes if "precision=" in n]
    assert "1 of 1 matrix products and 2 of 5 convolutions take operands rounded" in note
    assert "0 stays float32: the channels of its image do not lie side by side" in note
    assert "4 stays float32: it has groups" in note
    assert "7 stays float32: an odd number of channels" in note
    # Winograd's algorithm is for float32, in which they are where nothing multiplies pairs faster.
    rules = [s.rule for s in made.report.schedules.values()]
    fast = resolve_target(target).instructions.has_fast_pairs
    assert ("winograd" in rules) is not fast


def test_convolutions_are_layers_of_their_own() -> None:
    module, x, _ = convolutions()
    wide = compile_model(module, (x,))
    made = compile_model(module, (x,), precision={"2": "bfloat16", "5": "float32"})
    assert any("1 of 5 convolutions" in n for n in made.report.notes)
    assert not torch.equal(made(x), wide(x))
    integers = compile_model(module, (x,), precision={"2": "int8-weights"})
    assert any("2 stays float32: it is a convolution's" in n for n in integers.report.notes)
    assert torch.equal(integers(x), wide(x))


def test_threads_change_no_bit_of_convolutions_in_bfloat16() -> None:
    module, x, _ = convolutions()
    one, two = (compile_model(module, (x,), precision="bfloat16", threads=n) for n in (1, 2))
    assert torch.equal(one(x), two(x))


def test_a_model_in_float64_keeps_its_type_and_says_so() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)).double().eval()
    x = torch.randn(3, 16, dtype=torch.float64)
    model = compile_model(module, (x,), precision="bfloat16")
    with torch.no_grad():
        torch.testing.assert_close(model(x), module(x))
    (note,) = model.report.notes
    assert "2 matrix products stay float64: operands that are not float32" in note


def test_precisions_that_are_no_words_are_refused() -> None:
    module, x, _ = model()
    for wrong in (None, torch.bfloat16, 7, ["int8"], {0: "int8"}):
        with pytest.raises(ArgumentError, match=r"expected a word .* or a mapping of names"):
            compile_model(module, (x,), precision=wrong)  # type: ignore[arg-type]


class Named(torch.nn.Module):
    """Layers whose weights have other names than ``weight``, or one that begins so."""

    def __init__(self) -> None:
        super().__init__()
        self.weight_proj = torch.nn.Linear(32, 32)
        self.attention = torch.nn.MultiheadAttention(32, 2, batch_first=True)
        self.w1 = torch.nn.Parameter(torch.randn(32, 16))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        y = self.attention(self.weight_proj(x), memory, memory, need_weights=False)[0]
        return y @ self.w1.t().contiguous().t()


@pytest.mark.parametrize(
    "pattern", ["weight_proj", "attention", "attention.in_proj_weight", "w1", "attention.out_proj"]
)
def test_layers_have_the_names_of_their_module(pattern: str) -> None:
    torch.manual_seed(0)
    module, x, memory = Named().eval(), torch.randn(2, 5, 32), torch.randn(2, 7, 32)
    rounded = compile_model(module, (x, memory), precision={pattern: "bfloat16"})
    whole = compile_model(module, (x, memory))
    assert not torch.equal(rounded(x, memory), whole(x, memory))
    for y in (rounded(x, memory), whole(x, memory)):
        torch.testing.assert_close(y, module(x, memory), atol=0.1, rtol=0.05)


@pytest.mark.parametrize("precision", ["int8", "quantize", "int8-weights"])
@pytest.mark.filterwarnings("error")
def test_weights_that_are_no_numbers_make_their_output_none(precision: str) -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(64, 10, bias=False).eval(), torch.randn(4, 64)
    with torch.no_grad():
        layer.weight[3, 5], layer.weight[7, 0] = float("nan"), float("inf")
    if precision == "quantize":
        model = quantize(layer, [(x,)])
    else:
        model = compile_model(layer, (x,), precision=precision)
    found = model(x)
    assert not found[:, [3, 7]].isfinite().any()
    others = [i for i in range(10) if i not in (3, 7)]
    torch.testing.assert_close(found[:, others], layer(x)[:, others], atol=0.05, rtol=0.05)
