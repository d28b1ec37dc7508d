"""One model of each family of timm, the smallest or nearly so, of at most 45 million parameters.

A family is what stands before the first digit or underscore of a name, in each of timm's modules.
"""

from __future__ import annotations

import functools

import torch
from torch import nn

from .case import Case, Inputs
from .libraries import timm

_FAMILIES = """
    bat_resnext26ts:256 botnet26t_256! caformer_s18 cait_xxs24_224! coat_lite_tiny!
    coatnet_0_224! coatnext_nano_rw_224! convformer_s18 convit_tiny! convmixer_1024_20_ks9_p14
    convnext_atto_rms convnextv2_atto cpubone_nano crossvit_18_240 cs3darknet_focus_s csatv2
    cspdarknet53 cspnext_tiny cspresnet50 cspresnext50 darknet17 darknetaa53 davit_tiny
    deit3_small_patch16_224! densenetblur121d dla34 eca_botnext26ts_256! eca_nfnet_l0
    eca_resnext26ts eca_vovnet39b ecaresnet26t ecaresnetlight ecaresnext26t_32x4d
    edgenext_x_small efficientformer_l1:224 efficientformerv2_s0! efficientnet_b0 efficientvim_m1
    efficientvit_b0 efficientvit_m0 ese_vovnet19b_slim_dw eva02_tiny_patch14_224! fasternet_s
    fastvit_mci0 fbnetc_100 fbnetv3_b flexivit_small! focalnet_tiny_lrf gc_efficientnetv2_rw_t
    gcresnet33ts gcresnext26ts gcvit_xtiny! gernet_s ghostnet_050 ghostnetv3_050 gmixer_12_224!
    gmlp_ti16_224! halo2botnet50ts_256:128! halonet26t:256 haloregnetz_b:224 hardcorenas_b
    hgnet_tiny hgnetv2_b0 hiera_tiny_224! hieradet_small hrnet_w18_small iformer_l
    inception_next_atto inception_v3:128 inception_v4:128 lambda_resnet26t
    lamhalobotnet50ts_256:128! lcnet_035 lcnetv2_small legacy_seresnet18 legacy_xception
    levit_128s! lowformer_b0 mambaout_femto maxvit_pico_rw_256! maxxvit_rmlp_nano_rw_256!
    maxxvitv2_nano_rw_256! mixnet_s mnasnet_050 mobilenet_edgetpu_100 mobilenetv2_035
    mobilenetv3_small_050 mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny!
    nextvit_small nf_regnet_b0 pit_s_224! poolformer_s12 poolformerv2_s12 pvt_v2_b0 rdnet_tiny
    regnetv_040 regnetx_002 regnety_002 regnetz_005 regnetz_b16 repghostnet_050 repvgg_b0
    repvit_m1_0 res2net50_26w_4s resmlp_12_224! resnest26d resnet101_clip_gap resnet10t
    resnetaa34d resnetblur18 resnetv2_18 resnext101_32x4d resnext26ts rexnet_100 rexnetr_100
    sam2_hiera_tiny sebotnet33ts_256! sedarknet21 sehalonet33ts:256 selecsls42 semnasnet_050
    sequencer2d_s seresnet18 seresnet33ts seresnetaa50d seresnext26t_32x4d seresnext26ts shvit_s1
    skresnet18 skresnext50_32x4d spnasnet_100 starnet_s050 swiftformer_s swin_s3_tiny_224!
    swinv2_tiny_window8_256! test_byobnet test_coatnet! test_convnext test_efficientnet
    test_mambaout test_nfnet test_resnet test_vit test_vit_relpos! tf_efficientnet_b0
    tf_mobilenetv3_large_minimal_100 tiny_vit_5m_224 tinynet_c tnt_s_legacy_patch16_224!
    tresnet_m twins_svt_small visformer_tiny! vit_pe_core_tiny_patch16_384! vit_small_patch8_224!
    vit_small_r26_s32_224! vit_srelpos_small_patch16_224! vitamin_small_224! volo_d1_224!
    vovnet39a xception41p xcit_nano_12_p8_224
"""
"""Name, with the side of its images where that is not 64, and ! where the model is told that
side."""


def _images(
    channels: int, side: int, generator: torch.Generator, batch: int, length: int
) -> Inputs:
    return (torch.randn(batch, channels, side, side, generator=generator),)


def _build(name: str, side: int | None) -> nn.Module:
    options = {} if side is None else {"img_size": side}
    return timm.create_model(name, pretrained=False, **options)


def _case(word: str) -> Case:
    name, _, side = word.rstrip("!").partition(":")
    size = int(side or 64)
    told = size if word.endswith("!") else None
    draw = functools.partial(_images, 3, size)
    return Case(f"timm/{name}", functools.partial(_build, name, told), draw)


CASES = [_case(word) for word in _FAMILIES.split()]
