"""Tensor expressions: what each element is, and apart from that how the loops run.

A definition has a stage, ``s[B]``, which splits, reorders and moves the loops that compute it. Each
function here schedules one small program, prints the loops that result and checks its numbers; the
last ones do it with two products and what is between them.

    python examples/course/tensor_expressions.py
"""

from __future__ import annotations

import numpy as np

import burnish
from burnish import te

RNG = np.random.default_rng(0)


def show(title, s, args):
    """Print the loops of a schedule as text."""
    print(f"-- {title}")
    print(burnish.lower(s, args, simple_mode=True))


def run(s, args, inputs, expected):
    """Build a schedule, call it, and compare its outputs with what NumPy computes."""
    outputs = [np.full_like(x, -1) for x in expected]
    burnish.build(s, args, target="llvm")["main"](*inputs, *outputs)
    for found, right in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4)


# -- one stage: symbolic sizes, which every call may choose ----------------------------------------
def default_schedule():
    m, n = te.var("m"), te.var("n")
    A = te.placeholder((m, n), name="A")
    B = te.placeholder((m, n), name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] * B[i, j], name="C")
    s = te.create_schedule([C.op])
    show("the default schedule", s, [A, B, C])
    x, y = RNG.random((2, 5, 7), dtype="float32")
    run(s, [A, B, C], [x, y], [x * y])


def split():
    m = te.var("m")
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=32)
    show("split by a factor", s, [A, B])
    x = RNG.random(35, dtype="float32")
    run(s, [A, B], [x], [x * 2])

    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], nparts=32)
    show("split into a number of parts", s, [A, B])
    run(s, [A, B], [x], [x * 2])


def copy():
    m, n = te.var("m"), te.var("n")
    A = te.placeholder((m, n), name="A")
    return A, te.compute((m, n), lambda i, j: A[i, j], name="B")


def tile():
    A, B = copy()
    s = te.create_schedule(B.op)
    s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
    show("tile", s, [A, B])
    x = RNG.random((13, 11), dtype="float32")
    run(s, [A, B], [x], [x])


def fuse():
    A, B = copy()
    s = te.create_schedule(B.op)
    _, _, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
    s[B].fuse(xi, yi)
    show("fuse", s, [A, B])
    x = RNG.random((13, 11), dtype="float32")
    run(s, [A, B], [x], [x])


def reorder():
    A, B = copy()
    s = te.create_schedule(B.op)
    xo, yo, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
    s[B].reorder(xi, yo, xo, yi)
    show("reorder", s, [A, B])
    x = RNG.random((13, 11), dtype="float32")
    run(s, [A, B], [x], [x])


def bind():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    show("bind (a CPU runs threads of a device one after another)", s, [A, B])
    x = RNG.random(100, dtype="float32")
    run(s, [A, B], [x], [x * 2])


# -- two stages ------------------------------------------------------------------------------------
def two_stages():
    m = te.var("m")
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] + 1, name="B")
    C = te.compute((m,), lambda i: B[i] * 2, name="C")
    return A, B, C


def places():
    A, B, C = two_stages()
    x = RNG.random(9, dtype="float32")
    s = te.create_schedule(C.op)
    show("each stage in loops of its own", s, [A, B, C])
    run(s, [A, B, C], [x], [x + 1, (x + 1) * 2])

    s[B].compute_at(s[C], C.op.axis[0])
    show("compute_at: B where C reads it", s, [A, B, C])
    run(s, [A, B, C], [x], [x + 1, (x + 1) * 2])

    s[B].compute_root()
    show("compute_root takes that back", s, [A, B, C])
    run(s, [A, B, C], [x], [x + 1, (x + 1) * 2])

    s = te.create_schedule(C.op)
    s[B].compute_inline()
    show("compute_inline: B is never stored", s, [A, C])
    run(s, [A, C], [x], [(x + 1) * 2])


