"""Programs that call functions of C, and the code of these as LLVM IR: no test needs a compiler."""

from __future__ import annotations

from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func

ADD_ONE = """
define i32 @add_one(ptr %out, ptr %in, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %in, i32 %i
  %to = getelementptr float, ptr %out, i32 %i
  %x = load float, ptr %from
  %y = fadd float %x, 1.0
  store float %y, ptr %to
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
"""``out[i] = in[i] + 1`` for ``n`` elements."""

DOT = """
define i32 @dot_update(ptr %c, ptr %a, ptr %b, i64 %rows, i64 %n, i64 %stride) {
entry:
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i1, %rowdone ]
  %cp = getelementptr float, ptr %c, i64 %i
  %start = load float, ptr %cp
  %base = mul i64 %i, %stride
  br label %loop
loop:
  %j = phi i64 [ 0, %row ], [ %j1, %loop ]
  %s = phi float [ %start, %row ], [ %s1, %loop ]
  %ap = getelementptr float, ptr %a, i64 %j
  %k = add i64 %base, %j
  %bp = getelementptr float, ptr %b, i64 %k
  %x = load float, ptr %ap
  %y = load float, ptr %bp
  %m = fmul float %x, %y
  %s1 = fadd float %s, %m
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %n
  br i1 %more, label %loop, label %rowdone
rowdone:
  store float %s1, ptr %cp
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, %rows
  br i1 %again, label %row, label %done
done:
  ret i32 0
}
"""
"""``c[i] += sum of a[j] * b[i * stride + j]``."""

TILES = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 16:vi * 16 + 16])
            T.writes(B[vi * 16:vi * 16 + 16])
            T.evaluate(
                T.call_extern(
                    "int32", "add_one",
                    B.access_ptr("w", offset=vi * 16), T.address_of(A[vi * 16]), 16,
                )
            )
"""


def tiles() -> PrimFunc:
    """``B = A + 1``, a tile of sixteen at a time."""
    return parse_func(TILES)


def product() -> PrimFunc:
    """``C = A @ B.T`` of (8, 64) and (32, 64)."""
    return parse_func(
        """
@T.prim_func
def main(A: T.Buffer((8, 64)), B: T.Buffer((32, 64)), C: T.Buffer((8, 32))):
    for i, j, k in T.grid(8, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
    )


def dot_intrin(strides: str, passed: str) -> tuple[PrimFunc, PrimFunc]:
    """Description and implementation of a product of a row and four columns of sixteen; the
    operand of the columns has ``strides``, and its function is told ``passed``."""
    params = "a: T.handle, b: T.handle, c: T.handle"
    head = f"""
    s = T.int64()
    A = T.match_buffer(a, (16,), "float32", offset_factor=1, strides=[1])
    B = T.match_buffer(b, (4, 16), "float32", offset_factor=1{strides})
    C = T.match_buffer(c, (4,), "float32", offset_factor=1, strides=[1])
    with T.block("root"):
        T.reads(C[0:4], A[0:16], B[0:4, 0:16])
        T.writes(C[0:4])"""
    desc = f"""
@T.prim_func
def desc({params}):{head}
        for i, k in T.grid(4, 16):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vk] * B[vi, vk]
"""
    impl = f"""
@T.prim_func
def impl({params}):{head}
        T.evaluate(
            T.call_extern(
                "int32", "dot_update", C.access_ptr("rw"), A.access_ptr("r"), B.access_ptr("r"),
                4, 16, {passed},
            )
        )
"""
    return parse_func(desc), parse_func(impl)
