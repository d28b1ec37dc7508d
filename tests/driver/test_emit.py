"""One PrimFunc to object code, here and as a worker does it."""

from __future__ import annotations

import json

import pytest

from burnish import errors
from burnish.driver.emit import emit_kernel, get_ready, job_of, read_result, run_job
from burnish.driver.kernels import resolve_target
from burnish.support.dump import Dump
from burnish.support.structural import structural_equal
from burnish.tests.driver.programs import add_one
from burnish.tests.driver.test_kernels import symbolic

NATIVE = resolve_target("native")
UNROLLED = add_one("unrolled", 1 << 22, "T.unroll")
"""What no machine code can be made of."""


def test_a_job_gives_the_same_bytes() -> None:
    func = symbolic(f="f", n="n", x="A", y="B")
    here, times = emit_kernel("f", func, "f_1", NATIVE, Dump(None))
    result = json.loads(json.dumps(run_job(job_of(func, "f_1", NATIVE))))
    there, _ = read_result("f_1", result)
    assert there.image == here.image
    assert there.symbol == "f_1"
    # The workspace is over the dims that came along, not over those of this process.
    assert len(there.dims) == 1
    assert there.dims[0] is not here.dims[0]
    assert structural_equal(
        (there.dims[0], there.shared_bytes, there.thread_bytes),
        (here.dims[0], here.shared_bytes, here.thread_bytes),
    )
    assert times.total == times.lowering + times.codegen + times.llvm > 0


def test_a_symbol_is_part_of_the_code() -> None:
    one, _ = emit_kernel("f", add_one(), "one", NATIVE, Dump(None))
    two, _ = emit_kernel("f", add_one(), "two", NATIVE, Dump(None))
    assert b"one" in one.image
    assert b"one" not in two.image


def test_what_fails_is_told_and_not_raised() -> None:
    assert run_job(job_of(UNROLLED, "f", NATIVE))["failed"].startswith("CodegenError: ")
    with pytest.raises(errors.CodegenError):
        emit_kernel("f", UNROLLED, "f", NATIVE, Dump(None))


def test_a_worker_gets_ready_for_a_target() -> None:
    assert get_ready(str(NATIVE)) is True
