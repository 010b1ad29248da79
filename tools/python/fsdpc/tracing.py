"""Runs torch.export so that the program computes what training computes."""

import contextlib
import io
import linecache
import os
import sys
import traceback

import torch
from torch._decomp import decompositions
from torch._meta_registrations import _create_grouped_mm_output_tensor
from torch._subclasses import fake_impls
from torch.fx.experimental import proxy_tensor

from . import (attention, checks, collectives, ctc, derivatives, effects, flex, functions, numbers, operators, reads,
               specialization, state, transforms)  # fmt: skip
from .errors import ExportError, note
from .ranks import is_collective
from .replacing import replaced


@contextlib.contextmanager
def without_cache(model):
    """Turns off the cache of keys and values in models of transformers: a training step does not
    use it."""
    config = getattr(model, "config", None)
    before = getattr(config, "use_cache", None)
    if before:
        config.use_cache = False
    try:
        yield
    finally:
        if before:
            config.use_cache = before


def _grouped_product(mode, operator, left, right, offs=None, bias=None, out_dtype=None):
    """In every dtype: torch's kernel takes them all, but its rule, which is used here, only bf16."""
    with mode:
        return _create_grouped_mm_output_tensor(left, right, offs, out_dtype)


#: Rules of shapes of operators, in the place of torch's.
_RULES_OF_SHAPES = {
    torch.ops.aten._grouped_mm.default: _grouped_product,
    torch.ops.aten._ctc_loss.Tensor: ctc.shapes_of_losses,
}


@contextlib.contextmanager
def rules_of_shapes():
    """In this context torch exports operators for which it has no rule, or one that refuses what training computes."""
    rules = fake_impls.op_implementations_dict
    before = dict(rules)
    rules.update(_RULES_OF_SHAPES)
    try:
        with replaced(torch, "ctc_loss", ctc.ctc_loss):
            yield
    finally:
        rules.clear()
        rules.update(before)


@contextlib.contextmanager
def _states_of_lstm():
    """torch's rule of shapes leaves a dimension of size 1 in an LSTM's last states (it takes out another one)."""
    original = decompositions.one_layer_lstm

    def one_layer_lstm(*arguments, **options):
        out, states = original(*arguments, **options)
        return out, tuple(state.squeeze(0) if state.dim() == 3 else state for state in states)

    decompositions.one_layer_lstm = one_layer_lstm
    try:
        yield
    finally:
        decompositions.one_layer_lstm = original


#: What torch wraps around functions that are not to be compiled (`torch.compiler.disable(recursive=False)`).
_RUNNING_AS_IN_TRAINING = {"torch._dynamo.external_utils"}


@contextlib.contextmanager
def _as_in_training():
    """In this context the model is told that it is not being compiled or exported, so it takes the
    same path as in training. Else it may prepare for other shapes and consumers (for example by a
    mask that attends to everything, where eager attention gets none), and other kernels would run.
    torch itself is told the truth."""
    asked = {name: getattr(torch.compiler, name) for name in ("is_exporting", "is_compiling")}

    def hide(function):
        def answer():
            asking = sys._getframe(1).f_globals.get("__name__", "")
            return asking.split(".")[0] == "torch" and asking not in _RUNNING_AS_IN_TRAINING and function()

        return answer

    for name, function in asked.items():
        setattr(torch.compiler, name, hide(function))
    try:
        yield
    finally:
        for name, function in asked.items():
            setattr(torch.compiler, name, function)


@contextlib.contextmanager
def _modules_as_they_are():
    """A forward may call `module.to(dtype)` of a module that has this dtype. torch would put new parameters in."""
    original = torch.nn.Module._apply

    def has_effect(convert, tensor):
        converted = convert(tensor)
        return (converted.dtype, converted.device) != (tensor.dtype, tensor.device)

    def apply(module, convert, recurse=True):
        with torch._C.DisableTorchFunction(), proxy_tensor.disable_proxy_modes_tracing(), torch.no_grad():
            tensors = [*module.parameters(), *module.buffers()]
            if not any(has_effect(convert, tensor) for tensor in tensors):
                return module
        return original(module, convert, recurse)

    torch.nn.Module._apply = apply
    try:
        yield
    finally:
        torch.nn.Module._apply = original


@contextlib.contextmanager
def _first_names():
    """A module that the model holds under several names, and its parameters, go by the first of them, as in
    named_modules(). torch's tracer would use the attribute path of each call, and loses paths through containers."""
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


#: Assertions on values. The step omits those of the model: if one does not hold, the model's own run fails, too.
_ASSERTIONS = {"aten._assert_scalar.default", "aten._assert_async.default", "aten._assert_async.msg",
               "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"}  # fmt: skip


def _is_needed(node):
    """True if the result is used, or if the operator writes or draws random numbers."""
    if node.op != "call_function" or node.users:
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return isinstance(node.target, torch._ops.HigherOrderOperator)
    if str(node.target) in _ASSERTIONS:
        return specialization.is_check(node)
    return node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags


def _drop_checks(program):
    """Removes assertions on values that are known only at run time, and nodes that only such checks use: torch
    cannot save some of them, and a step does not read values back."""
    for module in program.graph_module.modules():
        graph = getattr(module, "graph", None)
        for node in reversed(list(graph.nodes)) if graph else ():
            if not _is_needed(node):
                graph.erase_node(node)
    return program


