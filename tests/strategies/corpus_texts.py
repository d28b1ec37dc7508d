"""Small functions of text: recurrences, tuple reductions, opaque and nested blocks, views,
predicates, and operators whose indices are plainer when written out. ``corpus`` names them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func


def _text(params: str, body: str) -> Callable[[], PrimFunc]:
    """A function of text; parsed anew each time, so that no two share a variable."""
    head = ", ".join(params.split("; "))
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return lambda: parse_func(f"@T.prim_func\ndef main({head}):\n{lines}\n")


TEXTS: Mapping[str, Callable[[], PrimFunc]] = {
    "conv2d": _text(
        "X: T.Buffer((2, 5, 6)); W: T.Buffer((3, 2, 3, 3)); B: T.Buffer((3,)); "
        "Y: T.Buffer((3, 5, 6))",
        """
P = T.alloc_buffer((2, 7, 8))
C = T.alloc_buffer((3, 5, 6))
for c, h, w in T.grid(2, 7, 8):
    with T.block("P"):
        vc, vh, vw = T.axis.remap("SSS", [c, h, w])
        P[vc, vh, vw] = T.if_then_else(
            1 <= vh and vh < 6 and 1 <= vw and vw < 7, X[vc, vh - 1, vw - 1], T.float32(0)
        )
for o, h, w, c, r, s in T.grid(3, 5, 6, 2, 3, 3):
    with T.block("C"):
        vo, vh, vw, vc, vr, vs = T.axis.remap("SSSRRR", [o, h, w, c, r, s])
        with T.init():
            C[vo, vh, vw] = T.float32(0)
        C[vo, vh, vw] = C[vo, vh, vw] + P[vc, vh + vr, vw + vs] * W[vo, vc, vr, vs]
for o, h, w in T.grid(3, 5, 6):
    with T.block("Y"):
        vo, vh, vw = T.axis.remap("SSS", [o, h, w])
        Y[vo, vh, vw] = T.max(C[vo, vh, vw] + B[vo], T.float32(0))
""",
    ),
    "conv3d": _text(
        "X: T.Buffer((1, 4, 4, 5)); W: T.Buffer((2, 1, 2, 3, 2)); C: T.Buffer((2, 3, 2, 4))",
        """
for o, d, h, w, c, q, r, s in T.grid(2, 3, 2, 4, 1, 2, 3, 2):
    with T.block("C"):
        vo, vd, vh, vw, vc, vq, vr, vs = T.axis.remap("SSSSRRRR", [o, d, h, w, c, q, r, s])
        with T.init():
            C[vo, vd, vh, vw] = T.float32(0)
        C[vo, vd, vh, vw] = (
            C[vo, vd, vh, vw] + X[vc, vd + vq, vh + vr, vw + vs] * W[vo, vc, vq, vr, vs]
        )
""",
    ),
    "depthwise_conv2d": _text(
        "X: T.Buffer((4, 7, 6)); W: T.Buffer((4, 3, 3)); Y: T.Buffer((4, 5, 4))",
        """
C = T.alloc_buffer((4, 5, 4))
for c, h, w, r, s in T.grid(4, 5, 4, 3, 3):
    with T.block("C"):
        vc, vh, vw, vr, vs = T.axis.remap("SSSRR", [c, h, w, r, s])
        with T.init():
            C[vc, vh, vw] = T.float32(0)
        C[vc, vh, vw] = C[vc, vh, vw] + X[vc, vh + vr, vw + vs] * W[vc, vr, vs]
for c, h, w in T.grid(4, 5, 4):
    with T.block("Y"):
        vc, vh, vw = T.axis.remap("SSS", [c, h, w])
        Y[vc, vh, vw] = T.min(T.max(C[vc, vh, vw], T.float32(0)), T.float32(6))
""",
    ),
    "grouped_conv1d": _text(
        "X: T.Buffer((4, 9)); W: T.Buffer((6, 2, 3)); C: T.Buffer((6, 7))",
        """
