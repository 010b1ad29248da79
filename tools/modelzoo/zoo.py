"""Public models in small configurations, with random weights: name -> function that builds it.

Each function returns (model, batch, loss): the batch of one rank by the names of forward's
arguments, and fsdpc.export's loss. Dropout is off, so that losses can be compared bit for bit.
Nothing is downloaded.
"""

import importlib
import importlib.util

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SEQ, VOCAB = 2, 16, 128


class Entry:
    """family: the package that the entry needs."""

    def __init__(self, name, family, build):
        self.name, self.family, self.build = name, family, build

    def is_installed(self):
        return importlib.util.find_spec(self.family) is not None


ENTRIES = {}


def entry(name, family):
    def add(build):
        ENTRIES[name] = Entry(name, family, build)
        return build

    return add


def tokens(*shape):
    return torch.randint(0, VOCAB, shape or (BATCH, SEQ))


def cross_entropy(output, batch):
    """Of classifiers: the logits, alone or in an output's or dict's field."""
    if hasattr(output, "logits"):
        output = output.logits
    return F.cross_entropy(output.float(), batch["labels"])


def mean_square(output, batch):
    return (output[0] if isinstance(output, tuple) else output).square().mean()


# ---------------------------------------------------------------- transformers

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


@entry("t5", "transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=VOCAB, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4,
                      dropout_rate=0.0, decoder_start_token_id=0)  # fmt: skip
    batch = {"input_ids": tokens(), "labels": tokens(BATCH, 8)}
    return T5ForConditionalGeneration(config), batch, None


# ---------------------------------------------------------------- PEFT


def _lora(base, targets, **options):
    """Adapters of rank 4 on the frozen base; those of B begin with zeros, as PEFT makes them."""

    def build():
        from peft import LoraConfig, get_peft_model

        model, batch, loss = ENTRIES[base].build()
        config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=targets, **options)
        return get_peft_model(model, config), batch, loss

    return build


LORA = {
    "llama-lora": _lora("llama", ["q_proj", "v_proj"]),
    "llama-lora-all": _lora("llama", "all-linear", modules_to_save=["lm_head"]),
    "qwen3-dora": _lora("qwen3", ["q_proj", "down_proj"], use_dora=True),
    "gpt2-lora": _lora("gpt2", ["c_attn"], fan_in_fan_out=True),
}
for _name, _build in LORA.items():
    entry(_name, "peft")(_build)


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


@entry("wav2vec2", "transformers")
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    config = Wav2Vec2Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                            intermediate_size=96, conv_dim=(32, 32), conv_stride=(4, 2),
                            conv_kernel=(8, 3), num_feat_extract_layers=2,
                            num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
                            hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
                            feat_proj_dropout=0.0, final_dropout=0.0, layerdrop=0.0,
                            apply_spec_augment=False, mask_time_prob=0.0)  # fmt: skip
    batch = {"input_values": torch.randn(BATCH, 512), "labels": torch.randint(0, 2, (BATCH,))}
    return Wav2Vec2ForSequenceClassification(config), batch, None


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

# ---------------------------------------------------------------- torchvision and timm


def _images(make, size):
    def build():
        batch = {"x": torch.randn(BATCH, 3, size, size), "labels": torch.randint(0, 10, (BATCH,))}
        return make(), batch, cross_entropy

    return build


#: name: (size of images, options)
TORCHVISION = {
    "resnet18": (32, {}), "resnext50_32x4d": (32, {}), "mobilenet_v2": (64, dict(dropout=0.0)),
    "mobilenet_v3_small": (32, dict(dropout=0.0)), "efficientnet_b0":
    (32, dict(dropout=0.0, stochastic_depth_prob=0.0)), "densenet121": (32, {}),
    "squeezenet1_1": (64, dict(dropout=0.0)), "shufflenet_v2_x0_5": (32, {}),
    "mnasnet0_5": (32, dict(dropout=0.0)), "regnet_y_400mf": (32, {}), "convnext_tiny": (32, dict(stochastic_depth_prob=0.0)),
    "googlenet": (64, dict(aux_logits=False, init_weights=False, dropout=0.0)),
}  # fmt: skip


def _torchvision(name, options):
    def make():
        models = importlib.import_module("torchvision.models")
        return getattr(models, name)(num_classes=10, **options)

    return make


for _name, (_size, _options) in TORCHVISION.items():
    entry(f"torchvision/{_name}", "torchvision")(_images(_torchvision(_name, _options), _size))

#: name: options
TIMM = {
    "vit_tiny_patch16_224": dict(img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4),
    "deit3_small_patch16_224": dict(img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4),
    "mixer_s16_224": dict(img_size=32),
    "gmlp_ti16_224": dict(img_size=32),
    "eva02_tiny_patch14_224": dict(img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4),
    "convnext_atto": dict(depths=(1, 1, 1, 1), dims=(16, 32, 48, 64)),
    "resnet10t": {}, "efficientnet_lite0": {}, "mobilenetv3_small_050": dict(drop_rate=0.0),
    "poolformer_s12": {}, "ghostnet_050": dict(drop_rate=0.0),
    "regnetx_002": {}, "coatnet_nano_rw_224": dict(img_size=32),
}  # fmt: skip


def _timm(name, options):
    def make():
        return importlib.import_module("timm").create_model(name, num_classes=10, **options)

    return make


for _name, _options in TIMM.items():
    entry(f"timm/{_name}", "timm")(_images(_timm(_name, _options), 32))

# ---------------------------------------------------------------- torch.nn alone


