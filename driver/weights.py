"""What a torch module's weights were: a digest of each, to tell whether they are still the same.

A lazily compiled model computes with the weights that its module had at the first compilation. A
second copy of them would be needed to compile further signatures after the module was trained on;
instead the module is asked whether it still has them. Version counters cannot say so (writing
through ``.data`` or a NumPy view leaves them as they are), the contents can: a digest takes some
0.2 s a gigabyte, which is little beside an export. Python numbers are not compared: modules count
their own calls in them. Nor are tensors that a module does not hold.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

Digests = Mapping[str, str]
"""A digest of each tensor that a module holds, by its name: dtype, shape and a CRC of the
contents."""


def digest_weights(module: Any) -> dict[str, str]:
    """Digests of the parameters, the buffers and the other tensors of an ``nn.Module`` and of those
    inside it."""
    return {name: _digest(tensor) for name, tensor in _tensors(module)}


def changed_weights(before: Digests, after: Digests) -> list[str]:
    """The names of the tensors that differ, appeared or went."""
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _tensors(module: Any) -> Iterator[tuple[str, Any]]:
    for path, part in module.named_modules():
        held = {**vars(part), **part._buffers, **part._parameters}
        for name, value in held.items():
            # What is private and no tensor is torch's own bookkeeping, or a cache.
            if not (name.startswith("_") and isinstance(value, dict | list | tuple)):
                yield from _tensors_in(f"{path}.{name}" if path else name, value)


def _tensors_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that an attribute is, or that a list, tuple or dict of them holds."""
    # A tensor, whatever its class; nothing else here has all three.
    if all(hasattr(value, a) for a in ("data_ptr", "is_contiguous", "numel")):
        if hasattr(value, "__tensor_flatten__"):  # a tensor around others, as torchao's
            for part in value.__tensor_flatten__()[0]:
                yield from _tensors_in(f"{name}.{part}", getattr(value, part))
        else:
            yield name, value
    elif type(value) in (list, tuple):
        for i, part in enumerate(value):
            yield from _tensors_in(f"{name}[{i}]", part)
    elif type(value) is dict:
        for key, part in value.items():
            yield from _tensors_in(f"{name}[{key!r}]", part)


def _digest(tensor: Any) -> str:
    kind = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout} {tensor.device.type}"
    if str(tensor.layout) != "torch.strided" or tensor.is_meta or tensor.is_quantized:
        return kind
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    octets = flat.view(sys.modules["torch"].uint8).numpy()
    return f"{kind} {zlib.crc32(octets):08x}"
