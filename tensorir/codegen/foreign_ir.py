"""LLVM IR that users write: read, its functions' types, and joined with the code that calls them.

It is compiled for the target of the kernel, whatever the text says its own is. Functions that it
defines are kept to the object that calls them, so that two kernels may bring the same ones along.
"""

from __future__ import annotations

from llvmlite import binding, ir

from ...support.errors import CodegenError
from .extern_calls import Imported


def import_llvm(text: str, module: ir.Module, context: binding.ContextRef) -> binding.ModuleRef:
    """The module of a text, for the target of ``module``. Raises CodegenError for what is no LLVM
    IR, or defines nothing."""
    try:
        parsed = binding.parse_assembly(text, context)
        parsed.verify()
    except RuntimeError as error:
        version = ".".join(map(str, binding.llvm_version_info))
        raise CodegenError(
            f"LLVM {version} does not read the LLVM IR that is imported: {str(error).strip()}"
        ) from None
    parsed.triple, parsed.data_layout = module.triple, module.data_layout
    if not signatures(parsed):
        raise CodegenError("The LLVM IR that is imported defines no function.")
    return parsed


def signatures(module: binding.ModuleRef) -> Imported:
    """What each function that a module defines gives and takes."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for function in module.functions:
        if not function.is_declaration:
            kind = function.global_value_type
            takes = tuple([str(t) for t in kind.get_function_parameters()])
            found[function.name] = (str(kind.get_function_return()), takes)
    return found


def link_imported(into: binding.ModuleRef, module: binding.ModuleRef) -> None:
    """Move what ``module`` defines into ``into``. Raises CodegenError for a name that both
    define."""
    names = [f.name for f in module.functions if not f.is_declaration]
    try:
        into.link_in(module)
    except RuntimeError as error:
        raise CodegenError(f"The LLVM IR that is imported does not link: {error}") from None
    for name in names:
        into.get_function(name).linkage = binding.Linkage.internal


__all__ = ["import_llvm", "link_imported", "signatures"]
