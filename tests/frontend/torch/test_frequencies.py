"""Discrete Fourier transforms beside torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import burnish
from burnish.frontend.torch.frequencies import DIRECT, LARGEST_TABLE, factors, has_tables
from burnish.tests.frontend.torch.oracle import check_all

fft = torch.fft


def both(function: Any) -> Any:
    """Of complex results the parts."""
    return lambda *x: torch.view_as_real(function(*x))


def test_lengths_are_split_down_to_small_tables() -> None:
    assert factors(DIRECT) is None
    assert factors(1024) == (32, 32)
    assert factors(400) == (16, 25)
    assert factors(97) is None, "a prime has a table of its own"
    assert has_tables(97)
    assert has_tables(2**20)
    assert not has_tables(4099), f"a prime of more than {LARGEST_TABLE}"
    assert not has_tables(2 * 4099)
    assert not has_tables(0)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 65, 97, 128, 400])
def test_of_any_length(n: int) -> None:
    x = torch.rand(2, n) - 0.5
    check_all({"rfft": both(fft.rfft), "fft of real numbers": both(fft.fft)}, x)
    x = torch.rand(2, n, 2) - 0.5
    made = torch.view_as_complex
    check_all(
        {"fft": both(lambda x: fft.fft(made(x))), "ifft": both(lambda x: fft.ifft(made(x)))}, x
    )
    x = torch.rand(2, n // 2 + 1, 2) - 0.5
    check_all({"irfft": lambda x: fft.irfft(made(x), n=n)}, x)


def test_of_several_axes_and_norms() -> None:
    x = torch.rand(3, 6, 10) - 0.5
    check_all(
        {
            "rfft2": both(fft.rfft2),
            "rfftn, orthogonal": both(lambda x: fft.rfftn(x, norm="ortho")),
            "along the first": both(lambda x: fft.fft(x, dim=0, norm="forward")),
            "padded": both(lambda x: fft.rfft(x, n=16)),
            "cut": both(lambda x: fft.rfft(x, n=7)),
            "there and back": lambda x: fft.irfft2(fft.rfft2(x), s=(6, 10)),
            "mixing tokens": lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real,
            "shifted": lambda x: fft.fftshift(fft.fft2(x)).abs(),
            "in float64": both(lambda x: fft.rfft(x.double())),
            "ifftn": both(lambda x: fft.ifftn(torch.complex(x, x * x))),
            "hfft": lambda x: fft.hfft(torch.complex(x, x * x), n=12),
        },
        x,
    )


@pytest.mark.parametrize(
    ("function", "shape", "named"),
    [
        (lambda x: fft.irfft2(fft.rfft2(x) * 0.5, s=(8, 70)), (3, 8, 70), {0: "b"}),
        (lambda x: fft.hfft(fft.ihfft(x), n=9), (3, 9), {0: "b"}),
        (lambda x: fft.fft(x, dim=1).abs(), (3, 72, 5), {0: "b", 2: "n"}),
        (lambda x: fft.fft(x, dim=1).abs(), (3, 10, 5, 2), {0: "b", 2: "n"}),
        (lambda x: fft.fft(x, dim=0).abs(), (130, 3, 4), {}),
    ],
)
def test_beside_named_sizes(function: Any, shape: tuple[int, ...], named: dict[int, str]) -> None:
    class Transform(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    model = burnish.compile(Transform(), (torch.rand(shape),), dynamic_shapes=(named,))
    for more in (0, 1, 4):
        x = torch.rand([n + more * (d in named) for d, n in enumerate(shape)]) - 0.5
        torch.testing.assert_close(model(x), Transform()(x), atol=1e-4, rtol=1e-4)


def test_lengths_of_many_tables() -> None:
    """Both factors have factors again: along the last axis and along another."""
    x = torch.rand(1, 130 * 126) - 0.5
    check_all({"rfft": both(fft.rfft), "irfft": lambda x: fft.irfft(fft.rfft(x), n=66 * 65)}, x)
    check_all({"fft": both(lambda x: fft.fft(x, dim=0))}, x.reshape(-1, 2))


def test_windows_of_sound() -> None:
    window = torch.hann_window(64)

    def spectrum(x: Tensor) -> Any:
        return torch.stft(x, 64, 16, window=window, return_complex=True)

    check_all(
        {
            "stft": lambda x: spectrum(x).abs(),
            "filtered": lambda x: fft.irfft(fft.rfft(x, n=256) * fft.rfft(x[:, :32], n=256), n=256),
        },
        torch.rand(2, 200) - 0.5,
    )


def test_an_infinity_is_everywhere() -> None:
    x = torch.ones(1, 8)
    x[0, 3] = torch.inf
    model = burnish.compile(_Spectrum(), (x,))
    assert not model(x).isfinite().any()


class _Spectrum(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return fft.rfft(x).abs()


def test_inverse_transforms_of_named_sizes() -> None:
    """They pad and mirror complex numbers, and the window's constants are not named."""
    window = torch.hann_window(16)

    def there_and_back(x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        return torch.istft(spectrum * 2, 16, 4, window=window, length=20)

    check_all(
        {
            "real, padded": lambda x: fft.irfft(torch.complex(x, x * x), n=48),
            "complex, padded": lambda x: fft.ifft(torch.complex(x, x * x), n=24).real,
            "of a spectrum": there_and_back,
        },
        torch.linspace(-1, 1, 60).reshape(3, 20),
        dynamic_shapes=(({0: "n"},),),
        also=[(torch.linspace(-1, 1, 20 * n).reshape(n, 20),) for n in (1, 2, 5)],
    )
