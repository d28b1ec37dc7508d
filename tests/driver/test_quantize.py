"""burnish.quantize: products in bytes, ranges from samples, layers kept for a bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper, parser
from torch import nn

import burnish
from burnish.driver.quantize import range_of, slow_note
from burnish.graphir.builder import call_op
from burnish.graphir.expr import Call, Var
from burnish.graphir.type import tensor_type
from burnish.support.errors import ArgumentError, FrontendError
from burnish.support.target import Target

TILES = "native -mattr=+emulated-tiles"
"""Products of bytes and of bfloat16 are faster than float32's, as far as the compiler knows."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3)
        self.conv = nn.Conv2d(16, 24, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(24)
        self.fc = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.norm(self.conv(torch.relu(self.first(x)))))
        return {"scores": self.fc(y.mean((2, 3)))}


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    made = Net().eval()
    nn.init.uniform_(made.norm.running_var, 0.5, 2.0)
    nn.init.normal_(made.norm.running_mean)
    return made


def images(count: int = 3) -> list[tuple[torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(2, 3, 10, 9, generator=generator),) for _ in range(count)]


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse"])
def test_products_are_of_bytes_and_near(net: nn.Module, ranges: str) -> None:
    samples = images()
    model = burnish.quantize(net, samples, ranges=ranges, threads=1)
    assert "2 products are of bytes, summed in int32 and exact." in model.report.notes
    with torch.inference_mode():
        for sample in samples:
            found, expected = model(*sample)["scores"], net(*sample)["scores"]
            assert isinstance(found, torch.Tensor)
            assert 0 < error(found, expected) < 0.03
    (table,) = [n for n in model.report.notes if n.startswith("quantize:")]
    assert table.startswith(
        f"quantize: 2 of 2 products are of bytes, ranges {ranges!r} of 3 samples"
    )
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["conv", "fc"]


def test_rounding_is_that_of_the_formula() -> None:
    """One layer, against the same in NumPy and float64."""
    layer, x = nn.Linear(32, 5), torch.rand(4, 32)
    model = burnish.quantize(layer, [(x,)], ranges="minmax", bias_correction=False, threads=1)
    w, b = (p.detach().numpy().astype(np.float64) for p in (layer.weight, layer.bias))
    step = float(x.max()) / 255
    scale = np.abs(w).max(1, keepdims=True) / 127
    rounded = np.rint(x.numpy() / np.float32(step)).astype(np.float64)
    expected = rounded @ np.rint(w / scale).T * (step * scale.T) + b
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ranges", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize(
    ("symmetric", "per_channel"), [(True, True), (False, False), (True, False)]
)
def test_ranges_about_zero_and_one_scale_a_layer(
    net: nn.Module, ranges: str, symmetric: bool, per_channel: bool
) -> None:
    samples = images()
    model = burnish.quantize(
        net, samples, ranges=ranges, symmetric=symmetric, per_channel=per_channel, threads=1
    )
    with torch.inference_mode():
        for sample in samples:
            assert 0 < error(model(*sample)["scores"], net(*sample)["scores"]) < 0.06
    (table,) = [n for n in model.report.notes if n.startswith("quantize: 2 of 2 products")]
    assert ("activations int8" in table) == symmetric
    assert ("a layer's largest" in table) != per_channel


