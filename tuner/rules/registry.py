"""The rules, the most special first; each is a fallback of those before it.

Importing this module makes the rules known by their names to traces and ``Schedule.apply_rule``;
what schedules or replays for others does so (``analytic``, ``replay``).
"""

from __future__ import annotations

from typing import Any

from ...tensorir.schedule.apply_rule import register_rule
from .attention import AttentionRule
from .bfloat16 import BFloat16Rule
from .chain import ChainRule
from .conv import ConvRule
from .depthwise import WindowRule
from .dot import DotRule
from .elementwise import ElementwiseRule
from .gemv import GemvRule
from .int8 import Int8Rule
from .matmul import MatmulRule
from .products import ProductsRule
from .recurrent import RecurrentRule
from .reduction import ReductionRule
from .row_window import RowWindowRule
from .rule import Rule
from .scaled import ScaledRule
from .tiles import TilesRule
from .winograd import WinogradRule

RULES: tuple[Rule[Any, Any], ...] = (
    WinogradRule(),
    ScaledRule(),
    TilesRule(),
    Int8Rule(),
    BFloat16Rule(),
    DotRule(),
    GemvRule(),
    MatmulRule(),
    ConvRule(),
    AttentionRule(),
    RecurrentRule(),
    WindowRule(),
    RowWindowRule(),
    ChainRule(),
    ProductsRule(),
    ReductionRule(),
    ElementwiseRule(),
)

for _rule in RULES:
    register_rule(_rule.name, _rule.run)
