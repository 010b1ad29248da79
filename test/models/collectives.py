"""Models with collectives over all ranks in their losses."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
import torch.nn as nn
import torch.nn.functional as F
from config import Config
from derivatives import Block
from torch import Tensor
from torch.distributed import all_gather, all_reduce, broadcast  # bound before anything replaces them


class Encoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.layers = nn.ModuleList([Block(config.dim) for _ in range(config.layers)])
        self.head = nn.Linear(config.dim, config.classes)

    def encode(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def encode_pair(self, x: Tensor, targets: Tensor):
        """The features of the batch and of another view of it, in one call of each layer."""
        return self.encode(torch.cat([x, x.flip(-1) + targets[:, None] / 8])).chunk(2)


class Contrastive(Encoder):
    """As CLIP: features of all ranks, and labels that depend on the rank."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.logit_scale = nn.Parameter(torch.tensor([1.5]))

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        first, second = (F.normalize(side, dim=-1) for side in self.encode_pair(x, targets))
        every_first, every_second = (torch.cat(differentiable.all_gather(side)) for side in (first, second))
        labels = torch.arange(len(x)) + len(x) * dist.get_rank()
        scale = self.logit_scale.exp()
        return (F.cross_entropy(scale * first @ every_second.t(), labels)
                + F.cross_entropy(scale * second @ every_first.t(), labels)) / 2  # fmt: skip


class GatherLayer(torch.autograd.Function):
    """As in repositories of SimCLR."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        gradient[:] = gradients[dist.get_rank()]
        return gradient


class FullGatherLayer(torch.autograd.Function):
    """As in VICReg: the gradients of all ranks."""

    @staticmethod
    def forward(ctx, x):
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        every = torch.stack(gradients)
        all_reduce(every)
        return every[dist.get_rank()]


class Covariance(Encoder):
    """As VICReg: variances and covariances of the features of all ranks."""

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        first, second = self.encode_pair(x, targets)
        features, others = torch.cat(FullGatherLayer.apply(first)), torch.cat(GatherLayer.apply(second))
        centered = features - features.mean(0)
        spread = F.relu(1 - torch.sqrt(centered.var(0) + 1e-4)).mean()
        covariance = (centered.t() @ centered) / (len(centered) - 1)
        return F.mse_loss(features, others) + spread + (covariance - covariance.diag().diag()).square().sum() / 8


class Tokens(Encoder):
    """The mean over the samples of all ranks that have a label, as FSDP2's mean of gradients needs it."""

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        labels = torch.where(targets % 3 == 0, -100, targets)
        count = (labels != -100).sum()
        if dist.is_initialized():
            all_reduce(count)
        total = F.cross_entropy(self.encode(x), labels, ignore_index=-100, reduction="sum")
        return total * dist.get_world_size() / count.clamp(min=1)


class Centered(Encoder):
    """As DINO: a center of the targets, which follows the mean of all ranks."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.register_buffer("center", torch.zeros(1, config.classes))

    @torch.no_grad()
    def update(self, outputs: Tensor) -> None:
        total = torch.sum(outputs, dim=0, keepdim=True)
        all_reduce(total)
        total = total / (len(outputs) * dist.get_world_size())
        self.center = self.center * 0.9 + total * 0.1

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        outputs, teacher = self.encode_pair(x, targets)
        teacher = teacher.detach()
        loss = torch.sum(-F.softmax((teacher - self.center) * 2, -1) * F.log_softmax(outputs, -1), -1).mean()
        self.update(teacher)
        return loss


class Statistics(Encoder):
    """Scales of the features by least, largest and mean values of all ranks."""

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        outputs = self.encode(x)
        least, largest = outputs.detach().amin(0), outputs.detach().amax(0)
        works = [all_reduce(least, dist.ReduceOp.MIN, async_op=True),
                 all_reduce(largest, op=dist.ReduceOp.MAX, async_op=True)]  # fmt: skip
        for work in works:
            work.wait()
        mean = functional.all_reduce(outputs.mean(0), "sum", dist.group.WORLD) / dist.get_world_size()
        spread = outputs.detach().std(0)
        all_reduce(spread, dist.ReduceOp.AVG)
        seen = torch.zeros(outputs.shape[1], dtype=torch.bool)
        seen[targets] = True
        all_reduce(seen, dist.ReduceOp.MAX)
        first = targets.clone()
        broadcast(first, 0)
        scaled = (outputs - mean) / (largest - least + spread + 1)
        return F.cross_entropy(torch.where(seen, scaled, scaled - 1), targets) + 0.1 * F.cross_entropy(scaled, first)
