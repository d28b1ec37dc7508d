"""Rounding errors of long sums beside eager PyTorch's: the table of docs/math.md.

    python -m burnish.benchmarks.numerics [--only WORD ...] [--write]

Each case runs compiled and eagerly on the same float32 (or half precision) numbers; both are
compared with PyTorch in float64. The error of a result is the largest of its elements', relative to
the largest element. One that is correctly rounded has an error up to ``unit`` all the same, by
luck less; PyTorch's counts as ``unit`` where it is less. ``--write`` rewrites the table.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import burnish

from .cases import _Function

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "math.md"
MOST = 2.0
"""Times PyTorch's error that ours may be."""
WINOGRAD = 10.0
"""The same for Winograd's algorithm, which ``precision="strict"`` does without."""
BEGIN, END = "<!-- numerics -->", "<!-- end of numerics -->"
_POINTS = 1 << 20
"""Elements of an input, about, and at least one row."""
_LENGTHS = (10, 1_000, 100_000, 10_000_000)
_PRODUCTS = (10, 1_000, 10_000, 1_000_000)
_CHANNELS = (16, 64, 256, 512)

Tensor = torch.Tensor
Data = Callable[[Sequence[int]], Tensor]


@dataclass(frozen=True)
class Case:
    """An operator on data of several lengths: ``inputs`` gives its arguments for a length, ``made``
    the function or module that is compiled. ``quick`` is the length that a test runs."""

    name: str
    data: str
    lengths: tuple[int, ...]
    quick: int
    made: Callable[[int], Any]
    inputs: Callable[[int], tuple[Tensor, ...]]
    precision: str = "fast"
    dynamic: Any = None
    most: float = MOST

    @property
    def key(self) -> str:
        return f"{self.name}, {self.data}"


@dataclass(frozen=True)
class Errors:
    """Of our result and of PyTorch's, and what either is at best."""

    ours: float
    theirs: float
    unit: float

    @property
    def ratio(self) -> float:
        return self.ours / max(self.theirs, self.unit)

    @property
    def cell(self) -> str:
        return f"{self.ours:.1e} / {self.theirs:.1e}"


def _always(function: Any) -> Callable[[int], Any]:
    """The same function for all lengths."""
    return lambda _: function


# -- data -----------------------------------------------------------------------------------------
def _tenth(shape: Sequence[int]) -> Tensor:
    """The first row or column all 0.1, the others of other numbers: errors of equal terms do not
    cancel, but how large they are is chance."""
    rows, columns = shape[0], shape[-1]
    count = min(rows, columns)
    value = 0.1 * (1 + torch.arange(count) * 0.618 % 1)
    return (value[:, None] if count == rows else value).expand(rows, columns).contiguous()


def _uniform(shape: Sequence[int]) -> Tensor:
    return torch.rand(*shape)


def _normal(mean: float) -> Data:
    return lambda shape: torch.randn(*shape) + mean


def _near_one(shape: Sequence[int]) -> Tensor:
    return 1 + (torch.rand(*shape) - 0.5) * 1e-3


_TENTHS, _UNIFORM = ("equal terms", _tenth), ("0 to 1", _uniform)
_AROUND = {mean: (f"mean {mean:g}", _normal(mean)) for mean in (0.0, 1e4, 1e6)}