def test_rounding_about_zero_is_that_of_the_formula() -> None:
    layer, x = nn.Linear(32, 5), torch.randn(4, 32)
    model = burnish.quantize(
        layer, [(x,)], ranges="minmax", bias_correction=False, symmetric=True, per_channel=False,
        threads=1,
    )  # fmt: skip
    w, b = (p.detach().numpy().astype(np.float64) for p in (layer.weight, layer.bias))
    step = np.float32(float(x.abs().max()) / 127)
    scale = np.float32(np.abs(w).max() / 127)
    rounded = np.rint(x.numpy() / step).astype(np.float64)
    expected = rounded @ np.rint(w / scale).T * (float(step) * float(scale)) + b
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-5, atol=1e-5)


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 3 * 64), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.first(x).reshape(x.shape[0], 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.last(y.transpose(1, 2).reshape(x.shape))


def test_what_is_not_of_bytes_may_be_of_bfloat16() -> None:
    torch.manual_seed(0)
    net, x = Attentive().eval(), torch.randn(2, 32, 64)
    model = burnish.quantize(net, [(x,)], precision="bfloat16", threads=1, target=TILES)
    said = "\n".join(model.report.notes)
    assert "quantize: 2 of 2 products are of bytes" in said
    assert "the two products of 1 of 1 attentions take rounded operands" in said
    assert "0 of 0" not in said
    whole = burnish.quantize(net, [(x,)], threads=1, target=TILES)
    assert "attentions take rounded operands" not in "\n".join(whole.report.notes)
    assert 0 < error(model(x), net(x).detach()) < 0.06


def test_a_bound_that_the_precision_alone_exceeds_is_an_error() -> None:
    torch.manual_seed(0)
    net, x = Attentive().eval(), torch.randn(2, 32, 64)
    how = {"precision": "bfloat16", "threads": 1, "target": TILES}
    with pytest.raises(ArgumentError, match="with precision='bfloat16' alone the results are off"):
        burnish.quantize(net, [(x,)], max_error=1e-6, **how)


def test_other_words_for_what_is_not_of_bytes_are_refused(net: nn.Module) -> None:
    with pytest.raises(ArgumentError, match="precision: expected what products that are not"):
        burnish.quantize(net, images(), precision="int8")


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.last(self.first(x).relu()) * self.calls


@pytest.mark.parametrize("max_error", [None, 0.1])
def test_state_is_that_of_the_calls_alone(max_error: float | None) -> None:
    torch.manual_seed(0)
    net, x = Counting().eval(), torch.randn(4, 8)
    model = burnish.quantize(net, [(x,), (2 * x,)], max_error=max_error, threads=1)
    assert net.calls == 0
    for n in (1, 2, 3):
        expected = net.last(net.first(x).relu()) * n
        assert 0 < error(model(x), expected.detach()) < 0.05
    assert net.calls == 3


def test_products_that_stay_are_counted_with_the_reason(net: nn.Module) -> None:
    model = burnish.quantize(net, images(), threads=1)
    assert (
        "1 products stay float32: it is a convolution of groups or of few channels, which is "
        "faster in float32."
    ) in model.report.notes


def convolution(dtype: str, strides: tuple[int, int] = (1, 1)) -> Call:
    x, w = (Var(n, tensor_type(s, dtype)) for n, s in (("x", (1, 16, 8, 8)), ("w", (16, 16, 3, 3))))
    return call_op("conv", x, w, strides=strides, padding=(1, 1, 1, 1), dilation=(1, 1), groups=1)


@pytest.mark.parametrize(
    ("cpu", "said"),
    [("generic", True), ("generic -mattr=+i8mm", False), ("haswell", False), ("znver4", False)],
)
def test_convolutions_that_are_faster_in_float32_are_counted(cpu: str, said: bool) -> None:
    calls = [convolution("float32"), convolution("float32", (2, 2))]
    note = slow_note(calls, Target(f"llvm -mcpu={cpu}"))
    assert ("1 convolutions of 3 x 3" in note) is said
    assert bool(note) is said


def test_convolutions_without_dot_products_of_bytes_are_winograds_and_exact() -> None:
    conv, x = nn.Conv2d(32, 32, 3, padding=1), torch.randn(1, 32, 12, 12)
    fast, slow = (
        burnish.quantize(conv, [(x,)], target=f"llvm -mcpu=haswell{f}", threads=1)
        for f in ("", " -mattr=+emulated-tiles")
    )
    assert "winograd (" in str(fast.report)
    assert "winograd (" not in str(slow.report)
    assert torch.equal(fast(x), slow(x))


def test_it_tunes_and_prints() -> None:
    layer, x = nn.Linear(32, 16), torch.randn(4, 32)
    model = burnish.quantize(layer, [(x,)], threads=1)
    before = model(x)
    model.tune(trials=4)
    assert torch.equal(model(x), before)
    assert "R.integer_matmul(" in model.script("10-canonical")


def test_weights_that_are_rounded_keep_their_mean_result() -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 8), torch.rand(256, 64) + 3
    found = [
        burnish.quantize(layer, [(x,)], bias_correction=c, threads=1)(x) - layer(x).detach()
        for c in (False, True)
    ]
    plain, corrected = (float(d.mean(0).abs().max()) for d in found)
    assert corrected < plain / 5