class Tagger(nn.Module):
    """A recurrent or attention layer between an embedding and a head."""

    def __init__(self, body, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 32)
        self.body = body
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        hidden = self.body(self.embedding(x))
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return self.head(hidden.mean(1))


def _tagger(make, width=32):
    def build():
        batch = {"x": tokens(), "labels": torch.randint(0, 10, (BATCH,))}
        return Tagger(make(), width), batch, cross_entropy

    return build


def _encoder_layer(**options):
    return lambda: nn.TransformerEncoderLayer(
        32, 4, 64, batch_first=True, **{"dropout": 0.0, **options}
    )


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class EncoderDecoder(nn.Transformer):
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return super().forward(x, x, tgt_mask=mask, tgt_is_causal=True)


class Convolutions(nn.Module):
    """What torch.nn has for images, in channels-last."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU())
        self.block = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.GroupNorm(4, 16), nn.Conv2d(16, 32, 1),
            nn.SiLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(32, 16, 2, stride=2), nn.AvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = x.to(memory_format=self.layout)
        return self.head(self.block(self.stem(x)).mean((2, 3)))


class LineConvolutions(nn.Module):
    """Convolutions over one and three dimensions, of tensors that lie channels-last: tokens."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(32, 32, 4, padding=3, groups=32)
        self.up = nn.ConvTranspose1d(32, 16, 2, stride=2)
        self.volume = nn.Conv3d(16, 32, 3, padding=1)

    def forward(self, x):
        lines = self.up(self.mix(x.transpose(1, 2)).relu())
        return self.volume(lines[:, :, :32].unflatten(2, (4, 4, 2))).flatten(2).transpose(1, 2)


class Reader(nn.Module):
    """Uses its second input twice, as a decoder's block does with an encoder's output."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x, memory):
        return x + (x * self.key(memory)).softmax(-1) * self.value(memory)


class Readers(nn.Module):
    """Blocks that share an input: the order of its gradients depends on which modules are groups."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(32, 32)
        self.blocks = nn.ModuleList(Reader() for _ in range(3))

    def forward(self, x):
        memory = self.encoder(x).tanh()
        for block in self.blocks:
            x = block(x, memory)
        return x + memory


class Experts(nn.Module):
    """Each token goes through the expert that its router chooses, by products of groups of rows."""

    def __init__(self, experts=4):
        super().__init__()
        self.router = nn.Linear(32, experts)
        self.up = nn.Parameter(torch.randn(experts, 64, 32) / 8)
        self.down = nn.Parameter(torch.randn(experts, 32, 64) / 8)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weight, choice = self.router(tokens).softmax(-1).max(-1)
        order = choice.argsort(stable=True)
        counts = F.one_hot(choice, self.up.shape[0]).sum(0)
        ends = counts.cumsum(0).to(torch.int32)
        hidden = torch._grouped_mm(tokens[order], self.up.transpose(1, 2), ends).relu()
        mixed = torch._grouped_mm(hidden, self.down.transpose(1, 2), ends)
        return x + (mixed[order.argsort()] * weight.unsqueeze(1)).view_as(x)


LAYERS = {
    "nn/Experts": _tagger(Experts),
    "nn/LSTM": _tagger(lambda: nn.LSTM(32, 32, 2, batch_first=True)),
    "nn/LSTM-bidirectional": _tagger(
        lambda: nn.LSTM(32, 16, batch_first=True, bidirectional=True)
    ),
    "nn/GRU": _tagger(lambda: nn.GRU(32, 32, 2, batch_first=True)),
    "nn/RNN": _tagger(lambda: nn.RNN(32, 32, batch_first=True)),
    "nn/MultiheadAttention": _tagger(lambda: SelfAttention(32, 4, batch_first=True)),
    "nn/TransformerEncoderLayer": _tagger(_encoder_layer()),
    "nn/TransformerEncoderLayer-norm-first": _tagger(_encoder_layer(norm_first=True)),
    "nn/TransformerEncoder": _tagger(
        lambda: nn.TransformerEncoder(_encoder_layer()(), 2, enable_nested_tensor=False)
    ),
    "nn/Transformer": _tagger(
        lambda: EncoderDecoder(32, 4, 1, 1, 64, dropout=0.0, batch_first=True)
    ),
    "nn/Readers": _tagger(Readers),
    "nn/PReLU-RMSNorm": _tagger(
        lambda: nn.Sequential(nn.Linear(32, 32), nn.PReLU(), nn.RMSNorm(32))
    ),
    "nn/LineConvolutions": _tagger(LineConvolutions),
    "nn/Convolutions": _images(lambda: Convolutions(torch.contiguous_format), 16),
    "nn/Convolutions-channels-last": _images(lambda: Convolutions(torch.channels_last), 16),
}
for _name, _build in LAYERS.items():
    entry(_name, "torch")(_build)


def build(name, seed=0):
    """(model in training mode, batch, loss) of an entry, deterministic in the seed."""
    torch.manual_seed(seed)
    model, batch, loss = ENTRIES[name].build()
    model.train()
    first = next(iter(batch))
    names = list(batch)
    # Classifiers take their images or tokens first, whatever the argument is called.
    if first == "x" and loss is not None:
        import inspect

        argument = next(iter(inspect.signature(model.forward).parameters))
        batch = {argument if name == "x" else name: batch[name] for name in names}
    return model, batch, loss


def build_step(name):
    """The same as a module whose forward takes the batch by name and returns the loss."""
    import fsdpc

    model, batch, loss = build(name)
    if getattr(getattr(model, "config", None), "use_cache", None):
        model.config.use_cache = False
    return fsdpc.as_step(model, batch, loss)
