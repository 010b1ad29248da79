"""torch.export, so that the program is what training computes."""

import contextlib
import io
import os
import sys
import traceback

import torch
from torch._meta_registrations import _create_grouped_mm_output_tensor
from torch._subclasses import fake_impls
from torch.fx.experimental import proxy_tensor

from . import checks, constants, functions, operators
from .errors import ExportError


@contextlib.contextmanager
def without_cache(model):
    """transformers: keys and values of a training step are for nobody later."""
    config = getattr(model, "config", None)
    before = getattr(config, "use_cache", None)
    if before:
        config.use_cache = False
    try:
        yield
    finally:
        if before:
            config.use_cache = before


@contextlib.contextmanager
def _products_of_groups():
    """torch's kernel takes every dtype, and its rule of shapes, which is asked here, bf16 only."""
    operator = torch.ops.aten._grouped_mm.default
    rules = fake_impls.op_implementations_dict
    before = rules.get(operator)

    def make(mode, operator, left, right, offs=None, bias=None, out_dtype=None):
        with mode:
            return _create_grouped_mm_output_tensor(left, right, offs, out_dtype)

    rules[operator] = make
    try:
        yield
    finally:
        if before is None:
            del rules[operator]
        else:
            rules[operator] = before


@contextlib.contextmanager
def _as_in_training():
    """The model is told that nobody compiles or exports it, and takes the path that it takes in
    training; else it may prepare for other shapes and consumers (a mask that attends to everything,
    say, where eager attention gets none), and other kernels run. torch itself is told the truth."""
    asked = {name: getattr(torch.compiler, name) for name in ("is_exporting", "is_compiling")}

    def hide(function):
        def answer():
            asking = sys._getframe(1).f_globals.get("__name__", "")
            return asking.split(".")[0] == "torch" and function()

        return answer

    for name, function in asked.items():
        setattr(torch.compiler, name, hide(function))
    try:
        yield
    finally:
        for name, function in asked.items():
            setattr(torch.compiler, name, function)


@contextlib.contextmanager
def _first_names():
    """A module that the model holds under several names is known by the first, as in named_modules(), and its
    parameters are. torch's tracer would follow the attributes by which it is reached, and lose those of containers."""
    tracer = proxy_tensor._ModuleStackTracer
    begin = tracer.__init__

    def without_proxies(self, root):
        begin(self, root)
        self.enable_attr_proxy = False

    tracer.__init__ = without_proxies
    try:
        yield
    finally:
        tracer.__init__ = begin


#: What they say of values holds, or the model's own run on these values fails: the step does without.
_ASSERTIONS = {"aten._assert_scalar.default", "aten._assert_async.default", "aten._assert_async.msg",
               "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"}  # fmt: skip


def _is_needed(node):
    """Whether somebody asks for the result, or the operator writes or draws random numbers."""
    if node.op != "call_function" or node.users:
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return isinstance(node.target, torch._ops.HigherOrderOperator)
    if str(node.target) in _ASSERTIONS:
        return False
    return node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags


def _drop_checks(program):
    """Without assertions of values that are known at run time only, and what is computed for such checks and for
    nothing else: torch cannot save some of it, and a step does not read values back."""
    for module in program.graph_module.modules():
        graph = getattr(module, "graph", None)
        for node in reversed(list(graph.nodes)) if graph else ():
            if not _is_needed(node):
                graph.erase_node(node)
    return program


def run_export(step, batch, quiet):
    return _drop_checks(_run_export(step, batch, quiet))


def _export_once(step, batch):
    """Prints nothing where it fails: torch would print the whole program up to there."""
    told = io.StringIO()
    with (checks.holding(), constants.known(), _first_names(), functions.kept() as recorder,
          operators.traced(recorder), contextlib.redirect_stderr(told)):  # fmt: skip
        program = torch.export.export(step, (), batch, strict=False)
    functions.place(program)
    sys.stderr.write(told.getvalue())
    return program


def _run_export(step, batch, quiet):
    try:
        with _as_in_training(), constants.as_real_tensors(), _products_of_groups():
            return _export_once(step, batch)
    except ExportError:
        raise
    except Exception as error:
        first = error
    # Some models leave out branches on values where they are exported.
    try:
        program = _export_once(step, batch)
    except ExportError:
        raise
    except Exception:
        raise ExportError(_explain(first)) from first
    if not quiet:
        print("fsdpc.export: note: the path of training cannot be exported, that of exports is taken, "
              f"whose numbers may round differently: {str(first).splitlines()[0]}",
              file=sys.stderr)  # fmt: skip
    return program


#: What torch.export refuses, and the usual remedy: words of its error, advice.
_REMEDIES = (
    ("data-dependent", "the shape or the path depends on values: write it with torch.where and "
     "fixed shapes; mixtures of experts of transformers: model.set_experts_implementation("
     "'batched_mm')"),
    ("unbacked", "a shape depends on values: write the model with fixed shapes"),
    ("vmap", "build the model with attn_implementation='eager' or 'sdpa'"),
    ("Mutating", "a buffer or attribute is assigned in forward: register it as a buffer and write "
     "it in place, or compute it before"),
)  # fmt: skip


def _explain(error):
    text = str(error).strip() or type(error).__name__
    advice = next((advice for words, advice in _REMEDIES if words in text), None)
    where = _find_place(error)
    return (f"torch.export refuses the model: {text.splitlines()[0]}"
            + (f"\n  at {where}" if where else "") + (f"\n  remedy: {advice}" if advice else ""))  # fmt: skip


def _find_place(error):
    """The model's line that torch was running; None if there is none."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith((*own, "<"))]  # fmt: skip
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def check_operators(program):
    """The binary has no Python: an operator that is defined in Python has no kernel there."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if getattr(node.target, "_defined_in_python", False):
                raise ExportError(f"operator '{node.target}' is defined in Python, and the training binary has none: "
                                  "define it by torch.library.custom_op, without mutates_args")  # fmt: skip