def test_layers_stay_float32_for_a_bound(net: nn.Module) -> None:
    samples = images()
    free = burnish.quantize(net, samples, max_error=0.5, threads=1)
    whole = max(error(free(*s)["scores"], net(*s)["scores"].detach()) for s in samples)
    assert any("2 of 2 products" in n for n in free.report.notes)
    model = burnish.quantize(net, samples, max_error=whole * 0.9, threads=1)
    (table,) = [n for n in model.report.notes if n.startswith("quantize:")]
    assert "quantize: 1 of 2 products are of bytes" in table
    for s in samples:
        assert error(model(*s)["scores"], net(*s)["scores"].detach()) <= whole * 0.9 + 1e-6
    none = burnish.quantize(net, samples, max_error=1e-9, threads=1)
    assert any("0 of 2 products are of bytes" in n for n in none.report.notes)
    assert error(none(*samples[0])["scores"], net(*samples[0])["scores"].detach()) < 1e-5


def test_sizes_may_vary(net: nn.Module) -> None:
    model = burnish.quantize(net, images(), dynamic_shapes=({0: "n", 2: "h"},), threads=1)
    x = torch.randn(5, 3, 12, 9)
    assert error(model(x)["scores"], net(x)["scores"].detach()) < 0.05


def test_it_saves(net: nn.Module, tmp_path: Path) -> None:
    (x,) = images(1)[0]
    model = burnish.quantize(net, [(x,)], threads=1)
    saved = model.save(tmp_path / "q.burnish")
    plain = burnish.compile(net, (x,), threads=1).save(tmp_path / "f.burnish")
    found = burnish.load(saved.path, threads=1)(x.numpy())["scores"]
    np.testing.assert_array_equal(found, model(x)["scores"].numpy())
    assert saved.size < plain.size + 20_000


def test_an_onnx_model_with_a_constant_matrix() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 6)).astype(np.float32)
    proto: onnx.ModelProto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\ng (float[N, 3, 32] x) => (float y) {\n'
        "y = MatMul(x, w)\n}"
    )
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    x = rng.standard_normal((2, 3, 32)).astype(np.float32)
    model = burnish.quantize(proto, [(x,)], threads=1)
    expected = x @ w
    assert np.abs(model(x) - expected).max() < 0.03 * np.abs(expected).max()
    assert any("integer_matmul" in k for k in model.report.kernels)


def test_ranges() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=50_000), [40.0]])
    whole = range_of(values, "minmax")
    assert whole == (values.min(), 40.0)
    for how in ("percentile", "mse"):
        low, high = range_of(values, how)
        assert high - low < whole[1] - whole[0]
    assert range_of(np.zeros(3), "mse") == (0.0, 0.0)
    assert range_of(np.full(3, 2.0), "minmax") == (0.0, 2.0)
    assert range_of(np.array([]), "mse") == (0.0, 0.0)


def test_errors(net: nn.Module) -> None:
    (x,) = images(1)[0]
    with pytest.raises(ArgumentError, match="expected one of minmax, percentile, mse"):
        burnish.quantize(net, [(x,)], ranges="max")
    for wrong in ([], (), x, [x]):
        with pytest.raises(ArgumentError, match="samples: expected a list of tuples"):
            burnish.quantize(net, wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected a number above 0"):
        burnish.quantize(net, [(x,)], max_error=0)
    with pytest.raises(ArgumentError, match=r"with samples\[1\] the input of layer 'conv' has inf"):
        burnish.quantize(net, [(x,), (torch.full_like(x, float("nan")),)])
    with pytest.raises(ArgumentError, match="no product of this model can be of bytes"):
        burnish.quantize(nn.ReLU(), [(x,)])
    with pytest.raises(ArgumentError, match="dynamic_shapes goes with"):
        burnish.quantize(torch.export.export(net, (x,)), [(x,)], dynamic_shapes=({0: "n"},))


def test_a_quantised_model_is_verified_by_what_bytes_may_err(net: nn.Module) -> None:
    (x,) = images(1)[0]
    model = burnish.quantize(net, [(x,)])
    assert model.verify(x, nodes=False)
    with pytest.raises(FrontendError, match="quantize the module as it is now"):
        model.refresh()
