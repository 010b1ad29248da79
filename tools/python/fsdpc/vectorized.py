"""torch.vmap in a forward. torch.export would record the calls of its machinery, which only Python can run. Here the
operators on whole batches, which vmap runs in the end, become operators of the program."""

import contextlib

import torch
from torch._export import utils
from torch._functorch import apis
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx
from torch.utils import _pytree as pytree

from .effects import replaced


def _record(vmap, arguments):
    """Runs vmap(*arguments) on the tensors among its arguments. Returns its result by operators that are recorded."""
    leaves, structure = pytree.tree_flatten(arguments)
    tensors = {at: leaf for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    results = []

    def run(*values):
        given = {**dict(enumerate(leaves)), **dict(zip(tensors, values))}
        results[:] = pytree.tree_flatten(vmap(*pytree.tree_unflatten(list(given.values()), structure)))
        return results[0]

    # The function may read other tensors, which the graph then has as attributes.
    with disable_proxy_modes_tracing(), replaced(utils, "_maybe_find_pre_dispatch_tf_mode_for_export", lambda: None):
        graph = make_fx(run, _allow_non_fake_inputs=True, record_stack_traces=True)(*tensors.values())
    graph.graph.eliminate_dead_code()
    with traceback.preserve_node_meta():  # lines of the function
        return pytree.tree_unflatten(torch.fx.Interpreter(graph).run(*tensors.values()), results[1])


@contextlib.contextmanager
def recorded():
    """In this context vmap is recorded as the operators that it runs."""
    original = apis.vmap_impl
    is_inside = False  # True while an outer vmap is recorded

    def vmap(function, in_dims, out_dims, randomness, chunk_size, *arguments, **named):
        nonlocal is_inside

        def run(arguments, named):
            return original(function, in_dims, out_dims, randomness, chunk_size, *arguments, **named)

        if is_inside or get_proxy_mode() is None:
            return run(arguments, named)
        is_inside = True
        try:
            return _record(run, (arguments, named))
        finally:
            is_inside = False

    with replaced(apis, "vmap_impl", vmap):
        yield
