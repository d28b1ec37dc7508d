"""The named lists of passes. This import list is the registry: a pass that is not here has no name.

``default`` is the corridor from an imported module to fused kernels; ``debug`` stops at one kernel
an operator, so that every intermediate value exists. Both are stages in order, so that each can be
dumped."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ConfigError, nearest
from ...support.passes import Pass, Pipeline
from .annotate_pattern import AnnotatePattern
from .bind_params import BindParams
from .bind_symbolic_vars import BindSymbolicVars
from .canonicalize import Canonicalize
from .channels_last import ChannelsLast
from .collapse_kept_axes import CollapseKeptAxes
from .collapse_leading_dims import CollapseLeadingDims
from .combine_parallel_matmul import CombineParallelMatmul
from .dead_code_elimination import DeadCodeElimination
from .decompose_conv_transpose import DecomposeConvTranspose
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .fold_constant import Evaluate, FoldConstant
from .fold_moves import FoldMoves
from .fold_scale import FoldScale
from .fuse_ops import FuseOps
from .fuse_prim_funcs import FusePrimFuncs
from .group_rows import GroupRows
from .inline_functions import InlineFunctions
from .keep_integer_weights import KeepIntegerWeights
from .legalize import LegalizeOps
from .pointwise_products import PointwiseProducts
from .recognize_attention import RecognizeAttention
from .repeat_casts import RepeatCasts
from .replace_prim_funcs import ReplacePrimFuncs
from .select_winograd import SelectWinograd
from .simplify_algebra import SimplifyAlgebra
from .split_float32 import SplitFloat32
from .to_dynamic_bytes import ToDynamicBytes
from .to_integer_weights import ToIntegerWeights
from .to_mixed_precision import ToMixedPrecision
from .widen_bytes import WidenBytes
from .widen_convs import WidenConvs
from .window_products import WindowProducts

PASSES: tuple[type[Pass], ...] = (
    BindParams,
    BindSymbolicVars,
    Canonicalize,
    ChannelsLast,
    CollapseKeptAxes,
    CollapseLeadingDims,
    CombineParallelMatmul,
    DecomposeConvTranspose,
    FoldConstant,
    FoldMoves,
    FoldScale,
    EliminateCommonSubexpr,
    DeadCodeElimination,
    GroupRows,
    InlineFunctions,
    KeepIntegerWeights,
    LegalizeOps,
    AnnotatePattern,
    FuseOps,
    FusePrimFuncs,
    PointwiseProducts,
    RecognizeAttention,
    RepeatCasts,
    ReplacePrimFuncs,
    SelectWinograd,
    SimplifyAlgebra,
    SplitFloat32,
    ToDynamicBytes,
    ToIntegerWeights,
    ToMixedPrecision,
    WidenBytes,
    WidenConvs,
    WindowProducts,
)
"""Every pass, for ``support.passes.parse_pipeline``."""

STAGES: dict[str, dict[str, tuple[Pass, ...]]] = {
    "default": {
        "10-canonical": (
            Canonicalize(),
            KeepIntegerWeights(),
            SimplifyAlgebra(),
            FoldScale(),
            RecognizeAttention(),
            PointwiseProducts(),
            ChannelsLast(),
            DecomposeConvTranspose(),
            Canonicalize(),
            CollapseLeadingDims(),
            GroupRows(),
            Canonicalize(),
            EliminateCommonSubexpr(),
            DeadCodeElimination(),
        ),
        "20-legalized": (LegalizeOps(), DeadCodeElimination()),
        "30-fused": (
            FoldMoves(),
            DeadCodeElimination(),
            AnnotatePattern(legalized_only=True),
            RepeatCasts(),
            DeadCodeElimination(),
            FuseOps(),
            FusePrimFuncs(),
            CollapseKeptAxes(),
            DeadCodeElimination(),
        ),
    },
    "debug": {
        "10-canonical": (Canonicalize(),),
        "20-legalized": (LegalizeOps(),),
        "30-fused": (AnnotatePattern(legalized_only=True),),
    },
}
"""The stages of each named list: its passes by the dump they end in."""


def stages(
    name: str = "default", *, evaluate: Evaluate | None = None, selection: Sequence[Pass] = ()
) -> dict[str, Pipeline]:
    """The pipelines of a named list by stage. With ``evaluate`` the first stage folds constants
    too; legalisation begins with ``selection``, passes that choose algorithms for a target.

    Raises ConfigError for a name that is no list.
    """
    if name not in STAGES:
        raise ConfigError(
            f"There is no pipeline {name!r}; there are {', '.join(STAGES)}.{nearest(name, STAGES)}"
        )
    made: dict[str, Pipeline] = {}
    for stage, passes in STAGES[name].items():
        listed = list(passes)
        if stage == "10-canonical" and evaluate is not None:
            first, second = FoldConstant(evaluate, keep_bytes=True), FoldConstant(evaluate)
            listed[1:2] = first, *listed[1:2], second
        if stage == "20-legalized":
            listed[:0] = selection
        made[stage] = Pipeline(listed)
    return made


def pipeline(name: str = "default", *, evaluate: Evaluate | None = None) -> Pipeline:
    """A named list as one pipeline, from an imported module to stage 30. Raises ConfigError."""
    return Pipeline([p for stage in stages(name, evaluate=evaluate).values() for p in stage])
