"""The main kernels for fixed CPUs, whatever the machine is: what their code has and has not.

Read in the assembly: the multiply-adds that the schedule's register tile promises, loops without
spills, no call of a mathematics library, no instruction that the CPU lacks. Code for lesser CPUs of
the x86 family is also run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from burnish.driver.runnable import check_runnable
from burnish.support.errors import TargetError
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests import assembly
from burnish.tests.assembly import Line
from burnish.tests.native import call_native
from burnish.tuner.analytic import schedule_analytically

Shape = tuple[int, ...]
AVX512, HASWELL, SSE2, NEON = "skylake-avx512", "haswell", "x86-64", "generic"
CPUS = (AVX512, HASWELL, SSE2, NEON)
LESSER = (SSE2, "x86-64-v2", HASWELL)
CONSTANTS_ON_STACK = 6
"""Constants of a polynomial beyond the registers: LLVM takes them from the constants or, as these,
from the stack."""
POWERS_OF_TWO = {"pslld", "vpslld", "vscalefps", "shl"}
"""What makes powers of two, in every loop with an exponential and in none of a product."""


@dataclass(frozen=True)
class Kernel:
    """A kernel: its definition, the shapes it is read at, and smaller ones it is run at.

    The last input but for the first, where ``constant`` says so, is a weight whose layout is free.
    ``products`` are the beginnings of the names of the blocks that multiply and add.
    """

    build: Callable[..., Tensor]
    shapes: tuple[Shape, ...]
    small: tuple[Shape, ...]
    products: tuple[str, ...] = ()
    constant: bool = False

    def func(self, *, small: bool = False) -> PrimFunc:
        shapes = self.small if small else self.shapes
        inputs = [placeholder(s, name="abcd"[i]) for i, s in enumerate(shapes)]
        func = create_prim_func([*inputs, self.build(*inputs)])
        return func.with_attr("layout_free", [1]) if self.constant and not small else func


def linear(*sizes: int) -> tuple[Shape, ...]:
    m, n, k = sizes
    return (m, k), (n, k), (n,)


def conv(stride: int, pad: int, groups: int = 1) -> Callable[..., Tensor]:
    options: dict[str, Any] = {
        "strides": [stride] * 2, "padding": [pad] * 4, "dilation": [1, 1], "channels_last": True,
    }  # fmt: skip
    return lambda x, w, b: op.relu(op.conv(x, w, b, groups=groups, **options))


def images(height: int, width: int, channels: int, out: int, *kernel: int) -> tuple[Shape, ...]:
    return (1, height, width, channels), (out, *kernel), (out,)


def gelu_layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return op.gelu(op.linear(x, w, b))


def relu_layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return op.relu(op.linear(x, w, b))


def winograd(x: Tensor, u: Tensor, b: Tensor) -> Tensor:
    return op.relu(op.winograd_conv(x, u, b, padding=(1, 1, 1, 1), tile=4))


KERNELS = {
    "matmul": Kernel(op.matmul, ((256, 256),) * 2, ((33, 20), (20, 45)), ("matmul",)),
    "linear_gelu": Kernel(
        gelu_layer, linear(128, 3072, 768), linear(19, 37, 24), ("linear",), constant=True
    ),
    "skinny": Kernel(
        relu_layer, linear(1, 128, 784), linear(1, 37, 24), ("linear",), constant=True
    ),
    "conv_3x3": Kernel(
        conv(1, 1), images(56, 56, 64, 64, 64, 3, 3), images(9, 9, 8, 20, 8, 3, 3), ("conv",),
        constant=True,
    ),
    "first_conv": Kernel(
        conv(2, 3), images(224, 224, 3, 64, 3, 7, 7), images(13, 15, 3, 20, 3, 7, 7), ("conv",),
        constant=True,
    ),
    "conv_1x1": Kernel(
        relu_layer, linear(3136, 256, 64), linear(50, 24, 16), ("linear",), constant=True
    ),
    "winograd": Kernel(
        winograd,
        ((1, 56, 56, 64), (6, 6, 64, 64), (64,)),
        ((1, 9, 9, 16), (6, 6, 20, 16), (20,)),
        ("winograd_product",),
        constant=True,
    ),
    "depthwise": Kernel(
        conv(1, 1, groups=96), images(56, 56, 96, 96, 1, 3, 3), images(9, 9, 96, 96, 1, 3, 3),
        ("conv",), constant=True,
    ),
    "softmax": Kernel(lambda x: op.softmax(x, -1), ((128, 1000),), ((5, 77),)),
    "layer_norm": Kernel(
        lambda x, w, b: op.layer_norm(x, w, b, axes=(-1,)),
        ((128, 768), (768,), (768,)), ((5, 77), (77,), (77,)),
    ),
    "gelu": Kernel(op.gelu, ((128, 3072),), ((5, 77),)),
    "exp": Kernel(op.exp, ((128, 3072),), ((5, 77),)),
    "attention": Kernel(
        op.attention, ((1, 6, 128, 64),) * 3, ((1, 2, 17, 12),) * 3,
        ("attention_scores", "attention_values"),
    ),
    "transpose": Kernel(
        lambda x: op.permute_dims(x, (1, 0)), ((1024, 1024),), ((35, 21),)
    ),
    "sum": Kernel(lambda x: op.sum(x, -1), ((1024, 1024),), ((5, 1000),)),
    "sum_columns": Kernel(lambda x: op.sum(x, 0), ((1024, 1024),), ((40, 1000),)),
}  # fmt: skip

PRODUCTS = [name for name, kernel in KERNELS.items() if kernel.products]
MATHEMATICS = [name for name, kernel in KERNELS.items() if not kernel.products]


def target_of(cpu: str) -> Target:
    return Target(f"llvm -mcpu={cpu}")


@cache
def compiled(name: str, cpu: str) -> tuple[PrimFunc, list[Line]]:
    """A kernel as the analytic schedule has it, and its assembly."""
    func = schedule_analytically(KERNELS[name].func(), target_of(cpu))
    return func, assembly.kernel_lines(func, target_of(cpu))


def promised(name: str, cpu: str) -> list[int]:
    """The multiply-adds of each loop over a kernel's products."""
    func, _ = compiled(name, cpu)
    return [
        count
        for prefix in KERNELS[name].products
        for count in assembly.promised_multiply_adds(func, target_of(cpu), prefix)
    ]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_loop_has_the_multiply_adds_of_its_tile(name: str, cpu: str) -> None:
    loops = assembly.innermost_loops(compiled(name, cpu)[1])
    found = [assembly.multiply_adds(loop) for loop in loops]
    wanted = promised(name, cpu)
    assert wanted
    if name == "depthwise":
        # Where a tile's first product begins the sum, it is a multiplication alone.
        found, wanted = [max(found)], [max(wanted)]
    for count in set(wanted):
        assert found.count(count) >= wanted.count(count)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_tiles_are_large(name: str, cpu: str) -> None:
    """At least 8 independent sums, so that the latency of a multiply-add is hidden."""
    assert max(promised(name, cpu)) >= 8


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_loops_do_not_spill(name: str, cpu: str) -> None:
    tiles = promised(name, cpu)
    for loop in assembly.innermost_loops(compiled(name, cpu)[1]):
        assert assembly.stack_stores(loop) == []
        count = assembly.multiply_adds(loop)
        # That of an exponential may have as many, and has constants beside.
        if count in tiles and not assembly.operations(loop) & POWERS_OF_TWO:
            assert assembly.vector_spills(loop) == []
            # Addresses of what is to be fetched ahead.
            assert len(assembly.spills(loop)) <= count / 16
        else:
            assert len(assembly.vector_spills(loop)) <= CONSTANTS_ON_STACK


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_foreign_is_called(name: str, cpu: str) -> None:
    assert assembly.foreign_calls(compiled(name, cpu)[1]) == []


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_vectors_are_as_wide_as_the_target_has_them(name: str, cpu: str) -> None:
    widest = {AVX512: "zmm", HASWELL: "ymm", SSE2: "xmm", NEON: "v"}[cpu]
    assert widest in assembly.registers(compiled(name, cpu)[1])


