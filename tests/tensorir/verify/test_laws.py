"""Every law of a PrimFunc with a function that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish.support.dtype import DType
from burnish.support.errors import VerifyError
from burnish.support.node import map_children, replace, walk
from burnish.tensorir import expr as e
from burnish.tensorir.buffer import Buffer, BufferRegion, Range, make_buffer
from burnish.tensorir.expr import BOOL, INDEX, BufferLoad, Call, Expr, FloatImm, IntImm, Let, Var
from burnish.tensorir.function import Param, PrimFunc
from burnish.tensorir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import LAWS, is_well_formed, verify_func

A = make_buffer("A", [8])
I, J = Var("i"), Var("j")  # noqa: E741
TRUE = IntImm(1, BOOL)
ZERO, ONE, EIGHT = IntImm(0), IntImm(1), IntImm(8)
NOTHING = Evaluate(IntImm(0))

GOOD = """
def main(A: T.Buffer(("n", 4), "float32"), B: T.Buffer(("n",), "float32")):
    C = T.alloc_buffer((n, 4))
    for i, j in T.grid(n, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.exp(A[vi, vj])
    for i, k in T.grid(n, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(i < n)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + C[vi, vk]
"""


def lowered(body: Stmt, *params: Param) -> PrimFunc:
    return PrimFunc((A, *params), body)


def loop(body: Stmt, var: Var = I, kind: str = "serial", thread: str = "") -> For:
    return For(var, ZERO, EIGHT, kind, body, thread)


def store(value: Expr, index: Expr = ZERO, buffer: Buffer = A) -> BufferStore:
    return BufferStore(buffer, value, (index,))


def scheduled(*stmts: Stmt, allocated: tuple[Buffer, ...] = ()) -> PrimFunc:
    root = Block("root", (), (), (), seq(*stmts), alloc_buffers=allocated)
    return PrimFunc((A,), BlockRealize((), TRUE, root))


def block(
    name: str = "B",
    body: Stmt = NOTHING,
    kind: str = "spatial",
    values: tuple[Expr, ...] = (ZERO,),
    reads: tuple[BufferRegion, ...] = (),
    writes: Callable[[Var], tuple[BufferRegion, ...]] = lambda v: (),
) -> BlockRealize:
    v = Var("v")
    axis = IterVar(v, Range(ZERO, EIGHT), kind)
    return BlockRealize(values, TRUE, Block(name, (axis,), reads, writes(v), body))


def point(v: Expr, buffer: Buffer = A, ndim: int = 1) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range(v, ONE)] * ndim))


def test_a_good_function_keeps_every_law() -> None:
    f = parse_func(GOOD)
    assert verify_func(f) is f
    assert is_well_formed(f)
    assert all(law.__doc__ for law in LAWS)


SHARED = store(FloatImm(1.0))
V8 = e.Ramp(ZERO, ONE, 8)
LOCAL = make_buffer("L", [4])

BROKEN = {
    "a block without a root": (
        lowered(loop(block())),
        "the block 'B' without a root block around it",
    ),
    "a root with iter vars": (
        PrimFunc((A,), block("root")),
        "the outermost block 'root' has iter vars",
    ),
    "a Block as a statement": (
        scheduled(loop(block().block)),
        "a Block as a statement",
    ),
    "a nested sequence": (
        lowered(SeqStmt((SeqStmt((NOTHING, NOTHING)), NOTHING))),
        "a sequence inside a sequence",
    ),
    "a short sequence": (lowered(SeqStmt((NOTHING,))), "1 statements"),
    "two blocks of a name": (scheduled(block("B"), block("B")), "two blocks called 'B'"),
    "too many iter values": (
        scheduled(block(values=(ZERO, ZERO))),
        "2 values for the 1 iter vars of 'B'",
    ),
    "an int32 iter value": (
        scheduled(block(values=(IntImm(0, DType("int32")),))),
        "a value of dtype int32 for 'v'",
    ),
    "an unknown axis": (scheduled(block(kind="odd")), "'odd'"),
    "a loop of an unknown kind": (lowered(loop(NOTHING, kind="odd")), "'odd'"),
    "a loop of several dtypes": (
        lowered(For(Var("i", DType("int32")), ZERO, EIGHT, "serial", NOTHING)),
        "int32, int64 and int64",
    ),
    "a thread on a serial loop": (
        lowered(loop(NOTHING, thread="x")),
        "thread='x' on a serial loop",
    ),
    "a thread_binding loop without a thread": (
        lowered(loop(NOTHING, kind="thread_binding")),
        "thread='' on a thread_binding loop",
    ),
    "a variable bound twice": (
        lowered(seq(loop(NOTHING), loop(NOTHING))),
        "the variable 'i' is bound again",
    ),
    "a variable nobody binds": (
        lowered(store(FloatImm(0.0), J)),
        "the variable 'j', which nothing",
    ),
    "a variable after its loop": (
        lowered(seq(loop(NOTHING), store(FloatImm(0.0), I))),
        "the variable 'i' outside of its scope",
    ),
    "a let's variable in its own value": (
        lowered(LetStmt(J, J + 1, NOTHING)),
        "the variable 'j', which nothing binds",
    ),
    "a Let bound twice": (
        lowered(seq(Evaluate(Let(J, ONE, J)), Evaluate(Let(J, ONE, J)))),
        "the variable 'j' is bound again",
    ),
    "a buffer nobody declares": (
        lowered(store(FloatImm(0.0), buffer=LOCAL)),
        "the buffer 'L', which nothing declares",
    ),
    "a buffer outside of its allocation": (
        lowered(seq(Allocate(LOCAL, NOTHING), store(FloatImm(0.0), buffer=LOCAL))),
        "the buffer 'L' outside of its scope",
    ),
    "a parameter given twice": (PrimFunc((A, A), NOTHING), "the buffer 'A' is bound again"),
    "a region of the block's own buffer": (
        scheduled(
            BlockRealize(
                (), TRUE, Block("B", (), (point(ZERO, LOCAL),), (), NOTHING, None, (LOCAL,))
            )
        ),
        "the buffer 'L', which nothing declares",
    ),
    "an index too many": (
        lowered(BufferStore(A, FloatImm(0.0), (ZERO, ZERO))),
        "2 indices of 'A' of 1 dimensions",
    ),
    "an int32 index": (
        lowered(store(FloatImm(0.0), IntImm(0, DType("int32")))),
        "an index of dtype int32",
    ),
    "a scalar predicate of a vector": (
        lowered(BufferStore(A, e.Broadcast(FloatImm(0.0), 8), (V8,), TRUE)),
        "a predicate of dtype bool",
    ),
    "a value of another dtype": (
        lowered(store(ONE)),
        "dtype float32, as the buffer 'A' has; found int64",
    ),
    "a scalar stored at a vector": (
        lowered(store(FloatImm(0.0), V8)),
        "dtype float32x8, as the buffer 'A' has; found float32",
    ),
    "a region of too many ranges": (
        scheduled(block(reads=(point(ZERO, ndim=2),))),
        "2 ranges of 'A', which has 1 dimensions",
    ),
    "a reduce axis in a written region": (
        scheduled(block(kind="reduce", writes=lambda v: (point(v),))),
        "the block 'B' writes at the reduce axis 'v'",
    ),
    "an unknown scope": (
        lowered(Allocate(Buffer("L", (EIGHT,), DType("float32"), "odd"), NOTHING)),
        "'odd'",
    ),
    "an int32 dim": (
        scheduled(
            NOTHING, allocated=(Buffer("L", (IntImm(4, DType("int32")),), DType("float32")),)
        ),
        "a int32 in 'L'",
    ),
    "a symbolic register buffer": (
        PrimFunc(
            (Buffer("P", (J,), DType("float32")),),
            Allocate(Buffer("L", (J,), DType("float32"), "register"), NOTHING),
        ),
        "'L' with a symbolic one",
    ),
    "a condition that is no bool": (
        lowered(IfThenElse(ONE, NOTHING)),
        "a condition of dtype int64",
    ),
    "a let of another dtype": (
        lowered(LetStmt(J, FloatImm(1.0), NOTHING)),
        "a value of dtype float32 for the int64 variable 'j'",
    ),
    "an unknown intrinsic": (
        lowered(store(Call("expp", (FloatImm(1.0),), DType("float32")))),
        "expp: Expected an intrinsic",
    ),
    "a call of the wrong dtype": (
        lowered(store(Call("isnan", (FloatImm(1.0),), DType("float32")))),
        "for the result of the intrinsic isnan",
    ),
    "a reinterpret of another width": (
        lowered(Evaluate(Call("reinterpret", (FloatImm(1.0),), INDEX))),
        "same width",
    ),
    "a Reduce": (
        lowered(store(e.Reduce("sum", FloatImm(1.0), (), FloatImm(0.0)))),
        "a Reduce in a PrimFunc",
    ),
}


@pytest.mark.parametrize("case", BROKEN, ids=lambda c: c.replace(" ", "-"))
def test_what_breaks_a_law(case: str) -> None:
    func, found = BROKEN[case]
    with pytest.raises(VerifyError) as caught:
        verify_func(func)
    assert found in caught.value.found
    assert not is_well_formed(func)


def test_scopes_of_blocks_may_name_the_same_things() -> None:
    """Sibling scopes have Vars of one name: identity counts, not the name."""
    verify_func(scheduled(loop(block("B"), Var("i")), loop(block("C"), Var("i"))))


def test_the_error_shows_the_guilty_store(golden: Callable[..., None]) -> None:
    f = parse_func(GOOD)
    target = next(
        n for n in walk(f.body) if isinstance(n, BufferStore) and isinstance(n.value, Call)
    )
    load = target.value.args[0]  # type: ignore[attr-defined]
    assert isinstance(load, BufferLoad)
    broken = replace(load, indices=load.indices[:1])

    def swap(n: Stmt) -> Stmt:
        if n is target:
            return BufferStore(target.buffer, Call("exp", (broken,), load.dtype), target.indices)
        return n

    with pytest.raises(VerifyError) as caught:
        verify_func(replace(f, body=_map(f.body, swap)))
    golden(str(caught.value))


def _map(n: Stmt, fn: Callable[[Stmt], Stmt]) -> Stmt:
    return fn(map_children(n, lambda c: _map(c, fn)))


def test_the_size_of_a_buffer_is_known_when_the_function_begins() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            L = T.alloc_buffer((vi + 1,))
            A[vi] = T.float32(0)
"""
    with pytest.raises(VerifyError, match=r"'L', whose size depends on 'vi'"):
        verify_func(parse_func(text))
