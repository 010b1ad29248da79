"""Entries of the package transformers: language, speech and vision."""

import importlib

import torch

from .registry import BATCH, SEQ, VOCAB, entry, tokens

#: The common fields of small decoders' configurations.
SMALL = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=64,
)  # fmt: skip
GQA = dict(SMALL, num_key_value_heads=2)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

#: name: (model class, config class, fields)
DECODERS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GQA),
    "llama-tied": ("LlamaForCausalLM", "LlamaConfig", dict(GQA, tie_word_embeddings=True)),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(GQA, sliding_window=8)),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig",
                dict(GQA, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GQA),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(GQA, head_dim=16)),
    "qwen3-moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
                  dict(GQA, head_dim=16, num_experts=4, num_experts_per_tok=2,
                       moe_intermediate_size=32)),
    "qwen3-next": ("Qwen3NextForCausalLM", "Qwen3NextConfig",
                   dict(GQA, head_dim=16, num_experts=4, num_experts_per_tok=2,
                        moe_intermediate_size=32, shared_expert_intermediate_size=32,
                        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
                        linear_value_head_dim=16, full_attention_interval=2)),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config",
                    dict(SMALL, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2,
                         n_shared_experts=1, n_group=2, topk_group=1, moe_intermediate_size=32,
                         first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32,
                         qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16)),
    "gpt-oss": ("GptOssForCausalLM", "GptOssConfig",
                dict(GQA, head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                     sliding_window=8, pad_token_id=0, eos_token_id=1)),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", dict(GQA, head_dim=16)),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config",
               dict(GQA, head_dim=16, sliding_window=8, query_pre_attn_scalar=16)),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig",
               dict(GQA, head_dim=16, sliding_window=8, query_pre_attn_scalar=16)),
    "phi": ("PhiForCausalLM", "PhiConfig",
            dict(SMALL, embd_pdrop=0.0, resid_pdrop=0.0, attention_dropout=0.0)),
    "phi3": ("Phi3ForCausalLM", "Phi3Config",
             dict(GQA, pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", dict(GQA, pad_token_id=0)),
    "granite": ("GraniteForCausalLM", "GraniteConfig", GQA),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config",
                   dict(GQA, residual_dropout=0.0, embedding_dropout=0.0)),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", GQA),
    "falcon": ("FalconForCausalLM", "FalconConfig",
               dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)),
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL),
    "gptj": ("GPTJForCausalLM", "GPTJConfig",
             dict(vocab_size=VOCAB, n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8,
                  embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0)),
    "llama4": ("Llama4ForCausalLM", "Llama4TextConfig",
               dict(GQA, intermediate_size_mlp=96, head_dim=16, num_local_experts=4,
                    num_experts_per_tok=1, attention_chunk_size=16)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config",
             dict(vocab_size=VOCAB, n_embd=64, n_layer=2, n_head=4, n_positions=64,
                  embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0)),
    "opt": ("OPTForCausalLM", "OPTConfig",
            dict(vocab_size=VOCAB, hidden_size=64, ffn_dim=96, num_hidden_layers=2,
                 num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=64,
                 dropout=0.0)),
    "bloom": ("BloomForCausalLM", "BloomConfig",
              dict(vocab_size=VOCAB, hidden_size=64, n_layer=2, n_head=4)),
    "mamba": ("MambaForCausalLM", "MambaConfig",
              dict(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, state_size=8)),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config",
               dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, state_size=8,
                    num_heads=8, head_dim=16, n_groups=2, chunk_size=8)),
    "bert": ("BertForMaskedLM", "BertConfig", dict(SMALL, **NO_DROPOUT)),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", dict(SMALL, **NO_DROPOUT)),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig",
                   dict(vocab_size=VOCAB, dim=64, hidden_dim=96, n_layers=2, n_heads=4,
                        max_position_embeddings=64, dropout=0.0, attention_dropout=0.0)),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig",
                   dict(SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
                        sep_token_id=2)),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", dict(SMALL, embedding_size=64, **NO_DROPOUT)),
    "albert": ("AlbertForMaskedLM", "AlbertConfig",
               dict(SMALL, embedding_size=32, **NO_DROPOUT)),
    "convbert": ("ConvBertForMaskedLM", "ConvBertConfig",
                 dict(SMALL, embedding_size=64, **NO_DROPOUT)),
    "deberta-v2": ("DebertaV2ForMaskedLM", "DebertaV2Config", dict(SMALL, **NO_DROPOUT)),
}  # fmt: skip


def _decoder(model_name, config_name, fields, experts=None):
    def build():
        transformers = importlib.import_module("transformers")
        config = getattr(transformers, config_name)(**fields)
        ids = tokens()
        model = getattr(transformers, model_name)(config)
        if experts:
            model.set_experts_implementation(experts)
        return model, {"input_ids": ids, "labels": ids.clone()}, None

    return build


for _name, _spec in DECODERS.items():
    # Mixtures of experts with shapes that do not depend on data.
    _experts = "batched_mm" if _name in ("mixtral", "qwen3-moe") else None
    entry(_name, "transformers")(_decoder(*_spec, _experts))
    if _experts:
        entry(f"{_name}-grouped", "transformers")(_decoder(*_spec))  # transformers' default


