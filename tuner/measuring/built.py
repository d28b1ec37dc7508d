"""What a builder hands a runner: a candidate's object code and how to call it, as JSON has it.

Builder and runner need not share a file system: the code travels in the job, as text. It holds
nothing that refers to the process it was built in.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...vm.program import Kernel, Param, TensorSpec


@dataclass(frozen=True)
class Built:
    """``image`` is an ELF object, ``kernel`` describes the function in it, ``layouts`` are the maps
    by which arguments are packed before a call (the attribute ``layout_maps``)."""

    kernel: Kernel
    image: bytes
    layouts: tuple[Any, ...] = ()

    def as_json(self) -> dict[str, Any]:
        k = self.kernel
        return {
            "name": k.name,
            "symbol": k.symbol,
            "params": [[p.name, list(p.spec.shape), p.spec.dtype] for p in k.params],
            "outputs": list(k.outputs),
            "dims": list(k.dims),
            "workspace": [k.shared_bytes, k.thread_bytes],
            "inplace": k.inplace,
            "layouts": [list(m) for m in self.layouts],
            "image": base64.b64encode(self.image).decode(),
        }


def built_from_json(data: Mapping[str, Any]) -> Built:
    """What ``as_json`` gave."""
    params = [Param(name, TensorSpec(tuple(shape), dtype)) for name, shape, dtype in data["params"]]
    shared, thread = data["workspace"]
    kernel = Kernel(
        name=data["name"],
        symbol=data["symbol"],
        params=tuple(params),
        outputs=tuple(data["outputs"]),
        dims=tuple(data["dims"]),
        shared_bytes=shared,
        thread_bytes=thread,
        inplace=data["inplace"],
    )
    layouts = tuple([tuple(m) for m in data["layouts"]])
    return Built(kernel, base64.b64decode(data["image"]), layouts)