for o, i, c, r in T.grid(6, 7, 2, 3):
    with T.block("C"):
        vo, vi, vc, vr = T.axis.remap("SSRR", [o, i, c, r])
        with T.init():
            C[vo, vi] = T.float32(0)
        C[vo, vi] = C[vo, vi] + X[vo // 3 * 2 + vc, vi + vr] * W[vo, vc, vr]
""",
    ),
    "strided_conv2d": _text(
        "X: T.Buffer((2, 9, 11)); W: T.Buffer((3, 2, 3, 3)); C: T.Buffer((3, 4, 5))",
        """
for o, h, w, c, r, s in T.grid(3, 4, 5, 2, 3, 3):
    with T.block("C"):
        vo, vh, vw, vc, vr, vs = T.axis.remap("SSSRRR", [o, h, w, c, r, s])
        with T.init():
            C[vo, vh, vw] = T.float32(0)
        C[vo, vh, vw] = (
            C[vo, vh, vw] + X[vc, vh * 2 + vr, vw * 2 + vs] * W[vo, vc, vr, vs]
        )
""",
    ),
    "dilated_conv1d": _text(
        "X: T.Buffer((2, 13)); W: T.Buffer((3, 2, 3)); Z: T.Buffer((3, 7))",
        """
C = T.alloc_buffer((3, 7))
for o, i, c, r in T.grid(3, 7, 2, 3):
    with T.block("C"):
        vo, vi, vc, vr = T.axis.remap("SSRR", [o, i, c, r])
        with T.init():
            C[vo, vi] = T.float32(0)
        C[vo, vi] = C[vo, vi] + X[vc, vi + vr * 3] * W[vo, vc, vr]
for o, i in T.grid(3, 7):
    with T.block("Z"):
        vo, vi = T.axis.remap("SS", [o, i])
        Z[vo, vi] = C[vo, vi] * T.float32(0.5)
""",
    ),
    "transposed_conv1d": _text(
        "X: T.Buffer((2, 5)); W: T.Buffer((2, 3, 4)); C: T.Buffer((3, 12))",
        """
for o, i, c, r in T.grid(3, 12, 2, 4):
    with T.block("C"):
        vo, vi, vc, vr = T.axis.remap("SSRR", [o, i, c, r])
        with T.init():
            C[vo, vi] = T.float32(0)
        C[vo, vi] = C[vo, vi] + T.if_then_else(
            0 <= vi - vr and (vi - vr) % 2 == 0 and (vi - vr) // 2 < 5,
            X[vc, (vi - vr) // 2] * W[vc, vo, vr],
            T.float32(0),
        )
""",
    ),
    "average_pool": _text(
        "X: T.Buffer((2, 7, 6)); Y: T.Buffer((2, 4, 3))",
        """
S = T.alloc_buffer((2, 4, 3))
for c, h, w, r, s in T.grid(2, 4, 3, 3, 3):
    with T.block("S"):
        vc, vh, vw, vr, vs = T.axis.remap("SSSRR", [c, h, w, r, s])
        with T.init():
            S[vc, vh, vw] = T.float32(0)
        S[vc, vh, vw] = S[vc, vh, vw] + T.if_then_else(
            1 <= vh * 2 + vr and vh * 2 + vr < 8 and 1 <= vw * 2 + vs and vw * 2 + vs < 7,
            X[vc, vh * 2 + vr - 1, vw * 2 + vs - 1],
            T.float32(0),
        )
for c, h, w in T.grid(2, 4, 3):
    with T.block("Y"):
        vc, vh, vw = T.axis.remap("SSS", [c, h, w])
        Y[vc, vh, vw] = S[vc, vh, vw] / T.cast(
            (T.min(vh * 2 + 2, 7) - T.max(vh * 2 - 1, 0))
            * (T.min(vw * 2 + 2, 6) - T.max(vw * 2 - 1, 0)),
            "float32",
        )
""",
    ),
    "max_pool2d": _text(
        "X: T.Buffer((2, 6, 7)); Y: T.Buffer((2, 3, 4))",
        """
P = T.alloc_buffer((2, 7, 9))
for c, h, w in T.grid(2, 7, 9):
    with T.block("P"):
        vc, vh, vw = T.axis.remap("SSS", [c, h, w])
        P[vc, vh, vw] = T.if_then_else(
            1 <= vh and 1 <= vw and vw < 8, X[vc, vh - 1, vw - 1], T.min_value("float32")
        )
for c, h, w, r, s in T.grid(2, 3, 4, 3, 3):
    with T.block("Y"):
        vc, vh, vw, vr, vs = T.axis.remap("SSSRR", [c, h, w, r, s])
        with T.init():
            Y[vc, vh, vw] = T.min_value("float32")
        Y[vc, vh, vw] = T.max(Y[vc, vh, vw], P[vc, vh * 2 + vr, vw * 2 + vs])
""",
    ),
    "sum_over_two_axes": _text(
        "A: T.Buffer((4, 5, 6)); B: T.Buffer((5,))",
        """
for j, i, k in T.grid(5, 4, 6):
    with T.block("B"):
        vj, vi, vk = T.axis.remap("SRR", [j, i, k])
        with T.init():
            B[vj] = T.float32(0)
        B[vj] = B[vj] + A[vi, vj, vk]
""",
    ),
    "least_of_all": _text(
        "A: T.Buffer((5, 7)); B: T.Buffer((1,))",
        """
for o, i, j in T.grid(1, 5, 7):
    with T.block("B"):
        vo, vi, vj = T.axis.remap("SRR", [o, i, j])
        with T.init():
            B[vo] = T.max_value("float32")
        B[vo] = T.min(B[vo], T.abs(A[vi, vj]))
""",
    ),
    "sum_of_mapped_rows": _text(
        "A: T.Buffer((6, 10)); C: T.Buffer((6,))",
        """
B = T.alloc_buffer((6, 10))
for i, k in T.grid(6, 10):
    with T.block("B"):
        vi, vk = T.axis.remap("SS", [i, k])
        B[vi, vk] = A[vi, vk] * A[vi, vk] + T.float32(1)
for i, k in T.grid(6, 10):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = T.float32(0)
        C[vi] = C[vi] + B[vi, vk]
""",
    ),
    "cumulative_sum": _text(
        "A: T.Buffer((5, 7)); B: T.Buffer((5, 7)); C: T.Buffer((5, 7))",
        """
for i in range(5):
    with T.block("first"):
        vi = T.axis.spatial(5, i)
        B[vi, 0] = A[vi, 0]
for i, j in T.grid(5, 6):
    with T.block("next"):
        vi = T.axis.spatial(5, i)
        vj = T.axis.opaque((1, 7), j + 1)
        B[vi, vj] = B[vi, vj - 1] + A[vi, vj]
for i, j in T.grid(5, 7):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, 6 - vj] * T.float32(2)
""",
    ),
    "gather": _text(
        'I: T.Buffer((7,), "int64"); E: T.Buffer((10, 6)); Y: T.Buffer((7, 6))',
        """
G = T.alloc_buffer((7, 6))
for i, j in T.grid(7, 6):
    with T.block("G"):
        vi, vj = T.axis.remap("SS", [i, j])
        G[vi, vj] = E[T.min(T.max(I[vi], T.int64(0)), T.int64(9)), vj]
for i, j in T.grid(7, 6):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        Y[vi, vj] = G[vi, vj] + T.float32(1)
""",
    ),
    "scatter": _text(
        'I: T.Buffer((9,), "int64"); A: T.Buffer((9,)); B: T.Buffer((5,))',
        """
for i in range(5):
    with T.block("zero"):
        vi = T.axis.spatial(5, i)
        B[vi] = T.float32(0)
for i in range(9):
    with T.block("add"):
        vi = T.axis.opaque(9, i)
        B[T.min(T.max(I[vi], T.int64(0)), T.int64(4))] = (
            B[T.min(T.max(I[vi], T.int64(0)), T.int64(4))] + A[vi]
        )
""",
    ),
    "pad2d": _text(
        "A: T.Buffer((4, 5)); C: T.Buffer((7, 7))",
        """
B = T.alloc_buffer((4, 5))
for i, j in T.grid(4, 5):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(3)
for i, j in T.grid(7, 7):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.if_then_else(
            1 <= vi and vi < 5 and 2 <= vj, B[vi - 1, vj - 2], T.float32(-1)
        )
""",
    ),
    "permute3": _text(
        "A: T.Buffer((3, 4, 5)); C: T.Buffer((5, 3, 4))",
        """
B = T.alloc_buffer((5, 3, 4))
for k, i, j in T.grid(5, 3, 4):
    with T.block("B"):
        vk, vi, vj = T.axis.remap("SSS", [k, i, j])
        B[vk, vi, vj] = A[vi, vj, vk]
for k, i, j in T.grid(5, 3, 4):
    with T.block("C"):
        vk, vi, vj = T.axis.remap("SSS", [k, i, j])
        C[vk, vi, vj] = B[vk, vi, 3 - vj] - B[vk, vi, vj]
""",
    ),
    "reshape": _text(
        "A: T.Buffer((4, 9)); B: T.Buffer((6, 6))",
        """
for i, j in T.grid(6, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[(vi * 6 + vj) // 9, (vi * 6 + vj) % 9]
""",
    ),
    "concatenate": _text(
        "A: T.Buffer((3, 4)); B: T.Buffer((3, 6)); D: T.Buffer((3, 10))",
        """
C = T.alloc_buffer((3, 10))
for i, j in T.grid(3, 10):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.if_then_else(vj < 4, A[vi, vj], B[vi, vj - 4])
for i, j in T.grid(3, 10):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] * T.float32(2) + T.float32(1)
""",
    ),
    "two_halves": _text(
        "A: T.Buffer((5, 8)); C: T.Buffer((5, 8))",
        """
for i, j in T.grid(5, 3):
    with T.block("left"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(5, 5):
    with T.block("right"):
        vi = T.axis.spatial(5, i)
        vj = T.axis.spatial(5, j)
        C[vi, vj + 3] = A[vi, vj + 3] - C[vi, 0]
""",
    ),
    "argmax": _text(
        'A: T.Buffer((5, 9)); V: T.Buffer((5,)); I: T.Buffer((5,), "int64")',
        """
for i, k in T.grid(5, 9):
    with T.block("argmax"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            V[vi] = T.min_value("float32")
            I[vi] = T.int64(-1)
        I[vi] = T.Select(A[vi, vk] > V[vi], vk, I[vi])
        V[vi] = T.max(A[vi, vk], V[vi])
""",
    ),
    "two_outputs": _text(
        "A: T.Buffer((6, 5)); B: T.Buffer((6, 5)); C: T.Buffer((6, 5))",
        """
for i, j in T.grid(6, 5):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(6, 5):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] * A[vi, vj]
""",
    ),
    "outer_product": _text(
        "A: T.Buffer((5,)); B: T.Buffer((7,)); C: T.Buffer((5, 7))",
        """
for i, j in T.grid(5, 7):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi] * B[vj]
""",
    ),
    "masked": _text(
        'M: T.Buffer((4, 7), "bool"); A: T.Buffer((4, 7)); C: T.Buffer((4, 7))',
        """
B = T.alloc_buffer((4, 7))
for i, j in T.grid(4, 7):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = T.Select(M[vi, vj], A[vi, vj], T.float32(-9))
for i, j in T.grid(4, 7):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.max(B[vi, vj], T.float32(0))
""",
    ),
    "quantized": _text(
        'A: T.Buffer((6, 8), "int8"); B: T.Buffer((8, 5), "uint8"); D: T.Buffer((6, 5))',
        """
C = T.alloc_buffer((6, 5), "int32")
for i, j, k in T.grid(6, 5, 8):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.int32(0)
        C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vk, vj], "int32")
