"""Several stages of a model in one process under FSDP2, as torch's pipeline schedules run them."""

import torch
from torch.distributed.pipelining import schedules

from fsdp2_setup import set_communication


def units_of_1f1b(stages, microbatches):
    """What torch's ScheduleInterleaved1F1B runs on the one rank of a pipeline: (is forward, stage, microbatch)."""
    schedule = schedules.ScheduleInterleaved1F1B.__new__(schedules.ScheduleInterleaved1F1B)
    schedule.pp_group_size, schedule.n_local_stages = 1, stages
    schedule._n_microbatches, schedule.microbatches_per_round = microbatches, 1
    actions = schedule._calculate_single_rank_operations(0)
    return [
        (action.computation_type == schedules.FORWARD, action.stage_index, action.microbatch_index)
        for action in actions
        if action is not None
    ]


def share_communication(run, model):
    """Each stage is a root of FSDP2. Their groups are named by their paths in the model."""
    from torch.distributed.fsdp import FSDPModule, share_comm_ctx

    share_comm_ctx([model.get_submodule(stage) for stage in run.stages])
    for path, module in model.named_modules():
        if isinstance(module, FSDPModule) and module._get_fsdp_state()._fsdp_param_group:
            module._get_fsdp_state()._fsdp_param_group.path_in_model = path


def run_1f1b(run, model, batches, scaler, recorder):
    """Forwards and backwards of one step; the sum of the losses. Between stages the graph is cut."""
    stages = [model.get_submodule(path) for path in run.stages]
    inputs, outputs, total = {}, {}, None
    for is_forward, index, microbatch in units_of_1f1b(len(stages), run.microbatches):
        stage, unit = stages[index], (index, microbatch)
        is_last_stage = index + 1 == len(stages)
        x, targets = batches[microbatch]
        if recorder:
            recorder.phase = "forward" if is_forward else "backward"
        if is_forward:
            if index > 0:
                x = outputs[index - 1, microbatch].detach().requires_grad_()
            y = stage(x)
            if is_last_stage:
                y = model.loss(y, targets)
                if run.microbatch_loss == "mean":
                    y = y / run.microbatches
                total = y.detach() if total is None else total + y.detach()
            inputs[unit], outputs[unit] = x, y
        else:
            # A root whose backward is the last one clears the order of the post-forwards, which the stages
            # share. The backwards of other stages would look for their place in it (IndexError).
            stage.set_is_last_backward(False)
            set_communication(run, stage, microbatch)
            gradient = None if is_last_stage else inputs.pop((index + 1, microbatch)).grad
            y = outputs.pop(unit)
            torch.autograd.backward(scaler.scale(y) if is_last_stage else y, gradient)
    # Behind all backwards, of each stage: what torch's stages do when they have reduced.
    for stage in stages:
        stage.set_is_last_backward(True)
        stage._get_fsdp_state()._root_post_backward_final_callback()
    return total
