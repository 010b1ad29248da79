"""The sizes of a test model."""

import dataclasses
from typing import List, Optional

import torch


@dataclasses.dataclass
class Config:
    """Sizes of a model. A field that a model does not have is ignored by it; None means the model's
    own default."""

    model: str = "llama"  # one of MODELS
    dim: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: Optional[int] = None  # llama, moe: key/value heads; default heads / 2
    ffn: Optional[int] = None  # hidden width; default 4 dim, llama, moe: 3 dim
    vocab: int = 128  # llama, moe, gpt2: tokens
    seq: int = 16  # llama, moe, gpt2: tokens per sample; acoustic: frames
    batch: int = 4  # samples (of one rank)
    classes: int = 10  # mlp, vit, convnet, acoustic
    image: int = 16  # vit, convnet: height and width
    channels: int = 3  # vit, convnet
    patch: int = 4  # vit
    experts: int = 4  # moe: experts of a block
    active: int = 2  # moe: experts per token, on average
    dropout: float = 0.0  # gpt2, vit
    norm: str = "layer"  # mlp: layer or rms
    dtype: str = "f32"  # of parameters and floating-point inputs: f32 or bf16
    compute: Optional[str] = None  # llama: bf16 under f32 parameters; default dtype
    seed: int = 0
    #: Patterns of parameters that require no gradient.
    frozen: List[str] = dataclasses.field(default_factory=list)


DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
}
