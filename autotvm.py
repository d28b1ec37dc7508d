"""Templates with named knobs, under the names programs know: ``from burnish import autotvm``.

Names only; the definitions are in ``faces.template``.
"""

from __future__ import annotations

from .faces.template import Config, Template, get_template, template

__all__ = ["Config", "Template", "get_template", "template"]
