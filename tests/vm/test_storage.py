from __future__ import annotations

import threading

import numpy as np
import pytest

from burnish.support.aligned import aligned_empty
from burnish.support.dtype import DType
from burnish.support.errors import ArgumentError, VMError
from burnish.vm.storage import WORDS, Storage, WorkspacePool, data_pointer


@pytest.mark.parametrize("nbytes", [0, 1, 64, 1000])
def test_storage_is_aligned(nbytes: int) -> None:
    s = Storage(nbytes)
    assert (s.pointer % 64, s.nbytes, s.data.nbytes) == (0, nbytes, nbytes)


def test_views_share_the_storage_and_keep_it_alive() -> None:
    s = Storage(64)
    a, b = s.view(0, (4,), DType("float32")), s.view(8, (2, 1), DType("float32"))
    a[:] = [1, 2, 3, 4]
    del s
    assert b.tolist() == [[3], [4]]
    assert Storage(4).view(0, (2,), DType("bfloat16")).dtype == np.uint16


def test_a_view_beyond_the_end() -> None:
    with pytest.raises(ArgumentError, match=r"at byte 56 ends at byte 72, beyond a storage of 64"):
        Storage(64).view(56, (4,), DType("float32"))
    with pytest.raises(ArgumentError, match="-1 bytes"):
        Storage(-1)


def test_pointers_are_read_right() -> None:
    base = np.arange(40, dtype=np.float32).reshape(5, 8)
    for x in (base, base[1:], base.T, base[::2, ::3], base[:0], base.view(np.recarray)):
        assert data_pointer(x) == x.__array_interface__["data"][0]
    assert WORDS is not None, "the slow way is correct too, but this platform should have the fast"


def test_the_pool_reuses_and_grows() -> None:
    pool = WorkspacePool()
    first = pool.take(100)
    assert (first.nbytes, first.data.nbytes) == (100, 100)
    pool.give(first)
    assert pool.take(100) is first
    pool.give(first)
    assert pool.take(101).nbytes == 101
    pool.give(first)
    assert pool.take(50) is first
    pool.give(first)
    larger = pool.take(200)
    assert larger is not first
    assert larger.nbytes == 200
    pool.give(larger)
    assert pool.free_bytes == 200
    with pool.borrow(10) as outer, pool.borrow(10) as inner:
        assert outer is not inner


def test_concurrent_calls_never_share_a_storage() -> None:
    pool = WorkspacePool()
    faults: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            with pool.borrow(8) as s:
                cell = s.view(0, (1,), DType("int64"))
                cell[0] = number
                if cell[0] != number:
                    faults.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert faults == []


def test_aligned_empty() -> None:
    a = aligned_empty((3, 5), np.dtype(np.float64))
    assert (a.shape, a.dtype, data_pointer(a) % 64) == ((3, 5), np.float64, 0)
    assert a.flags.c_contiguous


def test_more_memory_than_there_is() -> None:
    with pytest.raises(VMError, match=f"A call needs {1 << 60} bytes at once"):
        Storage(1 << 60)
