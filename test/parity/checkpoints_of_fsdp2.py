"""FSDP2 beside torch.distributed.checkpoint: what a rank trains, loads and saves."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import fsdp2_setup
import oracle
import rank_processes


def state_dict(model, optimizer, step):
    """What is saved and loaded: tensors alone, as files of safetensors hold no others."""
    from torch.distributed.checkpoint.state_dict import (
        get_model_state_dict,
        get_optimizer_state_dict,
    )

    state = get_optimizer_state_dict(model, optimizer)["state"]
    result = {**get_model_state_dict(model), "optim": {"state": state}}
    if not any("step" in entry for entry in state.values()):
        result["step"] = torch.tensor(step)  # sgd counts no steps
    return result


def load(model, optimizer, folder, step):
    from torch.distributed.checkpoint.state_dict import (
        get_optimizer_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
    )

    state = state_dict(model, optimizer, step)
    state.pop("step", None)
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(folder)))
    groups = get_optimizer_state_dict(model, optimizer)["param_groups"]
    set_optimizer_state_dict(
        model, optimizer, {"state": state.pop("optim")["state"], "param_groups": groups}
    )
    set_model_state_dict(model, state)


def save_as_usual(model, optimizer, folder):
    """As torch's tutorials do, parameter groups included."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optim": state}, checkpoint_id=str(folder))


def train_on_rank(rank, run, first, last, source, target):
    torch.set_num_threads(1)
    model = fsdp2_setup.shard(
        run, oracle.make_model(run), {None: fsdp2_setup.make_mesh(fsdp2_setup.axes_of(run))}
    )
    optimizer = fsdp2_setup.make_optimizer(run, list(model.named_parameters()))
    batches = oracle.Batches(run)
    if source:
        load(model, optimizer, source, first)
    losses = []
    for step in range(first, last):
        loss = model(*batches(rank, step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    if target and str(target).endswith(".distcp"):
        save_as_usual(model, optimizer, target)
    elif target:
        writer = dcp.HuggingFaceStorageWriter(str(target), save_distributed=True)
        dcp.save(state_dict(model, optimizer, last), storage_writer=writer)
    everyone = [None] * run.ranks
    dist.all_gather_object(everyone, losses)
    tensors = {name: tensor.full_tensor() for name, tensor in model.named_parameters()}
    tensors |= dict(model.named_buffers())
    return [list(step) for step in zip(*everyone)], tensors


def fsdp2(run, first, last, source=None, target=None):
    """Losses by step and rank of these steps of FSDP2, and parameters and buffers afterwards."""
    return rank_processes.call_on_ranks(run.ranks, train_on_rank, run, first, last, source, target)
