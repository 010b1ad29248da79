"""flex_attention in a forward: attention whose scores and mask are functions of positions, for which torch compiles a kernel.
Here scaled_dot_product_attention gets the mask as a tensor; functions of scores take the formula of torch's eager version."""

import contextlib
import math
import warnings

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.flex_attention import math_attention
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.attention import flex_attention as flex
from torch.nn.functional import scaled_dot_product_attention

from . import transforms


class _Mask:
    """`scores`: added to the scores of queries and keys; 0 where a query attends to a key. `rows`: whether a query attends to
    any; None if all do."""

    def __init__(self, block_mask, query, key, constants):
        batch, heads = block_mask.kv_num_blocks.shape[:2]
        attends = flex.create_mask(block_mask.mask_mod, batch, heads, query.size(-2), key.size(-2), query.device)
        known = constants.find(attends, get_proxy_mode().tracer)
        self.is_causal = known is not None and known.equal(torch.ones_like(known).tril())
        self.rows = None
        if known is None or not known.any(-1).all():
            self.rows = attends.any(-1, keepdim=True)
            attends = attends | ~self.rows  # kernels differ in the softmax of no scores
        self.scores = torch.zeros_like(attends, dtype=query.dtype).masked_fill(~attends, -math.inf)


def _is_identity(score_mod):
    """Whether a function returns the score itself, as one for several models does for those without its options."""
    with transforms.unrecorded(), TransformGetItemToIndex():
        score, position = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        return score_mod(score, position, position, position, position) is score


class _Attention:
    """The calls of one export."""

    def __init__(self, constants):
        self._constants = constants
        self._masks = []  # with what they are of: the blocks of a model share a mask

    def _mask_of(self, block_mask, query, key):
        lengths = (query.size(-2), key.size(-2))
        if block_mask.shape[-2:] != lengths:
            raise ValueError(f"the block mask is of {block_mask.shape[-2:]} queries and keys, but there are {lengths}")
        source = (block_mask, query.dtype, get_proxy_mode().tracer)
        for known, mask in self._masks:
            if all(a is b for a, b in zip(known, source)):
                return mask
        mask = _Mask(block_mask, query, key, self._constants)
        self._masks.append((source, mask))
        return mask

    def _attend(self, query, key, value, block_mask, scale, enable_gqa):
        if key.size(0) != query.size(0):
            key, value = (tensor.expand(query.size(0), -1, -1, -1) for tensor in (key, value))
        options = {"scale": scale, "enable_gqa": enable_gqa}
        if block_mask is None:
            return scaled_dot_product_attention(query, key, value, **options)
        mask = self._mask_of(block_mask, query, key)
        if mask.is_causal:
            return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
        if query.size(1) != key.size(1):  # few kernels for GPUs take a mask and heads in groups
            key, value = (tensor.repeat_interleave(query.size(1) // key.size(1), 1) for tensor in (key, value))
        result = scaled_dot_product_attention(query, key, value, attn_mask=mask.scores, scale=scale)
        return result if mask.rows is None else torch.where(mask.rows, result, 0)

    def __call__(self, query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux):
        sums_wanted = return_lse or return_aux is not None
        is_plain = _is_identity(score_mod or flex._identity)
        if is_plain:
            result = self._attend(query, key, value, block_mask, scale, enable_gqa)
        if sums_wanted or not is_plain:
            mask = (block_mask or flex._create_empty_block_mask(query, key)).as_tuple()
            scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
            scored, *rest = math_attention(query, key, value, score_mod or flex._identity, mask, scale, {})
            result = result if is_plain else scored
            lse, most = (tensor * math.log(2) for tensor in rest)
        if return_aux is not None:
            return result, flex.AuxOutput(lse if return_aux.lse else None, most if return_aux.max_scores else None)
        return (result, lse) if return_lse else result


#: The attention of the export that runs.
_running = None


def _call(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
          kernel_options=None, *, return_aux=None):  # fmt: skip
    from fsdpc.flex import _running  # this code runs among the names of torch's function

    return _running(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux)


@contextlib.contextmanager
def expressed(constants):
    """In this context flex_attention, also a compiled one, runs operators that torch exports. Models hold the function under
    names of their own, so its code is replaced. `constants`: those of constants.py."""
    global _running
    before, code = _running, flex.flex_attention.__code__
    _running, flex.flex_attention.__code__ = _Attention(constants), _call.__code__
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.compile is ignored when called inside torch.export")
            yield
    finally:
        _running, flex.flex_attention.__code__ = before, code
