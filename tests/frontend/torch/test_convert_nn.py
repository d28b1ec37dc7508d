"""Matrix products, softmax, attention and normalisations against eager torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from burnish.frontend.torch import import_module
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import (
    check_all,
    compare,
    evaluate,
    import_function,
    operators_of,
)

torch.manual_seed(0)
A, B = torch.rand(3, 4), torch.rand(4, 5)
W, BIAS, V = torch.rand(5, 4), torch.rand(5), torch.rand(4)
X = torch.randn(2, 3, 4)
Q = torch.randn(2, 2, 3, 4)


def test_matrix_products() -> None:
    check_all(
        {
            "mm": lambda a, b: a @ b,
            "linear": lambda a, b: F.linear(a, W, BIAS),
            "linear without bias": lambda a, b: F.linear(a, W),
            "linear of three dims": lambda a, b: F.linear(a.expand(2, 3, 4), W, BIAS),
            "matmul broadcast": lambda a, b: a.expand(2, 3, 4) @ b,
            "bmm": lambda a, b: torch.bmm(a.expand(2, 3, 4), b.expand(2, 4, 5)),
            "vector": lambda a, b: a @ V,
            "mv": lambda a, b: torch.mv(a, V),
            "dot": lambda a, b: torch.dot(a[0], V),
            "addmm": lambda a, b: torch.addmm(BIAS, a, b),
            "addmm scaled": lambda a, b: torch.addmm(BIAS, a, b, beta=0.5, alpha=2),
            "addmm without c": lambda a, b: torch.addmm(BIAS * torch.nan, a, b, beta=0),
            "baddbmm": lambda a, b: torch.baddbmm(BIAS, a[None], b[None], alpha=0.5),
            "addmv": lambda a, b: torch.addmv(a[:, 0], a, V, beta=2),
            "einsum": lambda a, b: torch.einsum("ij,jk->ki", a, b),
            "outer": lambda a, b: torch.outer(a[0], b[0]),
        },
        A,
        B,
    )


def test_products_of_bytes() -> None:
    a = torch.randint(-128, 128, (18, 8), dtype=torch.int8)
    b = torch.randint(-128, 128, (8, 16), dtype=torch.int8)
    a[0], b[:, 0] = -128, -128
    check_all(
        {
            "_int_mm": lambda a, b: torch._int_mm(a, b),
            "of a transposed weight": lambda a, b: torch._int_mm(a, b.t().contiguous().t()),
        },
        a,
        b,
    )
    module = import_function(lambda a, b: torch._int_mm(a, b), a, b)
    assert operators_of(module) == ["integer_matmul"]


def test_a_weight_of_int8_with_scales() -> None:
    x, scale = torch.randn(3, 64), torch.rand(48) / 128
    w = torch.randint(-128, 128, (48, 64), dtype=torch.int8)
    check_all({"_weight_int8pack_mm": torch._weight_int8pack_mm}, x, w, scale)


def test_linear_stays_whole() -> None:
    module = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2, bias=False)).eval()
    assert operators_of(import_module(module, (A,))) == ["linear", "linear"]


def test_softmax_and_layer_norm() -> None:
    check_all(
        {
            "softmax": lambda x: x.softmax(-1),
            "softmax 1": lambda x: F.softmax(x, dim=1),
            "softmax of double": lambda x: F.softmax(x, dim=0, dtype=torch.float64),
            "softmax of ints": lambda x: F.softmax(x.int(), dim=0, dtype=torch.float32),
            "log_softmax": lambda x: x.log_softmax(2),
            "softmax of a scalar": lambda x: x[0, 0, 0].softmax(-1),
            "softmin": lambda x: F.softmin(x, dim=-1),
            "layer_norm": lambda x: F.layer_norm(x, (4,)),
            "layer_norm 2": lambda x: F.layer_norm(x, (3, 4), eps=1e-3),
            "weight": lambda x: F.layer_norm(x, (4,), weight=V),
            "weight and bias": lambda x: F.layer_norm(x, (4,), V, V + 1),
            "bias": lambda x: F.layer_norm(x, (4,), bias=V),
            "native": lambda x: torch.native_layer_norm(x, [4], V, V, 1e-5)[0],
            "normalize": lambda x: F.normalize(x, dim=1),
        },
        X,
    )


def test_layer_norm_of_narrow_numbers_beside_wide_weights() -> None:
    weight, bias = torch.rand(4), torch.rand(4)
    functions = {
        "both": lambda x: F.layer_norm(x, (4,), weight, bias),
        "weight": lambda x: F.layer_norm(x, (4,), weight),
        "bias": lambda x: F.layer_norm(x, (4,), None, bias),
        "native": lambda x: torch.native_layer_norm(x, [4], weight, bias, 1e-5)[0],
    }
    check_all(functions, X.half())
    both = import_function(functions["both"], X.bfloat16())
    assert operators_of(both) == ["astype", "layer_norm", "astype"]


def test_known_statistics_are_a_scale_and_a_shift() -> None:
    """Of which a convolution before it takes both; a batch's own are subtracted first."""
    x, m = torch.rand(2, 3, 4), torch.rand(3)
    known = import_function(lambda x, m: F.batch_norm(x, m, m + 1, training=False), x, m)
    assert operators_of(known)[-2:] == ["multiply", "add"]
    own = import_function(lambda x: F.batch_norm(x, None, None, training=True), x)
    assert operators_of(own)[-2:] == ["subtract", "multiply"]


