"""The tensor intrinsics that come with the compiler, as text: name to description and
implementation.

They are parsed when they are first asked for. Each implementation consists of full vectors, so a
program that is tensorized with them has exactly the instructions it asks for.
"""

from __future__ import annotations


def _fma(lanes: int) -> tuple[str, str]:
    """``C[j] += A * B[j]`` over a row of ``lanes``: one fused multiply-add of a vector."""
    header = f"""
@T.prim_func
def main(
    A: T.Buffer((1,), "float32"),
    B: T.Buffer(({lanes},), "float32"),
    C: T.Buffer(({lanes},), "float32"),
):
"""
    desc = f"""
    for j in range({lanes}):
        with T.block("update"):
            vj = T.axis.spatial({lanes}, j)
            C[vj] = C[vj] + A[0] * B[vj]
"""
    impl = f"""
    for j in T.vectorized({lanes}):
        with T.block("fma"):
            vj = T.axis.spatial({lanes}, j)
            C[vj] = T.fma(A[0], B[vj], C[vj])
"""
    return header + desc, header + impl


def _fill(lanes: int) -> tuple[str, str]:
    """``C[j] = 0`` over a row of ``lanes``: one store of a vector."""
    header = f"""
@T.prim_func
def main(C: T.Buffer(({lanes},), "float32")):
"""
    loop = f"""
        with T.block("fill"):
            vj = T.axis.spatial({lanes}, j)
            C[vj] = T.float32(0)
"""
    return (
        f"{header}    for j in range({lanes}):{loop}",
        f"{header}    for j in T.vectorized({lanes}):{loop}",
    )


def _dot4(lanes: int, first: str, second: str) -> tuple[str, str]:
    """``C[j] += sum of A[k] * B[j, k]`` over four bytes k: what VNNI does in one instruction where
    ``first``, the dtype of A, is unsigned and that of B signed."""
    header = f"""
@T.prim_func
def main(
    A: T.Buffer((4,), "{first}"),
    B: T.Buffer(({lanes}, 4), "{second}"),
    C: T.Buffer(({lanes},), "int32"),
):
"""
    desc = f"""
    for j, k in T.grid({lanes}, 4):
        with T.block("update"):
            vj, vk = T.axis.remap("SR", [j, k])
            C[vj] = C[vj] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vj, vk])
"""
    row, column = "A[0], A[1], A[2], A[3]", "B[vj, 0], B[vj, 1], B[vj, 2], B[vj, 3]"
    if (first, second) == ("int8", "uint8"):
        row, column = column, row  # the unsigned operand is the first
    signs = "".join(sorted([_SHORT[first], _SHORT[second]], reverse=True))
    impl = f"""
    for j in T.vectorized({lanes}):
        with T.block("dot"):
            vj = T.axis.spatial({lanes}, j)
            C[vj] = T.dot4_{signs}(C[vj], {row}, {column})
"""
    return header + desc, header + impl


def _dot2(lanes: int, dtype: str, total: str) -> tuple[str, str]:
    """``C[j] += sum of A[k] * B[j, k]`` over two elements k: of bfloat16 in float32 what AVX-512
    BF16 does in one instruction, of int16 in int32 what every x86-64 does in two."""
    header = f"""
@T.prim_func
def main(
    A: T.Buffer((2,), "{dtype}"),
    B: T.Buffer(({lanes}, 2), "{dtype}"),
    C: T.Buffer(({lanes},), "{total}"),
):
"""
    desc = f"""
    for j, k in T.grid({lanes}, 2):
        with T.block("update"):
            vj, vk = T.axis.remap("SR", [j, k])
            C[vj] = C[vj] + T.Cast("{total}", A[vk]) * T.Cast("{total}", B[vj, vk])
"""
    impl = f"""
    for j in T.vectorized({lanes}):
        with T.block("dot"):
            vj = T.axis.spatial({lanes}, j)
            C[vj] = T.dot2_{_SHORT[dtype]}(C[vj], A[0], A[1], B[vj, 0], B[vj, 1])
"""
    return header + desc, header + impl


_BYTES = ("int8", "uint8")
_SHORT = {"int8": "i8", "uint8": "u8", "int16": "i16", "bfloat16": "bf16"}

SHIPPED: dict[str, tuple[str, str]] = {
    **{f"fma_f32_{lanes}x": _fma(lanes) for lanes in (4, 8, 16)},
    **{
        f"dot_{_SHORT[a]}{_SHORT[b]}i32_{lanes}x4": _dot4(lanes, a, b)
        for a in _BYTES
        for b in _BYTES
        for lanes in (4, 8, 16)
    },
    **{f"dot_bf16bf16f32_{lanes}x2": _dot2(lanes, "bfloat16", "float32") for lanes in (4, 8, 16)},
    **{f"dot_i16i16i32_{lanes}x2": _dot2(lanes, "int16", "int32") for lanes in (4, 8, 16)},
    **{f"fill_f32_{lanes}x": _fill(lanes) for lanes in (4, 8, 16)},
}
"""``fma_f32_Nx``: a row of N float32 updated with a scalar times another row. ``fill_f32_Nx``: a
row of N float32 set to zero. ``dot_u8i8i32_Nx4``, and the same for other signs: N int32 sums grow
by dot products of four bytes with four bytes each, one instruction where the CPU has VNNI.
``dot_bf16bf16f32_Nx2``: N float32 sums grow by dot products of two bfloat16, one instruction where
the CPU has AVX-512 BF16; ``dot_i16i16i32_Nx2``: N int32 sums by those of two int16."""
