"""PyTorch models in, through torch.export."""

from __future__ import annotations

from .importer import import_exported_program, import_module

__all__ = ["import_exported_program", "import_module"]
