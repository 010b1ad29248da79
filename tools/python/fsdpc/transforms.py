"""Transforms of functions in a forward: torch.vmap and torch.func.grad. torch.export would record the calls of
their machinery, which only Python can run. Here the operators that they run in the end become operators of the program."""

import contextlib

import torch
from torch import _vmap_internals
from torch._export import utils
from torch._functorch import apis, eager_transforms
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx
from torch.utils import _pytree as pytree

from .effects import refuse
from .replacing import replaced

#: The functions behind torch.vmap, and behind torch.func.grad and grad_and_value.
_TRANSFORMS = ((apis, "vmap_impl"), (eager_transforms, "grad_impl"), (eager_transforms, "grad_and_value_impl"))
#: Functions behind other transforms; whether they are refused inside of a transform, too; and what to do instead. Calls of
#: a vjp are in several parts.
_REFUSED = (
    (eager_transforms, "_vjp_with_argnums", False, "torch.func.vjp or jacrev",
     "take torch.func.grad, or torch.vmap around the whole"),
    (eager_transforms, "_jvp_with_argnums", True, "forward-mode differentiation (torch.func.jvp, jacfwd, hessian)",
     "take torch.func.grad, or torch.vmap of jacrev"),
    (_vmap_internals, "_vmap", True, "a batch of gradients (is_grads_batched, vectorize=True)",
     "take torch.vmap of torch.func.grad or jacrev"),
)  # fmt: skip


@contextlib.contextmanager
def unrecorded():
    """In this context operators are not recorded while torch exports."""
    with disable_proxy_modes_tracing(), replaced(utils, "_maybe_find_pre_dispatch_tf_mode_for_export", lambda: None):
        yield


def _record(transform, arguments, named):
    """Runs the transform on the tensors among its arguments. Returns its result by operators that are recorded."""
    leaves, structure = pytree.tree_flatten((arguments, named))
    tensors = {at: leaf for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    results = []

    def run(*values):
        given = {**dict(enumerate(leaves)), **dict(zip(tensors, values))}
        arguments, named = pytree.tree_unflatten(list(given.values()), structure)
        results[:] = pytree.tree_flatten(transform(*arguments, **named))
        return results[0]

    # The function may read other tensors, which the graph then has as attributes.
    with unrecorded():
        graph = make_fx(run, _allow_non_fake_inputs=True, record_stack_traces=True)(*tensors.values())
    graph.graph.eliminate_dead_code()
    with traceback.preserve_node_meta():  # lines of the function
        return pytree.tree_unflatten(torch.fx.Interpreter(graph).run(*tensors.values()), results[1])


def _recorded(original, functions):
    def transform(*arguments, **named):
        if functions.is_inside or get_proxy_mode() is None:
            return original(*arguments, **named)
        functions.is_inside = True
        try:
            return _record(original, arguments, named)
        finally:
            functions.is_inside = False

    return transform


def _refused(original, functions, refuses_inside, what, remedy):
    def transform(*arguments, **named):
        if refuses_inside or not functions.is_inside:
            refuse(f"{what} inside of the forward is not supported", remedy)
        return original(*arguments, **named)

    return transform


@contextlib.contextmanager
def recorded(functions):
    """In this context transforms are recorded as the operators that they run. `functions`: the recorder of functions.py,
    which records nothing inside of them."""
    with contextlib.ExitStack() as stack:
        for owner, name in _TRANSFORMS:
            stack.enter_context(replaced(owner, name, _recorded(getattr(owner, name), functions)))
        for owner, name, *rest in _REFUSED:
            stack.enter_context(replaced(owner, name, _refused(getattr(owner, name), functions, *rest)))
        yield