# -- a reduction of two values at once -------------------------------------------------------------
def argmax():
    m, n = te.var("m"), te.var("n")
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    reducer = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.maximum(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    place, value = te.compute((m,), lambda i: reducer((k, A[i, k]), axis=k), name="T")
    s = te.create_schedule(place.op)
    s[place].parallel(place.op.axis[0])
    show("argmax, by a reducer over two values", s, [A, place, value])
    x = RNG.integers(0, 5, (6, 20)).astype("float32")
    run(s, [A, place, value], [x], [x.argmax(1), x.max(1)])


# -- two products and what is between them ---------------------------------------------------------
M, K, L, N = 64, 48, 32, 80


def chain():
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, L), name="B")
    rk = te.reduce_axis((0, K), name="rk")
    C = te.compute((M, L), lambda m, p: te.sum(A[m, rk] * B[rk, p], axis=[rk]), name="C")
    D = te.compute((M, L), lambda m, p: te.exp(C[m, p]), name="D")
    E = te.placeholder((L, N), name="E")
    rl = te.reduce_axis((0, L), name="rl")
    F = te.compute((M, N), lambda m, n: te.sum(D[m, rl] * E[rl, n], axis=[rl]), name="F")
    return A, B, C, D, E, F


def measure(title, s, tensors):
    """Check the numbers of ``F = exp(A @ B) @ E`` and print what a call takes."""
    A, B, _, _, E, F = tensors
    a, b, e = (
        RNG.standard_normal(shape, dtype="float32") * np.float32(0.1)
        for shape in ((M, K), (K, L), (L, N))
    )
    f = np.full((M, N), np.nan, "float32")
    lib = burnish.build(s, [A, B, E, F], target="llvm")
    lib["main"](a, b, e, f)
    np.testing.assert_allclose(f, np.exp(a @ b) @ e, rtol=1e-3, atol=1e-5)
    seconds = lib.time_evaluator("main", number=3)(a, b, e, f).mean
    print(f"Time cost of {title}: {seconds * 1e6:.1f} us")


def products():
    A, B, C, D, E, F = tensors = chain()
    s = te.create_schedule([C.op, D.op, F.op])
    burnish.lower(s, [A, B, E]).show()
    measure("the default schedule", s, tensors)

    m, p = C.op.axis
    (k,) = C.op.reduce_axis
    s[C].reorder(m, k, p)
    m, n = F.op.axis
    (p,) = F.op.reduce_axis
    s[F].reorder(m, p, n)
    measure("reordered loops", s, tensors)

    s = te.create_schedule([C.op, D.op, F.op])
    m, p = C.op.axis
    ko, ki = s[C].split(C.op.reduce_axis[0], 8)
    s[C].reorder(ko, m, ki, p)
    m, n = F.op.axis
    po, pi = s[F].split(F.op.reduce_axis[0], 8)
    s[F].reorder(po, m, pi, n)
    measure("tiles of the reduction", s, tensors)

    s = te.create_schedule([C.op, D.op, F.op])
    m, p = C.op.axis
    mo, mi = s[C].split(m, 16)
    ko, ki = s[C].split(C.op.reduce_axis[0], 8)
    po, pi = s[C].split(p, 8)
    s[C].reorder(mo, po, ko, mi, ki, pi)
    m, n = F.op.axis
    mo, mi = s[F].split(m, 16)
    po, pi = s[F].split(F.op.reduce_axis[0], 8)
    no, ni = s[F].split(n, 8)
    s[F].reorder(mo, no, po, mi, pi, ni)
    measure("tiles of all axes", s, tensors)
    print(burnish.lower(s, [A, B, E, F]).script())

    # The same definitions without a schedule are a function for burnish.Schedule.
    print(te.create_prim_func([A, B, E, F]).script())


def main():
    default_schedule()
    split()
    tile()
    fuse()
    reorder()
    bind()
    places()
    argmax()
    products()


if __name__ == "__main__":
    main()
