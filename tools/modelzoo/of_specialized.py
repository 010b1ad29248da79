"""Entries of transformers and PEFT whose branches and shapes depend on values of the batch: padding, the places of
images, masked patches. fsdpc.export specializes their steps."""

import torch

from .registry import BATCH, ENTRIES, SEQ, VOCAB, entry, tokens

_SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
_TEXT = dict(_SIZES, vocab_size=VOCAB, max_position_embeddings=64)
_IMAGES = dict(_SIZES, image_size=32, patch_size=8)
_NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@entry("videomae-pretraining", "transformers", specialize=True)
def _():
    from transformers import VideoMAEConfig, VideoMAEForPreTraining

    config = VideoMAEConfig(**_SIZES, image_size=32, patch_size=16, num_frames=4, decoder_hidden_size=32,
                            decoder_num_attention_heads=4, decoder_num_hidden_layers=1, decoder_intermediate_size=64,
                            **_NO_DROPOUT)  # fmt: skip
    patches = torch.arange(8).expand(BATCH, 8)
    batch = {"pixel_values": torch.randn(BATCH, 4, 3, 32, 32), "bool_masked_pos": patches % 2 == 1}
    return VideoMAEForPreTraining(config), batch, None


@entry("deberta-v3-classifier", "transformers", specialize=True)
def _():
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    config = DebertaV2Config(**_TEXT, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"],
                             share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False, num_labels=3,
                             pooler_dropout=0.0, **_NO_DROPOUT)  # fmt: skip
    batch = {"input_ids": tokens(), "attention_mask": torch.ones(BATCH, SEQ, dtype=torch.long),
             "labels": torch.randint(0, 3, (BATCH,))}  # fmt: skip
    return DebertaV2ForSequenceClassification(config), batch, None


@entry("kosmos2", "transformers", specialize=True)
def _():
    from transformers import Kosmos2Config, Kosmos2ForConditionalGeneration

    text = dict(vocab_size=VOCAB, embed_dim=64, layers=2, ffn_dim=96, attention_heads=4, max_position_embeddings=64,
                dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)  # fmt: skip
    config = Kosmos2Config(text_config=text, vision_config=_IMAGES, latent_query_num=4)
    places = torch.zeros(BATCH, SEQ, dtype=torch.bool)
    places[:, 2:6] = True
    batch = {"pixel_values": torch.randn(BATCH, 3, 32, 32), "input_ids": tokens(), "image_embeds_position_mask": places,
             "labels": tokens()}  # fmt: skip
    return Kosmos2ForConditionalGeneration(config), batch, None


@entry("smolvlm", "transformers", specialize=True)
def _():
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

    text = dict(_TEXT, model_type="llama", pad_token_id=0)
    config = SmolVLMConfig(text_config=text, vision_config=_IMAGES, scale_factor=2, image_token_id=3, pad_token_id=0)
    ids = torch.randint(4, VOCAB, (BATCH, SEQ))
    ids[:, 2:6] = config.image_token_id
    batch = {"input_ids": ids, "labels": tokens(), "pixel_values": torch.randn(BATCH, 1, 3, 32, 32),
             "pixel_attention_mask": torch.ones(BATCH, 1, 32, 32, dtype=torch.bool)}  # fmt: skip
    return SmolVLMForConditionalGeneration(config), batch, None


@entry("longformer", "transformers", specialize=True)
def _():
    from transformers import LongformerConfig, LongformerForMaskedLM

    config = LongformerConfig(**_TEXT, attention_window=8, pad_token_id=1, **_NO_DROPOUT)
    batch = {"input_ids": torch.randint(4, VOCAB, (BATCH, SEQ)), "attention_mask": torch.ones(BATCH, SEQ, dtype=torch.long),
             "labels": tokens()}  # fmt: skip
    return LongformerForMaskedLM(config), batch, None


@entry("llama-loha", "peft", specialize=True)
def _():
    from peft import LoHaConfig, get_peft_model

    model, batch, loss = ENTRIES["llama"].build()
    return get_peft_model(model, LoHaConfig(r=4, alpha=8, target_modules=["q_proj", "v_proj"])), batch, loss
