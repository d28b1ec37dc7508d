from __future__ import annotations

import pytest

from burnish.support.errors import CodegenError
from burnish.tensorir.lowering.imported_llvm import imported_llvm
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.extern_programs import ADD_ONE, tiles


def test_texts_of_loops_and_blocks_each_once() -> None:
    sch = Schedule(tiles())
    (loop,) = sch.get_loops("tile")
    sch.annotate(loop, "pragma_import_llvm", ADD_ONE)
    assert imported_llvm(sch.func) == (ADD_ONE,)
    sch.annotate("tile", "pragma_import_llvm", ADD_ONE)
    assert imported_llvm(sch.func) == (ADD_ONE,)
    assert imported_llvm(tiles()) == ()


def test_what_is_no_text() -> None:
    sch = Schedule(tiles())
    sch.annotate("tile", "pragma_import_llvm", 3)
    with pytest.raises(CodegenError, match="is the text of LLVM IR; found 3"):
        imported_llvm(sch.func)