def _rows(data: Data) -> Callable[[int], tuple[Tensor, ...]]:
    """As many rows of a length as there is room for."""
    return lambda n: (data((min(64, max(1, _POINTS // n)), n)),)


def _columns(data: Data) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda n: (data((n, min(64, max(2, _POINTS // n)))),)


# -- cases ----------------------------------------------------------------------------------------
def _of_rows(
    name: str,
    function: Callable[[Tensor], Tensor],
    data: Sequence[tuple[str, Data]],
    lengths: tuple[int, ...] = _LENGTHS,
    *,
    quick: int = 100_000,
    dtype: torch.dtype = torch.float32,
    columns: bool = False,
) -> Iterator[Case]:
    for title, make in data:
        arranged = _columns(make) if columns else _rows(make)

        def inputs(n: int, arranged: Any = arranged) -> tuple[Tensor, ...]:
            return tuple([x.to(dtype) for x in arranged(n)])

        yield Case(name, title, lengths, quick, _always(function), inputs)


def _sums() -> Iterator[Case]:
    far = [_TENTHS, _UNIFORM, _AROUND[1e4], _AROUND[1e6]]
    yield from _of_rows("sum of rows", lambda x: x.sum(-1), far)
    yield from _of_rows("sum of columns", lambda x: x.sum(0), far, columns=True)
    yield from _of_rows("mean of rows", lambda x: x.mean(-1), far)
    yield from _of_rows("mean of all", lambda x: x.mean(), [_TENTHS, _UNIFORM])
    for dtype in (torch.float16, torch.bfloat16):
        name = f"mean of {str(dtype).removeprefix('torch.')}"
        yield from _of_rows(name, lambda x: x.mean(-1), [_UNIFORM], dtype=dtype)
    for axis, kind in ((0, "columns"), (1, "rows")):
        arranged = _columns(_uniform) if axis == 0 else _rows(_uniform)
        yield Case(
            f"sum of {kind} of a named length", "0 to 1", _LENGTHS, 100_000,
            _always(partial(torch.sum, dim=axis)), arranged,
            dynamic=({axis: torch.export.Dim("length")},),
        )  # fmt: skip
    yield from _of_rows("prod", lambda x: x.prod(-1), [("0.9995 to 1.0005", _near_one)])
    yield from _of_rows("norm", lambda x: x.norm(dim=-1), [_AROUND[0.0], _TENTHS])
    yield from _of_rows("norm of order 3", lambda x: x.norm(3, dim=-1), [_AROUND[0.0]])
    yield Case("adaptive_avg_pool2d", "0 to 1", _LENGTHS, 100_000, _always(_pool), _image)


def _pool(x: Tensor) -> Tensor:
    return functional.adaptive_avg_pool2d(x, 1)


def _image(n: int) -> tuple[Tensor, ...]:
    return (_uniform((1, max(1, min(64, _POINTS // n)), n // 10, 10)),)


def _moments() -> Iterator[Case]:
    around = list(_AROUND.values())
    for name in ("var", "std"):
        function = getattr(torch, name)
        yield from _of_rows(f"{name} of rows", partial(function, dim=-1), around)
        yield from _of_rows(f"{name} of columns", partial(function, dim=0), around, columns=True)
    yield from _of_rows(
        "layer_norm", lambda x: functional.layer_norm(x, x.shape[1:]), [*around, _UNIFORM]
    )
    yield from _of_rows("group_norm", lambda x: functional.group_norm(x.unsqueeze(1), 1), around)
    yield from _of_rows("instance_norm", lambda x: functional.instance_norm(x.unsqueeze(0)), around)
    yield from _of_rows(
        "rms_norm", lambda x: functional.rms_norm(x, x.shape[1:], eps=1e-6), [_AROUND[0.0], _TENTHS]
    )


def _exponentials() -> Iterator[Case]:
    data = [_AROUND[0.0], _TENTHS]
    for name in ("softmax", "log_softmax", "logsumexp"):
        yield from _of_rows(name, partial(getattr(torch, name), dim=-1), data)
    yield from _of_rows("softmax of columns", lambda x: x.softmax(0), data, columns=True)


def _scans() -> Iterator[Case]:
    data = [_TENTHS, _UNIFORM, _AROUND[0.0]]
    yield from _of_rows("cumsum of rows", lambda x: x.cumsum(-1), data)
    yield from _of_rows("cumsum of columns", lambda x: x.cumsum(0), data, columns=True)
    one = [("0.9995 to 1.0005", _near_one)]
    yield from _of_rows("cumprod of rows", lambda x: x.cumprod(-1), one)
    yield from _of_rows("cumprod of columns", lambda x: x.cumprod(0), one, columns=True)
    yield from _of_rows(
        "logcumsumexp", lambda x: x.logcumsumexp(-1), [_UNIFORM], _LENGTHS[:3], quick=1_000
    )


def _bag(x: Tensor, mode: str) -> Tensor:
    return functional.embedding_bag(torch.arange(x.shape[0]), x, torch.tensor([0]), mode=mode)


def _index_add(x: Tensor, places: Tensor) -> Tensor:
    return torch.zeros(2, x.shape[1], dtype=x.dtype).index_add(0, places, x)


def _scatter_add(x: Tensor, places: Tensor) -> Tensor:
    return torch.zeros(2, x.shape[1], dtype=x.dtype).scatter_add(0, places.expand(x.shape), x)


def _gathered() -> Iterator[Case]:
    """Many updates of one element, one after another."""

    def updates(n: int) -> tuple[Tensor, ...]:
        return (_uniform((n, 8)),)

    def with_places(n: int, ndim: int) -> tuple[Tensor, ...]:
        return *updates(n), torch.zeros((n, 1)[:ndim], dtype=torch.int64)

    made: list[tuple[str, Any, Any]] = [
        ("embedding_bag (sum)", partial(_bag, mode="sum"), updates),
        ("embedding_bag (mean)", partial(_bag, mode="mean"), updates),
        ("index_add", _index_add, partial(with_places, ndim=1)),
        ("scatter_add", _scatter_add, partial(with_places, ndim=2)),
    ]
    for name, function, inputs in made:
        yield Case(name, "0 to 1", _LENGTHS[:3], 1_000, _always(function), inputs)


def _products() -> Iterator[Case]:
    for title, data in (_AROUND[0.0], _UNIFORM):
        for name, m, n in (("matmul", 16, 16), ("matrix-vector", 16, 1), ("vector-matrix", 1, 16)):

            def inputs(k: int, m: int = m, n: int = n, data: Data = data) -> tuple[Tensor, ...]:
                return data((m, k)), data((k, n))

            yield Case(name, title, _PRODUCTS, 10_000, _always(torch.matmul), inputs)
    for title, precision in (("strict", "strict"), ("Winograd", "fast")):

        def convolution(channels: int) -> Any:
            return torch.nn.Conv2d(channels, channels, 3, padding=1)

        yield Case(
            f"3 x 3 convolution ({title})", "channels", _CHANNELS, 64, convolution,
            lambda c: (torch.randn(1, c, 28, 28),), precision,
            most=WINOGRAD if precision == "fast" else MOST,
        )  # fmt: skip


def cases() -> list[Case]:
    """All rows of the table."""
    families = (_sums, _moments, _exponentials, _scans, _gathered, _products)
    return [case for family in families for case in family()]


# -- measuring ------------------------------------------------------------------------------------
def _error(result: Tensor, exact: Tensor) -> float:
    largest = exact.abs().max().item()
    return (result.double() - exact).abs().max().item() / largest if largest else 0.0


def measure(case: Case, length: int) -> Errors:
    """The errors of a case at one length."""
    torch.manual_seed(length)
    arguments = case.inputs(length)
    made = case.made(length)
    module = made if isinstance(made, torch.nn.Module) else _Function(made)
    module = module.eval()
    with torch.inference_mode():
        model = burnish.compile(
            module, arguments, dynamic_shapes=case.dynamic, precision=case.precision
        )
        ours, theirs = model(*arguments), module(*arguments)
        wide = [x.double() if x.is_floating_point() else x for x in arguments]
        exact = module.double()(*wide)
    unit = torch.finfo(theirs.dtype).eps / 2
    return Errors(_error(ours, exact), _error(theirs, exact), unit)


def _short(length: int) -> str:
    power = len(str(length)) - 1
    return f"1e{power}" if length == 10**power and power > 2 else str(length)


def table(found: dict[str, dict[int, Errors]]) -> str:
    """Cases with their errors, ours and PyTorch's, at each length, as Markdown."""
    lines = ["| operator, data | length: error, PyTorch's | worst ratio |", "|---|---|---|"]
    for key, row in found.items():
        cells = "; ".join(f"{_short(n)}: {e.cell}" for n, e in row.items())
        worst = max(e.ratio for e in row.values())
        lines.append(f"| {key} | {cells} | {worst:.2f} |")
    above = [key for key, row in found.items() if max(e.ratio for e in row.values()) > MOST]
    return "\n".join([*lines, "", f"Above {MOST:g}: {'; '.join(above) or 'none'}."])


def stored() -> dict[str, float]:
    """The cases of the document and their worst ratios."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| (.+) \| (.+) \| ([\d.]+) \|$", text, re.M)
    return {name: float(ratio) for name, _, ratio in rows}


def write(text: str) -> None:
    """Put a table into the document."""
    document = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = document.partition(BEGIN)
    DOCUMENT.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="WORD", help="of these names")
    parser.add_argument("--write", action="store_true", help="rewrite the table of docs/math.md")
    options = parser.parse_args()
    found: dict[str, dict[int, Errors]] = {}
    for case in cases():
        if options.only and not any(word in case.key for word in options.only):
            continue
        row = found.setdefault(case.key, {})
        for length in case.lengths:
            row[length] = measure(case, length)
            mark = "  <" if row[length].ratio > MOST else ""
            print(f"{case.key:44}{_short(length):>8}  {row[length].cell}"
                  f"{row[length].ratio:8.2f}{mark}", flush=True)  # fmt: skip
    if options.write:
        write(table(found))


if __name__ == "__main__":
    main()
