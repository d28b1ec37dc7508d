"""Models of the transformers library, in small configurations of their own classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .case import Case, Inputs
from .libraries import transformers

Draw = Callable[[torch.Generator, int, int], Inputs]
_VOCABULARY = 99
_SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "vocab_size": _VOCABULARY, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_GROUPED = {**_SMALL, "num_key_value_heads": 2}
_IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
_ENCODER_DECODER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "vocab_size": _VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2,
}  # fmt: skip


# -- inputs --------------------------------------------------------------------------------------
def tokens(generator: torch.Generator, batch: int, length: int) -> Inputs:
    """Token ids and a mask that leaves some out."""
    ids = torch.randint(3, _VOCABULARY, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length - 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def bare_tokens(generator: torch.Generator, batch: int, length: int) -> Inputs:
    return {"input_ids": tokens(generator, batch, length)["input_ids"]}


def both_tokens(generator: torch.Generator, batch: int, length: int) -> Inputs:
    """Tokens for the encoder, and others for the decoder."""
    ids = torch.randint(3, _VOCABULARY, (batch, 5), generator=generator)
    return {**tokens(generator, batch, length), "decoder_input_ids": ids}


def picture(side: int) -> Draw:
    def draw(generator: torch.Generator, batch: int, length: int) -> Inputs:
        return {"pixel_values": torch.randn(batch, 3, side, side, generator=generator)}

    return draw


def waves(generator: torch.Generator, batch: int, length: int) -> Inputs:
    return {"input_values": torch.randn(batch, 100 * length, generator=generator)}


def _with(*draws: Draw) -> Draw:
    """The inputs of several."""

    def draw(generator: torch.Generator, batch: int, length: int) -> Inputs:
        return {k: x for d in draws for k, x in d(generator, batch, length).items()}

    return draw


def _spectrum(name: str, *, bands_first: bool, frames: int | None = None) -> Draw:
    def draw(generator: torch.Generator, batch: int, length: int) -> Inputs:
        count = frames or 4 * length
        shape = (batch, 16, count) if bands_first else (batch, count, 16)
        return {name: torch.randn(shape, generator=generator)}

    return draw


def _decoder_tokens(generator: torch.Generator, batch: int, length: int) -> Inputs:
    ids = torch.randint(3, _VOCABULARY, (batch, length), generator=generator)
    return {"decoder_input_ids": ids}


def _boxes(generator: torch.Generator, batch: int, length: int) -> Inputs:
    corners = torch.randint(0, 500, (batch, length, 2), generator=generator)
    return {"bbox": torch.cat([corners, corners + 100], -1)}


def _patches(generator: torch.Generator, batch: int, length: int) -> Inputs:
    """Flattened patches with the row and the column of each in front, as Pix2Struct takes them."""
    count = 12
    places = torch.stack([torch.arange(count) // 4 + 1, torch.arange(count) % 4 + 1], -1)
    pixels = torch.randn(batch, count, 3 * 8 * 8, generator=generator)
    flattened = torch.cat([places.expand(batch, -1, -1).float(), pixels], -1)
    return {"flattened_patches": flattened, "attention_mask": torch.ones(batch, count)}


# -- models --------------------------------------------------------------------------------------
def _build(model: str, config: str, options: Mapping[str, Any]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        made = getattr(transformers, config)(**options)
        module: nn.Module = getattr(transformers, model)(made)
        return module

    return build


class Part(nn.Module):
    """A part of a model, as a module of its own."""

    def __init__(self, whole: nn.Module, name: str) -> None:
        super().__init__()
        self.part = whole.get_submodule(name)

    def forward(self, **inputs: torch.Tensor) -> Any:
        return self.part(**inputs)


def _case(
    name: str,
    model: str,
    draw: Draw,
    *,
    dynamic: tuple[str, ...] = ("batch", "length"),
    config: str = "",
    **options: Any,
) -> Case:
    config = config or model.removesuffix("Model").removesuffix("ForCausalLM") + "Config"
    return Case(f"transformers/{name}", _build(model, config, options), draw, dynamic)


def _text() -> list[Case]:
    plain = {**_SMALL, "type_vocab_size": 2}
    deberta = {
        **plain, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"],
        "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False,
    }  # fmt: skip
    caching = {"use_cache": False}
    gpt2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": _VOCABULARY}
    neox = {**_SMALL, **caching, "rotary_pct": 0.5}
    opt = {**_SMALL, **caching, "ffn_dim": 48, "word_embed_proj_dim": 32}
    bloom = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": _VOCABULARY, **caching}
    distil = {
        "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": _VOCABULARY,
        "max_position_embeddings": 64,
    }  # fmt: skip
    causal = {**_GROUPED, **caching}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    many = {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 24, "decoder_sparse_step": 1,
    }  # fmt: skip
    mamba = {
        "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": _VOCABULARY,
        **caching,
    }  # fmt: skip
    recurrent = {
        **_GROUPED, **caching, "num_key_value_heads": 1, "lru_width": 32, "head_dim": 8,
        "attention_window_size": 32, "conv1d_width": 4, "num_hidden_layers": 3,
    }  # fmt: skip
    albert = {**plain, "embedding_size": 16, "num_hidden_groups": 1}
    return [
        _case("bert", "BertModel", tokens, **plain),
        _case("roberta", "RobertaModel", tokens, **plain),
        _case("distilbert", "DistilBertModel", tokens, **distil),
        _case("albert", "AlbertModel", tokens, **albert),
        _case("electra", "ElectraModel", tokens, embedding_size=16, **plain),
        _case("deberta-v2", "DebertaV2Model", tokens, **deberta),
        _case("mpnet", "MPNetModel", tokens, **_SMALL),
        _case("gpt2", "GPT2Model", tokens, config="GPT2Config", **gpt2, **caching),
        _case("gpt-neox", "GPTNeoXModel", tokens, **neox),
        _case("opt", "OPTModel", tokens, **opt),
        _case("bloom", "BloomModel", tokens, **bloom),
        _case("llama", "LlamaForCausalLM", tokens, **causal),
        _case("mistral", "MistralModel", tokens, sliding_window=8, **causal),
        _case("mixtral", "MixtralModel", tokens, **causal, **experts),
        _case("qwen2", "Qwen2Model", tokens, **causal),
        _case("qwen2-moe", "Qwen2MoeModel", tokens, **causal, **many),
        _case("gemma", "GemmaModel", tokens, head_dim=8, **causal),
        _case("phi", "PhiModel", tokens, **causal),
        _case("mamba", "MambaModel", bare_tokens, dynamic=("batch",), **mamba),
        _case(
            "recurrent-gemma", "RecurrentGemmaModel", bare_tokens, dynamic=("batch",), **recurrent
        ),
    ]


def _pairs() -> list[Case]:
    t5 = {
        "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
        "vocab_size": _VOCABULARY, "decoder_start_token_id": 0, "use_cache": False,
    }  # fmt: skip
    bart = {**_ENCODER_DECODER, "max_position_embeddings": 64, "use_cache": False}
    whisper = {
        **_ENCODER_DECODER, "num_mel_bins": 16, "max_source_positions": 24,
        "max_target_positions": 32, "use_cache": False,
    }  # fmt: skip
    speech = {
        "hidden_size": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "vocab_size": _VOCABULARY, "conv_dim": [16, 16], "conv_stride": [4, 4],
        "conv_kernel": [8, 4], "num_feat_extract_layers": 2, "num_mel_bins": 16,
        "speech_decoder_prenet_units": 24, "speech_decoder_prenet_dropout": 0.0,
        "speech_decoder_postnet_units": 24, "use_cache": False, "is_encoder_decoder": True,
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    }  # fmt: skip
    frames = _spectrum("input_features", bands_first=True, frames=48)
    batch = ("batch",)
    text_to_speech = _with(tokens, _spectrum("decoder_input_values", bands_first=False))
    return [
        _case("t5", "T5Model", both_tokens, **t5),
        _case("t5-encoder", "T5EncoderModel", tokens, config="T5Config", **t5),
        _case("bart", "BartModel", both_tokens, **bart),
        _case("whisper", "WhisperModel", _with(frames, _decoder_tokens), **whisper),
        Case(
            "transformers/whisper-encoder",
            lambda: Part(_build("WhisperModel", "WhisperConfig", whisper)(), "encoder"),
            frames, batch,
        ),
        _case(
            "speecht5", "SpeechT5ForTextToSpeech", text_to_speech, dynamic=batch,
            config="SpeechT5Config", **speech,
        ),
    ]  # fmt: skip


def _audio() -> list[Case]:
    features = {
        "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2),
        "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    }  # fmt: skip
    text = {k: v for k, v in _SMALL.items() if k != "max_position_embeddings"}
    vits = {
        "vocab_size": _VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "ffn_dim": 48, "flow_size": 32, "spectrogram_bins": 17,
        "prior_encoder_num_flows": 2, "posterior_encoder_num_wavenet_layers": 2,
        "upsample_initial_channel": 32, "wavenet_dilation_rate": 1,
    }  # fmt: skip
    return [
        _case("wav2vec2", "Wav2Vec2Model", waves, **text, **features),
        _case("sew", "SEWModel", waves, squeeze_factor=2, **text, **features),
        Case(
            "transformers/vits-text-encoder",
            lambda: Part(_build("VitsModel", "VitsConfig", vits)(), "text_encoder"),
            _with(tokens, _padding_mask),
        ),
        Case(
            "transformers/vits-vocoder",
            lambda: Part(_build("VitsModel", "VitsConfig", vits)(), "decoder"),
            _spectrogram_32, ("batch", "length"),
        ),
    ]  # fmt: skip


def _padding_mask(generator: torch.Generator, batch: int, length: int) -> Inputs:
    return {"padding_mask": torch.ones(batch, length, 1)}


def _spectrogram_32(generator: torch.Generator, batch: int, length: int) -> Inputs:
    return {"spectrogram": torch.randn(batch, 32, length, generator=generator)}


def _vision() -> list[Case]:
    batch = ("batch",)
    clip = {
        "text_config": {**_SMALL}, "vision_config": {**_IMAGE}, "projection_dim": 24,
    }  # fmt: skip
    blip = {
        "text_config": {**_SMALL, "encoder_hidden_size": 32}, "vision_config": {**_IMAGE},
        "projection_dim": 24, "image_text_hidden_size": 16,
    }  # fmt: skip
    stages = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
    swin = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "window_size": 4}
    heads = {"num_heads": [2, 4]}
    segformer = {
        "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 2, 3, 4], "sr_ratios": [4, 2, 1, 1],
        "decoder_hidden_size": 16, "num_labels": 5,
    }  # fmt: skip
    detr = {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "num_queries": 7, "use_timm_backbone": False, "use_pretrained_backbone": False,
        "backbone": None,
        "backbone_config": transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
            out_features=["stage2"],
        ),
    }  # fmt: skip
    layout = {
        **_SMALL, "input_size": 32, "patch_size": 8, "coordinate_size": 5, "shape_size": 6,
        "max_2d_position_embeddings": 1024, "has_relative_attention_bias": True,
        "has_spatial_attention_bias": True,
    }  # fmt: skip
    pix = {
        "hidden_size": 32, "patch_embed_hidden_size": 192, "d_ff": 48, "d_kv": 8,
        "num_hidden_layers": 2, "num_attention_heads": 4, "seq_len": 64,
    }  # fmt: skip
    sam = {
        **_IMAGE, "num_pos_feats": 8, "output_channels": 16, "window_size": 2, "mlp_dim": 48,
        "global_attn_indexes": [1],
    }  # fmt: skip
    efficient = {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}
    small, large = picture(32), picture(64)
    quarter = {"dynamic": batch, "depth_multiplier": 0.25}
    return [
        _case("vit", "ViTModel", small, dynamic=batch, **_IMAGE),
        _case("deit", "DeiTModel", small, dynamic=batch, **_IMAGE),
        _case("swin", "SwinModel", small, dynamic=batch, **swin, **heads),
        _case("convnext", "ConvNextModel", large, dynamic=batch, **stages),
        _case(
            "resnet", "ResNetModel", large, dynamic=batch, embedding_size=8, **stages
        ),
        _case(
            "regnet", "RegNetModel", large, dynamic=batch, embedding_size=8,
            groups_width=4, **stages,
        ),
        _case("mobilenet-v1", "MobileNetV1Model", large, **quarter),
        _case("mobilenet-v2", "MobileNetV2Model", large, **quarter),
        _case("efficientnet", "EfficientNetModel", large, dynamic=batch, **efficient),
        _case(
            "segformer", "SegformerForSemanticSegmentation", large, dynamic=batch,
            config="SegformerConfig", **segformer,
        ),
        _case(
            "detr", "DetrForObjectDetection", large, dynamic=batch, config="DetrConfig",
            **detr,
        ),
        _case(
            "table-transformer", "TableTransformerForObjectDetection", large, dynamic=batch,
            config="TableTransformerConfig", **detr,
        ),
        _case("clip", "CLIPModel", _with(tokens, small), dynamic=batch, **clip),
        _case("blip", "BlipModel", _with(tokens, small), dynamic=batch, **blip),
        _case(
            "layoutlmv3", "LayoutLMv3Model", _with(tokens, _boxes, small), dynamic=batch, **layout
        ),
        _case("pix2struct", "Pix2StructVisionModel", _patches, dynamic=batch, **pix),
        _case("sam-encoder", "SamVisionModel", small, dynamic=batch, **sam),
    ]  # fmt: skip


CASES = [*_text(), *_pairs(), *_audio(), *_vision()]
