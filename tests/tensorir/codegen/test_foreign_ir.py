from __future__ import annotations

import ctypes

import pytest
from llvmlite import binding

from burnish.support.errors import CodegenError
from burnish.support.target import Target
from burnish.tensorir.codegen.foreign_ir import import_llvm, link_imported, signatures
from burnish.tensorir.codegen.object import defined_in, emit_foreign_ir, new_module
from burnish.vm.native import load_objects

TEXT = """
target triple = "arm-unknown-none"
declare float @llvm.sqrt.f32(float)
define float @root(float %x) {
  %y = call float @llvm.sqrt.f32(float %x)
  ret float %y
}
define void @nothing(ptr %p, i64 %n) { ret void }
"""


def test_the_types_of_what_is_defined() -> None:
    module = new_module(Target("x86-64-v3"))
    parsed = import_llvm(TEXT, module, binding.create_context())
    assert signatures(parsed) == {
        "root": ("float", ("float",)),
        "nothing": ("void", ("ptr", "i64")),
    }
    assert defined_in(TEXT) == signatures(parsed)


def test_object_code_for_the_target_whatever_the_text_says() -> None:
    library = load_objects([emit_foreign_ir(TEXT, Target("native"))])
    root = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(library.address("root"))
    assert root(9.0) == 3.0


def test_what_is_linked_is_kept_to_the_object() -> None:
    context, module = binding.create_context(), new_module(Target("x86-64-v3"))
    into = binding.parse_assembly("declare float @root(float)", context)
    link_imported(into, import_llvm(TEXT, module, context))
    assert into.get_function("root").linkage is binding.Linkage.internal


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no IR", "does not read the LLVM IR"),
        ("declare void @f()", "defines no function"),
    ],
)
def test_what_is_no_code(text: str, words: str) -> None:
    with pytest.raises(CodegenError, match=words):
        defined_in(text)
