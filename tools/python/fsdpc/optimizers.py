"""The options of a torch.optim optimizer, under torch's names, for the capture."""

import torch

from .errors import ExportError

_KINDS = {
    torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw", torch.optim.RMSprop: "rmsprop",
    torch.optim.Adagrad: "adagrad", torch.optim.Adamax: "adamax", torch.optim.NAdam: "nadam",
    torch.optim.RAdam: "radam", torch.optim.Adadelta: "adadelta",
}  # fmt: skip
#: Options that each parameter group may set; the others hold for the whole optimizer.
_OF_GROUPS = ("lr", "weight_decay", "betas", "alpha", "rho", "eps", "momentum_decay", "lr_decay")
_OF_ALL = ("momentum", "dampening", "nesterov", "amsgrad", "centered", "decoupled_weight_decay", "maximize",
           "initial_accumulator_value")  # fmt: skip
#: Options that affect how torch computes, not what; foreach, fused and capturable differ on a CPU
#: only in rounding.
_IGNORED = {"params", "param_names", "foreach", "fused", "capturable", "initial_lr"}


def _plain(name, value):
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(name, part) for part in value]
    if not isinstance(value, (bool, int, float)):
        raise ExportError(f"{name} of the optimizer is {value!r}, expected a number")
    return value


def _kind_of(optimizer):
    kind = _KINDS.get(type(optimizer))
    if kind is None:
        raise ExportError(
            f"the optimizer is {type(optimizer).__name__}, expected one of torch.optim's "
            + ", ".join(known.__name__ for known in _KINDS)
        )
    return kind


def _value(group, name):
    """An option's value; for lr the initial rate of torch's schedulers, since their current rate is
    for one step."""
    if name == "lr" and "initial_lr" in group:
        return _plain(name, group["initial_lr"])
    return _plain(name, group[name])


def _shared(optimizer, name):
    """The value that all groups have, or the optimizer's default if they differ."""
    values = [_value(group, name) for group in optimizer.param_groups]
    same = all(value == values[0] for value in values)
    return values[0] if same else _plain(name, optimizer.defaults[name])


def describe(model, optimizer, stand_in):
    """The optimizer as lib/Frontend/OptimizerChoice.cpp reads it; raises ExportError. stand_in: by the identity of
    parameters of the optimizer, the model's parameters that stand for them."""
    kind = _kind_of(optimizer)
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExportError("there are hooks of the optimizer's step, which a compiled step does not run: remove them "
                          "before the export")  # fmt: skip
    # torch makes the initial state by the optimizer's own defaults, whatever the groups say.
    made = {"initial_accumulator_value"} & optimizer.defaults.keys()
    shared = {
        name: _plain(name, optimizer.defaults[name] if name in made else optimizer.param_groups[0][name])
        for name in _OF_ALL
        if name in optimizer.defaults
    }
    own = {name: _shared(optimizer, name) for name in _OF_GROUPS if name in optimizer.defaults}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups, held = [], set()
    for number, group in enumerate(optimizer.param_groups):
        known = {*shared, *own, *_IGNORED}
        for name in group.keys() - known:
            if group[name]:
                raise ExportError(f"{name} of the optimizer is {group[name]!r}, not supported")
        for name, value in shared.items():
            if name not in made and _plain(name, group[name]) != value:
                raise ExportError(
                    f"{name} of group {number} of the optimizer is {group[name]}, but {value} of "
                    "group 0: it is the same for all here"
                )
        members = []
        for parameter in group["params"]:
            parameter = stand_in.get(id(parameter), parameter)
            if id(parameter) not in names:
                raise ExportError(
                    f"group {number} of the optimizer has a parameter of shape "
                    f"{list(parameter.shape)}, which the model does not have"
                )
            held.add(id(parameter))
            members.append(names[id(parameter)])
        values = {name: _value(group, name) for name in own}
        differing = {name: value for name, value in values.items() if value != own[name]}
        if differing and members:
            groups.append({"parameters": members, **differing})
    for key, name in names.items():
        if key not in held and model.get_parameter(name).requires_grad:
            raise ExportError(
                f"parameter '{name}' requires a gradient, but the optimizer does not have it: hand "
                "it over, or freeze it with requires_grad_(False)"
            )
    # adamw is torch's Adam whose weight decay is decoupled.
    if kind in ("adam", "adamw"):
        kind = "adamw" if shared.pop("decoupled_weight_decay") else "adam"
    return {"name": kind, **own, **shared, "groups": groups}


def describe_scaler(scaler):
    """A torch.amp.GradScaler as lib/Frontend/OptimizerChoice.cpp reads it; None if it does nothing. Raises
    ExportError."""
    if scaler is None:
        return None
    if not isinstance(scaler, torch.amp.GradScaler):
        raise ExportError(f"grad_scaler is {type(scaler).__name__}, expected torch.amp.GradScaler")
    if not scaler.is_enabled():
        return None
    return {"init": scaler.get_scale(), "growth_factor": scaler.get_growth_factor(),
            "backoff_factor": scaler.get_backoff_factor(),
            "growth_interval": scaler.get_growth_interval()}  # fmt: skip