def run_export(step, batch, example, ranks, quiet):
    effects.check_modules(step, ranks)
    known = reads.Reads(step, example, ranks)

    def export_once():
        return numbers.as_tensors(_drop_checks(ctc.pad_targets(_run_export(step, batch, known, ranks, quiet))))

    def export():
        return ranks.agree(export_once)

    program = state.repeated(step, export, known.constants.decisive, quiet)
    if not quiet:
        example.print_notes()
    return program


def _export_once(step, batch, known, ranks):
    """Exports without printing on failure: torch would print the whole program up to the
    failure."""
    told = io.StringIO()
    with (checks.holding(), known.answered(), functions.kept(ranks) as recorder, operators.traced(recorder),
          derivatives.recorded(recorder) as derived, effects.seen(derived), transforms.recorded(recorder), _modules_as_they_are(),
          attention.chosen(), flex.expressed(known.constants), collectives.expressed(ranks), _first_names(), _states_of_lstm(),
          rules_of_shapes(), contextlib.redirect_stderr(told)):  # fmt: skip
        program = torch.export.export(step, (), batch, strict=False)
    functions.place(program)
    derivatives.finish(program)
    sys.stderr.write(told.getvalue())
    return program


def _run_export(step, batch, known, ranks, quiet):
    try:
        with _as_in_training(), known.constants.as_real_tensors():
            return _export_once(step, batch, known, ranks)
    except ExportError:
        raise
    except Exception as error:
        first = error
    # Some models omit branches on values when they are exported.
    try:
        program = _export_once(step, batch, known, ranks)
    except ExportError:
        raise
    except Exception:
        raise ExportError(_explain(first, ranks)) from first
    if not quiet:
        note("the path of training cannot be exported, that of exports is taken, whose numbers may round differently: "
             + str(first).splitlines()[0])  # fmt: skip
    return program


_COLLECTIVES = "a forward's collectives are those of torch.distributed's functions, over all ranks"
_VALUES = ("the shape or the path depends on values: write it with torch.where and fixed shapes; or export with "
           "specialize=True if all batches agree in it")  # fmt: skip
#: Usual remedies for errors of torch.export: words of the error, advice. The first that fits counts.
_REMEDIES = (
    ("data-dependent", _VALUES),
    ("unbacked", "a shape depends on values: write the model with fixed shapes"),
    ("scaled_dot_product_attention was found", "sdpa_kernel leaves no form that a CPU has: add SDPBackend.MATH"),
    ("vmap", "build the model with attn_implementation='eager' or 'sdpa'"),
    ("process group", _COLLECTIVES), ("group cannot be None", _COLLECTIVES),
    ("torch._C.Generator", "draw without a generator: a step's random numbers follow from its --seed"),
    ("cast NotImplemented", "a tensor subclass computes in __torch_dispatch__, under autograd, where an export does not see "
     "its operators: use one that does so in __torch_function__, or a module"),
    ("Mutating", "a buffer or attribute is assigned in forward: register it as a buffer and write "
     "it in place, or compute it before"),
)  # fmt: skip
#: Of what depends on values: words of the model's line or of the lines before it, advice.
_REMEDIES_OF_LINES = (
    ("layerdrop", "set layerdrop of the model's configuration to 0: a step runs the same layers each time"),
    ("mask_prob", "set apply_spec_augment of the model's configuration to False"),
    ("module_dropout", "set module_dropout of the adapter's configuration to 0"),
    ("expert", f"{_VALUES}; of transformers: model.set_experts_implementation('batched_mm')"),
    ("label", f"{_VALUES}; or let the model return its logits, and give fsdpc.export a loss="),
)


def _find_advice(table, text):
    return next((advice for words, advice in table if words in text), None)


def _explain(error, ranks):
    text = str(error).strip() or type(error).__name__
    frame, advice = _find_frame(error), _find_advice(_REMEDIES, text)
    if advice is _VALUES and frame and f"{frame.filename}:{frame.lineno}" in ranks.places:
        advice = "the number depends on other ranks, so that it is known at run time alone: write it with torch.where"
    elif advice is _VALUES and frame:
        lines = [linecache.getline(frame.filename, frame.lineno - before) for before in range(4)]
        advice = _find_advice(_REMEDIES_OF_LINES, "".join(lines)) or advice
    return (f"torch.export refuses the model: {text.splitlines()[0]}"
            + (f"\n  at {frame.filename}:{frame.lineno}" if frame else "")
            + (f"\n  remedy: {advice}" if advice else ""))  # fmt: skip


def _find_frame(error):
    """The line of the model's code that torch was running; None if there is none."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith((*own, "<"))]  # fmt: skip
    return frames[-1] if frames else None


def check_operators(program):
    """Refuses operators that are defined in Python, since the binary has no Python."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if str(getattr(node.target, "__module__", "")).startswith("torch._functorch"):
                raise ExportError("torch.func.vmap inside of the forward is not supported: write it by operators of batches")
            if str(node.target).startswith(("_c10d_functional.", "c10d.")):
                raise ExportError(f"the forward has a collective, '{node.target}': {_COLLECTIVES}")
            if getattr(node.target, "_defined_in_python", False) and not is_collective(node):
                raise ExportError(f"operator '{node.target}' is defined in Python, and the training binary has none: "
                                  "define it by torch.library.custom_op, without mutates_args")  # fmt: skip