_SSE3_AND_LATER = (
    r"addsub|hadd|hsub|lddqu|mov(?:ddup|shdup|sldup)|pabs|palignr|phadd|phsub|pmaddubs|pmulhrs|"
    r"pshufb|psign|blend|pblend|dpp|insertps|extractps|pinsr[bdq]|pextr[bdq]|mpsadbw|packusdw|"
    r"pcmpeqq|pcmpgtq|phminpos|pmax(?:sb|sd|uw|ud)|pmin(?:sb|sd|uw|ud)|pmov[sz]x|pmuldq|pmulld|"
    r"ptest|round|movntdqa|crc32|popcnt"
)
_AVX512 = (
    r"vpternlog|vscalef|vrndscale|vgetexp|vgetmant|vfixup|vperm[ti]2|vpdp|.*\{%k|v\w+(?:32x|64x)"
)
_VNNI = r"vpdp(?:bu|ws)sd|vp2intersect|vcvtne|vfm\w+ph"
LACKING: dict[str, tuple[set[str], str]] = {
    SSE2: ({"ymm", "zmm", "k"}, f"v|{_SSE3_AND_LATER}"),
    "x86-64-v2": ({"ymm", "zmm", "k"}, "v"),
    HASWELL: ({"zmm", "k"}, _AVX512),
    AVX512: (set(), _VNNI),
    NEON: (
        set(),
        r"[su]dot|usdot|[su]mmla|bf(?:dot|mm|cvt|ml)|fmlal|ld1rq|whilel|ptrue|.*\bz\d+\.",
    ),
}
"""What a CPU lacks: kinds of registers, and a pattern of the beginnings of instructions."""


@pytest.mark.parametrize("cpu", LACKING)
@pytest.mark.parametrize("name", KERNELS)
def test_no_instruction_that_the_cpu_lacks(name: str, cpu: str) -> None:
    lines = compiled(name, cpu)[1]
    kinds, pattern = LACKING[cpu]
    assert not kinds & assembly.registers(lines)
    assert [x.code for x in lines if x.operation and re.match(pattern, x.code)] == []


def inputs_of(func: PrimFunc) -> list[np.ndarray]:
    """Random inputs, and the output to be written."""
    rng = np.random.default_rng(0)
    shapes = [tuple([d.value for d in p.shape if isinstance(d, IntImm)]) for p in func.params]
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes]
    arrays[-1][...] = np.nan
    return arrays


@pytest.mark.parametrize("cpu", LESSER)
@pytest.mark.parametrize("name", KERNELS)
def test_code_for_a_lesser_cpu_runs_and_is_right(name: str, cpu: str) -> None:
    """Against the definition, loop by loop, as it is before any schedule."""
    target = target_of(cpu)
    try:
        check_runnable(target)
    except TargetError as error:
        pytest.skip(str(error))
    func = KERNELS[name].func(small=True)
    arguments, plain = inputs_of(func), inputs_of(func)
    call_native(schedule_analytically(func, target), *arguments, target=target)
    call_native(func, *plain)
    assert np.isfinite(plain[-1]).all()
    np.testing.assert_allclose(arguments[-1], plain[-1], rtol=1e-3, atol=3e-5)