def test_batch_norm_with_running_statistics_and_without() -> None:
    running = nn.BatchNorm1d(3).eval()
    running.running_mean = torch.rand(3)
    running.running_var = torch.rand(3) + 0.5
    with torch.no_grad():
        running.weight.copy_(torch.rand(3))
    own = nn.BatchNorm1d(3, affine=False, track_running_stats=False).eval()
    check_all(
        {"running": running, "own": own, "two dims": lambda x: running(x[:, :, 0])},
        X,
        dynamic_shapes=(({0: "batch"},),),
        also=((torch.randn(5, 3, 4),),),
    )


def test_attention() -> None:
    allowed = torch.tensor([[True, False, True], [True, True, False], [False, False, True]])
    attention = F.scaled_dot_product_attention
    check_all(
        {
            "plain": lambda q: attention(q, q + 1, q - 1),
            "scale": lambda q: attention(q, q, q, scale=0.3),
            "bool mask": lambda q: attention(q, q, q, attn_mask=allowed),
            "float mask": lambda q: attention(q, q, q, attn_mask=allowed * 1.5),
            "causal": lambda q: attention(q, q, q, is_causal=True),
            "groups": lambda q: attention(q, q[:, :1], q[:, 1:], enable_gqa=True),
            "no key": lambda q: attention(q, q, q, attn_mask=allowed & False),
            "no heads": lambda q: attention(q[0], q[0] + 1, q[0]),
            "no batch": lambda q: attention(q[0, 0], q[0, 0] + 1, q[0, 0], attn_mask=allowed),
            "five dims": lambda q: attention(q[None], q[None] + 1, q[None], attn_mask=allowed),
            "keys for all": lambda q: attention(q, q[:, :1] + 1, q[:, :1]),
        },
        Q,
    )


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_matrices_is_one_operator(causal: bool) -> None:
    x = torch.rand(3, 4)
    imported = import_function(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=causal), x, x + 1
    )
    assert [op for op in operators_of(imported) if op != "reshape"] == ["attention"]


def test_an_encoder_layer_with_a_symbolic_batch() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    imported = check_all(
        {"layer": layer},
        X,
        dynamic_shapes=(({0: "batch"},),),
        also=tuple([(torch.randn(n, 3, 4),) for n in (1, 5)]),
    )
    assert imported.dim_names == ("batch",)


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), Q, "dropout in"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported(function, x, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FrontendError) as caught:
        import_function(function, x)
    assert message in str(caught.value)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_symbolic_length(causal: bool) -> None:
    check_all(
        {"length": lambda x: F.scaled_dot_product_attention(x, x + 1, x, is_causal=causal)},
        Q,
        dynamic_shapes=({2: "length"},),
        also=tuple([(torch.randn(1, 2, n, 4),) for n in (2, 7)]),
    )


def test_queries_without_keys_are_zeros_at_any_length() -> None:
    """Batches padded to a length of their own have such."""
    keys = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    keys[..., 1, :] = False
    added = torch.zeros(3, 3).masked_fill(~keys[0, 0], -torch.inf)
    larger = (torch.randn(1, 2, 5, 4), *(F.pad(m, (0, 2, 0, 2)) for m in (keys, added)))
    check_all(
        {
            "bool": lambda x, m, a: F.scaled_dot_product_attention(x, x, x, attn_mask=m),
            "added": lambda x, m, a: F.scaled_dot_product_attention(x, x, x, attn_mask=a),
        },
        torch.randn(1, 2, 3, 4),
        keys,
        added,
        dynamic_shapes=(({2: "n"}, {2: "n", 3: "n"}, {0: "n", 1: "n"}),),
        also=(larger,),
    )


def test_a_causal_mask_of_symbolic_length_over_keys_of_all_heads() -> None:
    check_all(
        {"mqa": lambda x: F.scaled_dot_product_attention(x, x[:, :1], x[:, :1], is_causal=True)},
        Q,
        dynamic_shapes=(({2: "length"},),),
        also=((Q[:, :, :2],),),
    )


def test_native_forms_of_norms() -> None:
    """The statistics that they give beside their result, where somebody uses them."""
    check_all(
        {
            "layer norm": lambda x: sum(
                r.sum() for r in torch.native_layer_norm(x, [4], V, V, 1e-5)
            ),
            "batch norm": lambda x: torch.ops.aten._native_batch_norm_legit_no_training(
                x, V[:3], V[:3], V[:3], V[:3].abs(), 0.1, 1e-5
            )[0],
            "batch norm of the batch": lambda x: torch.ops.aten._native_batch_norm_legit.no_stats(
                x, V[:3], V[:3], True, 0.1, 1e-5
            )[0],
        },
        X,
    )


class ReluInPlace(nn.Module):
    """A program that functionalisation rewrites, batch norm with it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(x), inplace=True)


def test_batch_norm_in_a_program_with_writes_in_place() -> None:
    module = ReluInPlace().eval()
    imported = import_module(module, (X,))
    assert "add" in operators_of(imported)
    assert compare("y", evaluate(imported, X)[0], module(X).detach()) == ""
