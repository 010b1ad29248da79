"""An acoustic model: a convolution over frames, blocks of bidirectional LSTMs and the CTC loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from config import Config
from torch import Tensor


class AcousticBlock(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.lstm = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.lstm(self.norm(x))[0]


class Acoustic(nn.Module):
    """`frames`: of config.dim features, config.seq of them, padded behind `frame_lengths`; `labels`: from 1 to
    config.classes - 1, padded with 0 behind `label_lengths`. 0 is the blank."""

    def __init__(self, config: Config):
        super().__init__()
        self.front = nn.Conv1d(config.dim, config.dim, kernel_size=3, stride=2, padding=1)
        self.layers = nn.ModuleList([AcousticBlock(config.dim) for _ in range(config.layers)])
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, frames: Tensor, labels: Tensor, frame_lengths: Tensor, label_lengths: Tensor) -> Tensor:
        x = F.gelu(self.front(frames.transpose(1, 2))).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        log_probs = F.log_softmax(self.head(x), dim=-1, dtype=torch.float32).transpose(0, 1)
        return F.ctc_loss(log_probs, labels, (frame_lengths + 1) // 2, label_lengths, zero_infinity=True)
