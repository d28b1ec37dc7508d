"""Operators that torchvision looks for when it is imported, declared for an installation whose
compiled extension does not load beside this build of torch.

Import this before torchvision. An extension that does load has declared them itself, and nothing
happens here.
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
