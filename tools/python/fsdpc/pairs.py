"""Complex parameters: pairs of reals, of a last dimension of 2, become the parameters of the step, and the forward finds
torch.view_as_complex of them."""

import contextlib

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from .errors import ExportError, note
from .replacing import replaced


def _is_complex(value):
    """True but for a sharded tensor (DTensor), which an export refuses anyway."""
    return value is not None and value.is_complex() and not hasattr(value, "device_mesh")


def _is_recorded(tensor):
    """False in the graphs of transforms and of regions for tensors that others have made."""
    mode = get_proxy_mode()
    return mode is not None and get_proxy_slot(tensor, mode.tracer, None) is not None


class Pairs:
    """The complex parameters of a model, while pairs stand for them."""

    def __init__(self):
        self.places = []  # (module, name, full name, complex parameter)
        self.stand_in = {}  # by the complex parameter's identity, what stands for it in an optimizer

    def print_note(self):
        names = [full for _, _, full, _ in self.places]
        if names:
            note("complex parameters are pairs of reals in the step and in files of weights (torch.view_as_real, with a last "
                 f"dimension of 2): {', '.join(names)}")  # fmt: skip

    def check(self, mixed):
        """Refuses dtypes of policies, in which FSDP2 would keep the real part alone. mixed: precision.Precision, or None."""
        for module, name, full, value in self.places if mixed else ():
            policy = mixed.policies.get(id(module._parameters[name]))
            for asked in ("param_dtype", "reduce_dtype"):
                if getattr(policy, asked, None) is not None:
                    raise ExportError(
                        f"mixed_precision: parameter '{full}' is {value.dtype}, of which {asked}={getattr(policy, asked)} keeps "
                        "the real part alone: give its module a policy without dtypes, MixedPrecisionPolicy(), before the others"
                    )

    @contextlib.contextmanager
    def made(self):
        """In this context attributes of modules are complex. A number is made where it is read first, so that it belongs to
        the module that uses it."""
        places = {(id(module), name) for module, name, _, _ in self.places}
        known = {}  # by the pair's identity: pair, number

        def make(value):
            number = known.get(id(value), (value, None))[1]
            if number is None or not _is_recorded(number):
                number = torch.view_as_complex(value)
                if torch.is_grad_enabled():  # else autograd would not follow it later
                    known[id(value)] = value, number
            return number

        def finding(find):
            def find_complex(module, name):
                value = find(module, name)
                return make(value) if (id(module), name) in places and not value.is_complex() else value

            return find_complex

        with contextlib.ExitStack() as stack:
            # Not that of torch.nn.Module, in whose place tracers of torch put theirs.
            for kind in {type(module) for module, _, _, _ in self.places}:
                stack.enter_context(replaced(kind, "__getattr__", finding(kind.__getattr__)))
            yield


@contextlib.contextmanager
def standing_in(model):
    """In this context pairs stand for complex parameters. Yields Pairs."""
    found = Pairs()
    for path, module in model.named_modules():
        for name, value in module._parameters.items():
            if _is_complex(value):
                found.places.append((module, name, f"{path}.{name}" if path else name, value))
    for module, name, _, value in found.places:
        if id(value) not in found.stand_in:
            pair = torch.view_as_real(value.detach().resolve_conj())
            found.stand_in[id(value)] = torch.nn.Parameter(pair, requires_grad=value.requires_grad)
        module._parameters[name] = found.stand_in[id(value)]
    try:
        yield found
    finally:
        for module, name, _, value in found.places:
            module._parameters[name] = value
