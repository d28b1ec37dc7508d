"""The libraries whose models are compiled, imported in one place.

torchvision looks for operators when it is imported. Where its compiled extension does not load
beside this build of torch, they are declared here before; an extension that does load has declared
them itself.
"""

from __future__ import annotations

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
)

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _schema in _SCHEMAS:
    if not hasattr(torch.ops.torchvision, _schema.split("(")[0]):
        LIBRARY.define(_schema)

import timm  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

__all__ = ["timm", "torchvision", "transformers"]
