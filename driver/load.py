"""Loading a saved model. No compiler, no torch.

This file opens the artifact, whose parts are mapped, and has their hashes compared in the
background; ``loaded_model``, whose imports take as long, makes the model of it meanwhile.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from ..support.aligned import aligned_empty
from ..support.errors import ArgumentError
from ..support.keywords import hinted
from ..vm.artifact import Artifact, open_artifact, read_image

if TYPE_CHECKING:
    from ..support.target import Target
    from .loaded_model import LoadedModel


@hinted
def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    target: Target | str | None = None,
    verify: bool = True,
) -> LoadedModel:
    """A model that ``CompiledModel.save`` wrote. Needs numpy and llvmlite alone.

    The file is mapped: several processes that load it have its weights once. ``threads`` bounds the
    threads of a call; ``target`` asks for the kernels of one of the file's targets instead of the
    best. ``verify=False`` leaves out the comparison of the parts' hashes, which reads the whole
    file.

    Raises ArgumentError for what is no path, ArtifactError for a file that is not whole, not a
    saved model or from a newer burnish, and TargetError where it has no kernels that this machine
    can run.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(
            f"load takes the path of a file that model.save() wrote; found {type(path).__name__}. "
            "Models of other libraries go to burnish.compile."
        )
    artifact = open_artifact(path, verify=verify)
    model = _loaded(artifact, threads, target)
    artifact.finish_verifying()
    return model


def restored(image: bytes, threads: int | None = None, target: str | None = None) -> LoadedModel:
    """A model that was pickled or copied. Raises as ``load`` does."""
    memory = aligned_empty((len(image),), np.dtype(np.uint8))
    memory[:] = np.frombuffer(image, np.uint8)
    memory.flags.writeable = False
    return _loaded(read_image(memory.data, "a pickled model"), threads, target)


def _loaded(artifact: Artifact, threads: int | None, target: Target | str | None) -> LoadedModel:
    from .loaded_model import loaded_model

    return loaded_model(artifact, threads, target)


__all__ = ["load", "restored"]
