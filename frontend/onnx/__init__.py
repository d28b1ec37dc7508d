"""ONNX models in: a path, bytes or a ModelProto."""

from __future__ import annotations

from .importer import import_onnx

__all__ = ["import_onnx"]
