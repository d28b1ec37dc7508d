"""LLVM's linker gives what the other one gives."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from burnish.support.errors import VMError
from burnish.vm import native
from burnish.vm.llvm_linker import link_with_llvm

TEXT = "define i64 @next(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"
CALLER = "declare i64 @gone()\ndefine i64 @f() {\n  %y = call i64 @gone()\n  ret i64 %y\n}\n"


def test_it_links(assemble: Callable[[str], bytes]) -> None:
    _kept, addresses = link_with_llvm([assemble(TEXT)], ["next"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses["next"])(4) == 5
    with pytest.raises(VMError, match="cannot be linked"):
        link_with_llvm([assemble(CALLER)], ["f"])


def test_it_is_asked_where_the_other_does_not_know(
    assemble: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "link_x86_64", lambda images, external: None)
    library = native.load_objects([assemble(TEXT)])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("next"))(4) == 5
