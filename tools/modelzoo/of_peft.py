"""Entries of the package PEFT: adapters on frozen bases."""

from .registry import BF16, ENTRIES, entry


def _lora(base, targets, **options):
    """Adapters of rank 4 on the frozen base; the matrices B begin with zeros, as PEFT makes
    them."""

    def build():
        from peft import LoraConfig, get_peft_model

        model, batch, loss = ENTRIES[base].build()
        config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=targets, **options)
        return get_peft_model(model, config), batch, loss

    return build


def _on_bf16():
    """The base in bf16; PEFT makes the adapters in fp32."""
    import torch
    from peft import LoraConfig, get_peft_model

    model, batch, loss = ENTRIES["llama"].build()
    config = LoraConfig(r=4, lora_dropout=0.0, target_modules=["q_proj", "v_proj"])
    return get_peft_model(model.to(torch.bfloat16), config), batch, loss


entry("llama-lora-on-bf16", "peft", mixed_precision=BF16)(_on_bf16)


LORA = {
    "llama-lora": _lora("llama", ["q_proj", "v_proj"]),
    "llama-lora-all": _lora("llama", "all-linear", modules_to_save=["lm_head"]),
    "qwen3-dora": _lora("qwen3", ["q_proj", "down_proj"], use_dora=True),
    "gpt2-lora": _lora("gpt2", ["c_attn"], fan_in_fan_out=True),
}
for _name, _build in LORA.items():
    entry(_name, "peft")(_build)
