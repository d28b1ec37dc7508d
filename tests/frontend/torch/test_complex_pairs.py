"""Complex numbers as pairs of real ones: every operator that has a row, against PyTorch in
complex128, and models as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

from burnish.driver.compile import compile
from burnish.frontend.torch import import_module
from burnish.support.errors import UnsupportedOpError
from burnish.tests.frontend.torch.oracle import check_all

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 4, 2, dtype=torch.float64, generator=GENERATOR)
Y = torch.randn(3, 4, 2, dtype=torch.float64, generator=GENERATOR)
Complex = Callable[[torch.Tensor, torch.Tensor], Any]


def check(functions: Mapping[str, Complex]) -> None:
    """Functions of two complex matrices (3, 4); complex results are compared part by part."""

    def real(found: Any) -> torch.Tensor:
        parts = list(found) if isinstance(found, (tuple, list)) else [found]
        flat = [torch.view_as_real(p) if p.is_complex() else p for p in parts]
        return flat[0] if len(flat) == 1 else torch.cat([p.flatten() for p in flat])

    def of_parts(function: Complex) -> Callable[..., torch.Tensor]:
        return lambda x, y: real(function(torch.view_as_complex(x), torch.view_as_complex(y)))

    named = {name: of_parts(function) for name, function in functions.items()}
    check_all(named, X, Y, also=((10 * Y, X / 10),))


def test_parts_that_are_not_alike() -> None:
    """Numbers are real, and flags are of both parts."""
    whole = {"dtype": torch.complex128}
    check(
        {
            "padded by a number": lambda a, b: nn.functional.pad(a, (1, 1), value=1.5),
            "padded by nothing": lambda a, b: nn.functional.pad(a, (1, 1)) * b[0, 0],
            "sum of reals": lambda a, b: a.real.sum(1, **whole) * b[0, 0],
            "running sum of reals": lambda a, b: a.real.cumsum(0, **whole) + b,
            "mean of reals": lambda a, b: a.imag.mean(1, **whole),
            "integers and a number": lambda a, b: (4 * a.real).to(torch.int64) + 2.5j,
            "flags": lambda a, b: torch.complex(a.real * (a.real > 0), b.real * 0).to(torch.bool),
            "flags of imaginary parts": lambda a, b: (1j * a.imag).bool(),
            "from one number to another": lambda a, b: torch.linspace(1, 2j, 4, **whole) + a,
            "times 0": lambda a, b: torch.view_as_real(a * 0) + torch.view_as_real(b),
            "to the 0": lambda a, b: a**0 + b,
            "real ones": lambda a, b: torch.ones_like(a, dtype=torch.float64) * b.real,
        }
    )


def test_a_quotient_by_0_is_no_number() -> None:
    class Quotient(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (torch.view_as_complex(x) / 0j).abs()

    assert not compile(Quotient().eval(), (X,), threads=1)(X).isfinite().any()


def test_parts() -> None:
    check(
        {
            "real": lambda a, b: a.real + b.imag,
            "conjugate": lambda a, b: a.conj() * b,
            "conjugate, at once": lambda a, b: torch.conj_physical(a),
            "resolved": lambda a, b: a.conj().resolve_conj().imag,
            "of parts": lambda a, b: torch.complex(a.real, b.real),
            "polar": lambda a, b: torch.polar(a.abs(), b.angle()),
            "length": lambda a, b: a.abs(),
            "angle": lambda a, b: torch.angle(a),
            "adjoint": lambda a, b: a.mH @ b,
            "type and back": lambda a, b: a.to(torch.complex64).to(torch.complex128),
            "of a real": lambda a, b: a.real.to(torch.complex128) * b,
            "as numbers": lambda a, b: a.contiguous().view(torch.float64),
            "numbers as": lambda a, b: b.real.contiguous().view(torch.complex128),
            "shape": lambda a, b: a.real * a.shape[1] + b.numel(),
        }
    )


def test_arithmetic() -> None:
    check(
        {
            "sum": lambda a, b: a + b,
            "difference": lambda a, b: a - 2 * b,
            "alpha": lambda a, b: torch.sub(a, b, alpha=2),
            "product": lambda a, b: a * b,
            "quotient": lambda a, b: a / b,
            "large quotient": lambda a, b: (a * 1e200) / (b * 1e200),
            "negative": lambda a, b: -a,
            "beside a real": lambda a, b: (a + b.real, b.real * a, a / b.real, b.real - a),
            "real by complex": lambda a, b: a.real / b,
            "wide real": lambda a, b: a.real.unsqueeze(0) + b[:1],
            "numbers": lambda a, b: (a * 2, a + 1, 3 - a, a / 4, 1 / a),
            "complex numbers": lambda a, b: (a * 1j, a + 2j, 1j - a, a / (1 + 2j), (2 - 1j) / b),
            "real by a number": lambda a, b: a.real * 1j + b.imag,
            "squares": lambda a, b: (a.square(), a**2, a**3),
            "powers": lambda a, b: (a**0.5, a**-1, a**0),
            "reciprocal": lambda a, b: a.reciprocal(),
            "sign": lambda a, b: torch.sgn(a),
            "multiplied and added": lambda a, b: torch.addcmul(a, a, b, value=2),
        }
    )


def test_functions() -> None:
    check(
        {
            "exp": lambda a, b: torch.exp(a),
            "exp of i": lambda a, b: torch.exp(1j * a.real),
            "log": lambda a, b: torch.log(a),
            "sqrt": lambda a, b: torch.sqrt(a),
            "sqrt of negatives": lambda a, b: torch.sqrt(-a.abs() + 0j),
            "equal": lambda a, b: (a == b, a == a, a != b),
            "flags": lambda a, b: (a.imag * 1j).bool(),
            "finite": lambda a, b: (torch.isfinite(a), torch.isnan(a / 0), torch.isinf(a)),
            "norm": lambda a, b: (torch.linalg.vector_norm(a), torch.linalg.vector_norm(a, 1, 0)),
        }
    )


def test_products() -> None:
    check(
        {
            "matrices": lambda a, b: a @ b.T,
            "rows": lambda a, b: a[0] @ b[0],
            "conjugated rows": lambda a, b: torch.vdot(a[0], b[0]),
            "batch": lambda a, b: torch.bmm(a[None], b.T[None]),
            "einsum": lambda a, b: torch.einsum("ij,kj->ik", a, b),
            "einsum of three": lambda a, b: torch.einsum("ij,kj,kl->il", a, b, a),
            "outer": lambda a, b: torch.outer(a[0], b[:, 0]),
            "layer": lambda a, b: nn.functional.linear(a, b, b[:, 0]),
            "added": lambda a, b: torch.addmm(b[:, :3], a, b.T, beta=0.5, alpha=2),
            "kron": lambda a, b: torch.kron(a, b),
        }
    )


def _put(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    found = a.clone()
    found[0] = b[1]
    found[:, 2] = 1.5
    found[2, :2] = b.real[0, :2]
    found *= 2
    return found


def test_views_joins_and_sums() -> None:
    check(
        {
            "views": lambda a, b: a.reshape(2, 6).T.flatten()[None, :, None].squeeze(0),
            "slices": lambda a, b: (a[1:, ::2], a[..., -1], a.narrow(1, 1, 2)),
            "split": lambda a, b: a.split(2, dim=1),
            "unbind": lambda a, b: a.unbind(0),
            "joined": lambda a, b: torch.cat([a, b, a.real], 1),
            "stacked": lambda a, b: torch.stack([a, b], -1),
            "stretched": lambda a, b: a[:, :1].expand(3, 4) * b,
            "repeated": lambda a, b: (a.repeat(2, 1), a.repeat_interleave(2, dim=0)),
            "turned": lambda a, b: (a.flip(0), a.roll(1, 1)),
            "sum": lambda a, b: (a.sum(), a.sum(0), a.mean(1, keepdim=True), a.cumsum(1)),
            "at places": lambda a, b: (a[torch.tensor([2, 0])], a.index_select(1, torch.arange(2))),
            "chosen": lambda a, b: torch.where(a.real > 0, a, b),
            "chosen number": lambda a, b: torch.where(a.real > 0, a, 0.0),
            "filled": lambda a, b: a.masked_fill(a.real > 0, 2.0),
            "triangle": lambda a, b: a.tril(),
            "made": lambda a, b: (
                torch.zeros_like(a) + torch.full((4,), 1 + 2j) + torch.ones_like(b)
            ),
            "padded": lambda a, b: nn.functional.pad(a, (1, 2)),
            "written": _put,
        }
    )


class Rotary(nn.Module):
    """Rotary embeddings as Llama's original code has them, their table a buffer."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(32.0), 10000 ** -(torch.arange(0, 8, 2) / 8))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * self.freqs_cis[: x.shape[1]].view(1, x.shape[1], 1, -1)
        return torch.view_as_real(turned).flatten(3).type_as(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_embeddings_of_any_length(dtype: torch.dtype) -> None:
    model = Rotary().eval()
    x = torch.randn(2, 5, 3, 8, generator=GENERATOR).to(dtype)
    compiled = compile(model, (x,), dynamic_shapes=({1: "n"},), threads=1)
    for n in (5, 1, 9, 32):
        given = torch.randn(2, n, 3, 8, generator=GENERATOR).to(dtype)
        torch.testing.assert_close(compiled(given), model(given))
    assert not any("runs in torch" in note for note in compiled.report.notes)


class Resonance(nn.Module):
    """A diagonal state space: a complex parameter, powers of it, and the real part of a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.log_decay = nn.Parameter(torch.randn(6, generator=GENERATOR))
        self.frequency = nn.Parameter(torch.randn(6, generator=GENERATOR))
        self.c = nn.Parameter(torch.randn(6, 2, generator=GENERATOR))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        a = torch.complex(-self.log_decay.exp(), self.frequency * math.pi)
        steps = torch.exp(a[:, None] * torch.arange(u.shape[-1]))
        kernel = 2 * torch.einsum("n,nl->l", torch.view_as_complex(self.c) / a, steps).real
        return u * kernel


def test_a_state_space() -> None:
    model, u = Resonance().eval(), torch.randn(2, 16, generator=GENERATOR)
    torch.testing.assert_close(compile(model, (u,), threads=1)(u), model(u).detach())


class Wave(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumprod(torch.complex(x, x), 0).abs()


def test_what_has_no_row_is_reported_or_falls_back() -> None:
    x = torch.rand(3, 4, generator=GENERATOR)
    with pytest.raises(UnsupportedOpError) as caught:
        import_module(Wave().eval(), (x,))
    assert "aten.cumprod.default of complex numbers" in str(caught.value)
    assert "view_as_complex" not in str(caught.value)
    compiled = compile(Wave().eval(), (x,), fallback="torch", threads=1)
    torch.testing.assert_close(compiled(x), Wave()(x))
    notes = [n for n in compiled.report.notes if "runs in torch" in n]
    assert len(notes) == 1
    assert notes[0].startswith("aten.cumprod.default")