@entry("llama-mask", "transformers")
def llama_mask():
    model, batch, loss = _decoder(*DECODERS["llama"])()
    return model, {**batch, "attention_mask": torch.ones(BATCH, SEQ, dtype=torch.int64)}, loss


@entry("llava", "transformers")
def llava():
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    image_token, patches = VOCAB - 1, 16
    vision = CLIPVisionConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=3,
                              num_attention_heads=4, image_size=32, patch_size=8)  # fmt: skip
    config = LlavaConfig(text_config=LlamaConfig(**GQA), vision_config=vision,
                         image_token_id=image_token, image_seq_length=patches)  # fmt: skip
    text = tokens(BATCH, 8) % image_token
    ids = torch.cat([torch.full((BATCH, patches), image_token), text], 1)
    batch = {"input_ids": ids, "pixel_values": torch.randn(BATCH, 3, 32, 32), "labels": ids.clone()}
    return LlavaForConditionalGeneration(config), batch, None


@entry("t5", "transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=VOCAB, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4,
                      dropout_rate=0.0, decoder_start_token_id=0)  # fmt: skip
    batch = {"input_ids": tokens(), "labels": tokens(BATCH, 8)}
    return T5ForConditionalGeneration(config), batch, None


@entry("bart", "transformers")
def bart():
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(vocab_size=VOCAB, d_model=64, encoder_layers=2, decoder_layers=2,
                        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
                        decoder_ffn_dim=96, dropout=0.0, max_position_embeddings=64,
                        pad_token_id=1, decoder_start_token_id=2)  # fmt: skip
    return BartForConditionalGeneration(config), {"input_ids": tokens(), "labels": tokens()}, None


@entry("whisper", "transformers")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(vocab_size=VOCAB, d_model=64, encoder_layers=2, decoder_layers=2,
                           encoder_attention_heads=4, decoder_attention_heads=4,
                           encoder_ffn_dim=96, decoder_ffn_dim=96, num_mel_bins=16,
                           max_source_positions=32, max_target_positions=32, dropout=0.0,
                           pad_token_id=0, bos_token_id=1, eos_token_id=2,
                           decoder_start_token_id=1)  # fmt: skip
    batch = {"input_features": torch.randn(BATCH, 16, 64), "labels": tokens()}
    return WhisperForConditionalGeneration(config), batch, None


def wav2vec2_config(**more):
    from transformers import Wav2Vec2Config

    return Wav2Vec2Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=96, conv_dim=(32, 32), conv_stride=(4, 2),
                          conv_kernel=(8, 3), num_feat_extract_layers=2,
                          num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
                          hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
                          feat_proj_dropout=0.0, final_dropout=0.0, layerdrop=0.0,
                          apply_spec_augment=False, mask_time_prob=0.0, **more)  # fmt: skip


@entry("wav2vec2", "transformers")
def wav2vec2():
    from transformers import Wav2Vec2ForSequenceClassification

    batch = {"input_values": torch.randn(BATCH, 512), "labels": torch.randint(0, 2, (BATCH,))}
    return Wav2Vec2ForSequenceClassification(wav2vec2_config()), batch, None


@entry("wav2vec2-ctc", "transformers")
def wav2vec2_ctc():
    """Labels of lengths of their own, padded with -100."""
    from transformers import Wav2Vec2ForCTC

    labels = torch.randint(1, 12, (BATCH, 8))
    labels[:, 5:] = torch.where(torch.arange(BATCH)[:, None] % 2 == 0, -100, labels[:, 5:])
    config = wav2vec2_config(vocab_size=12, ctc_zero_infinity=True)
    return Wav2Vec2ForCTC(config), {"input_values": torch.randn(BATCH, 512), "labels": labels}, None


#: name: (model class, config class, fields) of image classifiers of 3 x 32 x 32.
VISION = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
CLASSIFIERS = {
    "vit": ("ViTForImageClassification", "ViTConfig",
            dict(VISION, image_size=32, patch_size=8, num_labels=10, **NO_DROPOUT)),
    "deit": ("DeiTForImageClassification", "DeiTConfig",
             dict(VISION, image_size=32, patch_size=8, num_labels=10, **NO_DROPOUT)),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config",
               dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                    patch_size=8, num_labels=10, **NO_DROPOUT)),
    "swin": ("SwinForImageClassification", "SwinConfig",
             dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                  window_size=4, num_labels=10, drop_path_rate=0.0, **NO_DROPOUT)),
    "convnextv2": ("ConvNextV2ForImageClassification", "ConvNextV2Config",
                   dict(image_size=32, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2,
                        num_labels=10)),
}  # fmt: skip


def _classifier(model_name, config_name, fields):
    def build():
        transformers = importlib.import_module("transformers")
        config = getattr(transformers, config_name)(**fields)
        batch = {"pixel_values": torch.randn(BATCH, 3, 32, 32),
                 "labels": torch.randint(0, 10, (BATCH,))}  # fmt: skip
        return getattr(transformers, model_name)(config), batch, None

    return build


for _name, _spec in CLASSIFIERS.items():
    entry(_name, "transformers")(_classifier(*_spec))