for i, j in T.grid(6, 5):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = T.cast(C[vi, vj], "float32") * T.float32(0.125)
""",
    ),
    "doubles": _text(
        'A: T.Buffer((5, 6), "float64"); C: T.Buffer((5,), "float64")',
        """
B = T.alloc_buffer((5, 6), "float64")
for i, j in T.grid(5, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = T.sqrt(A[vi, vj] * A[vi, vj] + T.float64(1))
for i, j in T.grid(5, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            C[vi] = T.float64(0)
        C[vi] = C[vi] + B[vi, vj]
""",
    ),
    "predicated": _text(
        "A: T.Buffer((13, 10)); C: T.Buffer((13, 10))",
        """
B = T.alloc_buffer((13, 10))
for i_0, i_1, j in T.grid(4, 4, 10):
    with T.block("B"):
        vi = T.axis.spatial(13, i_0 * 4 + i_1)
        vj = T.axis.spatial(10, j)
        T.where(i_0 * 4 + i_1 < 13)
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i, j_0, j_1 in T.grid(13, 4, 3):
    with T.block("C"):
        vi = T.axis.spatial(13, i)
        vj = T.axis.spatial(10, j_0 * 3 + j_1)
        T.where(j_0 * 3 + j_1 < 10)
        C[vi, vj] = B[vi, vj] * T.float32(2)
""",
    ),
    "predicated_reduction": _text(
        "A: T.Buffer((5, 11)); B: T.Buffer((5,))",
        """
for i, k_0, k_1 in T.grid(5, 3, 4):
    with T.block("B"):
        vi = T.axis.spatial(5, i)
        vk = T.axis.reduce(11, k_0 * 4 + k_1)
        T.where(k_0 * 4 + k_1 < 11)
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
""",
    ),
    "triangle": _text(
        "A: T.Buffer((6, 6)); B: T.Buffer((6, 6))",
        """
for i, j in T.grid(6, 6):
    with T.block("zero"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = T.float32(0)
for i, j in T.grid(6, 6):
    with T.block("lower"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.where(j <= i)
        B[vi, vj] = A[vi, vj] * T.float32(2)
""",
    ),
    "nested_blocks": _text(
        "A: T.Buffer((8, 6)); B: T.Buffer((6, 4)); C: T.Buffer((8, 4))",
        """
for i, j in T.grid(4, 2):
    with T.block("tile"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi * 2:vi * 2 + 2, 0:6], B[0:6, vj * 2:vj * 2 + 2])
        T.writes(C[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2])
        for x, y, k in T.grid(2, 2, 6):
            with T.block("C"):
                vx, vy, vk = T.axis.remap("SSR", [x, y, k])
                with T.init():
                    C[vi * 2 + vx, vj * 2 + vy] = T.float32(0)
                C[vi * 2 + vx, vj * 2 + vy] = (
                    C[vi * 2 + vx, vj * 2 + vy] + A[vi * 2 + vx, vk] * B[vk, vj * 2 + vy]
                )
""",
    ),
    "match_buffer": _text(
        "A: T.Buffer((8, 6)); C: T.Buffer((8, 6))",
        """
for i, j in T.grid(2, 2):
    with T.block("tile"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi * 4:vi * 4 + 4, vj * 3:vj * 3 + 3])
        T.writes(C[vi * 4:vi * 4 + 4, vj * 3:vj * 3 + 3])
        source = T.match_buffer(
            A[vi * 4:vi * 4 + 4, vj * 3:vj * 3 + 3], (4, 3), strides=("s0", "s1")
        )
        result = T.match_buffer(
            C[vi * 4:vi * 4 + 4, vj * 3:vj * 3 + 3], (4, 3), strides=("t0", "t1")
        )
        for x, y in T.grid(4, 3):
            with T.block("C"):
                vx, vy = T.axis.remap("SS", [x, y])
                result[vx, vy] = source[vx, vy] + T.float32(1)
""",
    ),
    "attention": _text(
        "Q: T.Buffer((4, 3)); K: T.Buffer((5, 3)); V: T.Buffer((5, 2)); O: T.Buffer((4, 2))",
        """
S = T.alloc_buffer((4, 5))
M = T.alloc_buffer((4,))
E = T.alloc_buffer((4, 5))
D = T.alloc_buffer((4,))
R = T.alloc_buffer((4, 2))
for i, j, k in T.grid(4, 5, 3):
    with T.block("S"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            S[vi, vj] = T.float32(0)
        S[vi, vj] = S[vi, vj] + Q[vi, vk] * K[vj, vk]
for i, j in T.grid(4, 5):
    with T.block("M"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            M[vi] = T.min_value("float32")
        M[vi] = T.max(M[vi], S[vi, vj])
for i, j in T.grid(4, 5):
    with T.block("E"):
        vi, vj = T.axis.remap("SS", [i, j])
        E[vi, vj] = T.exp(S[vi, vj] - M[vi])
for i, j in T.grid(4, 5):
    with T.block("D"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            D[vi] = T.float32(0)
        D[vi] = D[vi] + E[vi, vj]
for i, c, j in T.grid(4, 2, 5):
    with T.block("R"):
        vi, vc, vj = T.axis.remap("SSR", [i, c, j])
        with T.init():
            R[vi, vc] = T.float32(0)
        R[vi, vc] = R[vi, vc] + E[vi, vj] * V[vj, vc]
for i, c in T.grid(4, 2):
    with T.block("O"):
        vi, vc = T.axis.remap("SS", [i, c])
        O[vi, vc] = R[vi, vc] / D[vi]
""",
    ),
    "symbolic_conv1d": _text(
        "x: T.handle; W: T.Buffer((3, 2, 3)); c: T.handle",
        """
n = T.int64()
X = T.match_buffer(x, (2, n))
C = T.match_buffer(c, (3, n))
P = T.alloc_buffer((2, n + 2))
for b, i in T.grid(2, n + 2):
    with T.block("P"):
        vb, vi = T.axis.remap("SS", [b, i])
        P[vb, vi] = T.if_then_else(1 <= vi and vi < n + 1, X[vb, vi - 1], T.float32(0))
for o, i, b, r in T.grid(3, n, 2, 3):
    with T.block("C"):
        vo, vi, vb, vr = T.axis.remap("SSRR", [o, i, b, r])
        with T.init():
            C[vo, vi] = T.float32(0)
        C[vo, vi] = C[vo, vi] + P[vb, vi + vr] * W[vo, vb, vr]
""",
    ),
    "symbolic_softmax": _text(
        "x: T.handle; y: T.handle",
        """
m = T.int64()
n = T.int64()
X = T.match_buffer(x, (m, n))
Y = T.match_buffer(y, (m, n))
M = T.alloc_buffer((m,))
E = T.alloc_buffer((m, n))
D = T.alloc_buffer((m,))
for i, j in T.grid(m, n):
    with T.block("M"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            M[vi] = T.min_value("float32")
        M[vi] = T.max(M[vi], X[vi, vj])
for i, j in T.grid(m, n):
    with T.block("E"):
        vi, vj = T.axis.remap("SS", [i, j])
        E[vi, vj] = T.exp(X[vi, vj] - M[vi])
for i, j in T.grid(m, n):
    with T.block("D"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            D[vi] = T.float32(0)
        D[vi] = D[vi] + E[vi, vj]
for i, j in T.grid(m, n):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        Y[vi, vj] = E[vi, vj] / D[vi]
""",
    ),
    "symbolic_gather": _text(
        "i: T.handle; E: T.Buffer((10, 6)); y: T.handle",
        """
n = T.int64()
I = T.match_buffer(i, (n,), "int64")
Y = T.match_buffer(y, (n, 6))
for a, b in T.grid(n, 6):
    with T.block("Y"):
        va, vb = T.axis.remap("SS", [a, b])
        Y[va, vb] = E[T.min(T.max(I[va], T.int64(0)), T.int64(9)), vb]
""",
    ),
    "symbolic_transpose": _text(
        "a: T.handle; c: T.handle",
        """
m = T.int64()
n = T.int64()
A = T.match_buffer(a, (m, n))
C = T.match_buffer(c, (n, m))
B = T.alloc_buffer((n, m))
for i, j in T.grid(n, m):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vj, vi] + T.float32(1)
for i, j in T.grid(n, m):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] * T.float32(2)
""",
    ),
    "symbolic_concatenate": _text(
        "a: T.handle; B: T.Buffer((6,)); c: T.handle",
        """
n = T.int64()
A = T.match_buffer(a, (n,))
C = T.match_buffer(c, (n,))
D = T.alloc_buffer((n + 6,))
for i in range(n + 6):
    with T.block("D"):
        vi = T.axis.spatial(n + 6, i)
        D[vi] = T.if_then_else(vi < n, A[vi], B[vi - n])
for i in range(n):
    with T.block("C"):
        vi = T.axis.spatial(n, i)
        C[vi] = D[vi + 6] + D[vi]
""",
    ),
    "symbolic_cumulative_sum": _text(
        "a: T.handle; b: T.handle",
        """
m = T.int64()
n = T.int64()
A = T.match_buffer(a, (m, n))
B = T.match_buffer(b, (m, n))
for i, j in T.grid(m, n):
    with T.block("B"):
        vi = T.axis.spatial(m, i)
        vj = T.axis.opaque(n, j)
        B[vi, vj] = A[vi, vj] + T.if_then_else(vj > 0, B[vi, vj - 1], T.float32(0))
""",
    ),
    "layouts": _text(
        "A: T.Buffer((24,)); E: T.Buffer((2, 3, 4))",
        """
B = T.alloc_buffer((24,))
C = T.alloc_buffer((4, 6))
D = T.alloc_buffer((24,))
for i in range(24):
    with T.block("B"):
        vi = T.axis.spatial(24, i)
        B[vi] = A[vi] + T.float32(1)
for i in range(24):
    with T.block("unread"):
        vi = T.axis.spatial(24, i)
        D[vi] = B[vi] + T.float32(2)
for i, j in T.grid(4, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi * 6 + vj] * T.float32(2)
for i, j, k in T.grid(2, 3, 4):
    with T.block("E"):
        vi, vj, vk = T.axis.remap("SSS", [i, j, k])
        E[vi, vj, vk] = C[vk, vi * 3 + vj] - T.float32(3)
""",
    ),
    "residuals": _text(
        "A: T.Buffer((5, 7)); W: T.Buffer((7, 6)); b: T.Buffer((6,)); X: T.Buffer((5, 6)); "
        "Y: T.Buffer((5, 6))",
        """
C = T.alloc_buffer((5, 6))
D = T.alloc_buffer((5, 6))
for i, j, k in T.grid(5, 6, 7):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
for i, j in T.grid(5, 6):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = b[vj] + (C[vi, vj] - X[vi, vj])
for j, i in T.grid(6, 5):
    with T.block("Y"):
        vj, vi = T.axis.remap("SS", [j, i])
        Y[vi, vj] = D[vi, vj] + X[vi, 5 - vj]
""",
    ),
    "limits": _text(
        "A: T.Buffer((5, 9), 'int32'); B: T.Buffer((5,), 'int32'); Z: T.Buffer((5,), 'int32')",
        """
M = T.alloc_buffer((5,), "int32")
S = T.alloc_buffer((5,), "int32")
for i, k in T.grid(5, 9):
    with T.block("M"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            M[vi] = T.int32(-2147483648)
        M[vi] = T.max(M[vi], A[vi, vk])
for i in range(5):
    with T.block("S"):
        vi = T.axis.spatial(5, i)
        S[vi] = T.max(T.int32(2), T.max(M[vi], B[vi]))
for i, k in T.grid(5, 3):
    with T.block("Z"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            Z[vi] = T.int32(0)
        Z[vi] = Z[vi] + S[vi] * A[vi, vk * 3]
""",
    ),
    "layout_and_back": _text(
        "A: T.Buffer((6, 10)); Y: T.Buffer((6, 10))",
        """
P = T.alloc_buffer((6, 3, 4))
Q = T.alloc_buffer((6, 3, 4))
for i, j, k in T.grid(6, 3, 4):
    with T.block("P"):
        vi, vj, vk = T.axis.remap("SSS", [i, j, k])
        P[vi, vj, vk] = T.if_then_else(vj * 4 + vk < 10, A[vi, vj * 4 + vk], T.float32(0))
for i, j, k in T.grid(6, 3, 4):
    with T.block("Q"):
        vi, vj, vk = T.axis.remap("SSS", [i, j, k])
        Q[vi, vj, vk] = P[vi, vj, vk] * T.float32(2)
for i, j in T.grid(6, 10):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        Y[vi, vj] = Q[vi, vj // 4, vj % 4] + T.float32(1)
""",
    ),
    "writers_between": _text(
        "A: T.Buffer((4, 6)); Y: T.Buffer((4, 6)); Z: T.Buffer((4,))",
        """
D = T.alloc_buffer((4, 6))
for i, j in T.grid(4, 6):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(4, 6):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        Y[vi, vj] = D[vi, 5 - vj] * T.float32(3)
for i, j in T.grid(4, 3):
    with T.block("half"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj * 2] = A[vi, vj] - T.float32(2)
for i, j in T.grid(4, 6):
    with T.block("Z"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            Z[vi] = T.float32(0)
        Z[vi] = Z[vi] + D[vi, vj]
""",
    ),
    "calls_of_c": _text(
        "A: T.Buffer((6, 16), 'int32'); Y: T.Buffer((6, 16), 'int32'); "
        "Z: T.Buffer((6, 8), 'int32')",
        """
B = T.alloc_buffer((6, 16), "int32")
D = T.alloc_buffer((6, 16), "int32")
for i, j in T.grid(6, 16):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] - T.int32(2)
for i, j in T.grid(6, 2):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(B[vi, vj * 8:vj * 8 + 8])
        T.writes(D[vi, vj * 8:vj * 8 + 8])
        t = T.int64()
        tile = T.match_buffer(B[vi, vj * 8:vj * 8 + 8], (8,), "int32", strides=[t])
        T.evaluate(
            T.call_extern(
                "void", "memcpy", D.access_ptr("w", offset=vi * 16 + vj * 8),
                tile.access_ptr("r"), 32 * t,
            )
        )
for i, j in T.grid(6, 16):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        Y[vi, vj] = T.call_extern("int32", "abs", D[vi, 15 - vj]) + T.int32(1)
for i in range(6):
    with T.block("Z"):
        vi = T.axis.spatial(6, i)
        T.reads(D[vi, 4:12])
        T.writes(Z[vi, 0:8])
        s = T.int64()
        source = T.match_buffer(D[vi, 4:12], (8,), "int32", strides=[s], offset_factor=1)
        T.evaluate(
            T.call_extern("void", "memcpy", T.address_of(Z[vi, 0], "w"), source.data, 32 * s)
        )
""",
    ),
}
