"""Watches FSDP2 at work: its events and collectives, and what the allocator hands out."""

import functools
import gc

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_param import ShardedState
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup


def group_name(group):
    # FSDP2 counts paths from the root that ran first: a stage, where stages are roots.
    return getattr(group, "path_in_model", None) or group._module_fqn or "root"


class StepRecorder:
    """Records unshard, reshard, post_backward and the collectives of the newest step.

    An event counts where it changes something: FSDP2 also calls unshard on gathered groups, reshard
    on sharded ones, and post_backward once per module of a group, which do nothing. Nor does an unshard
    count that no computation waits for: FSDP2 prefetches a group whose backward does not come, and drops
    the gathered parameters when the backward ends. `dropped` holds the names of those groups, one for
    each unshard.
    """

    def __init__(self):
        self.phase = None  # None outside of forward and backward: nothing is recorded
        self.events, self.collectives, self.dropped = [], [], []
        self.whole = []  # groups that lie whole on each rank
        self._group = None
        unshard, reshard = FSDPParamGroup.unshard, FSDPParamGroup.reshard
        post_backward = FSDPParamGroup.post_backward
        finalize_backward = FSDPParamGroup.finalize_backward
        recorder = self

        def recorded_unshard(self, *args, **options):
            pending = self._all_gather_result
            with recorder._inside(self):
                result = unshard(self, *args, **options)
            if self._all_gather_result is not pending:
                recorder._event("unshard", self)
            return result

        def recorded_reshard(self):
            was = self._sharded_state
            result = reshard(self)
            if was == ShardedState.UNSHARDED and self._sharded_state != was:
                recorder._event("reshard", self)
            return result

        def recorded_post_backward(self, *args):
            pending = self.comm_ctx.reduce_scatter_state
            with recorder._inside(self):
                result = post_backward(self, *args)
            if self.comm_ctx.reduce_scatter_state is not pending:
                recorder._event("post_backward", self)
            return result

        def recorded_finalize_backward(self):
            if self._all_gather_result is not None:
                recorder._drop_unshard(self)
            return finalize_backward(self)

        FSDPParamGroup.finalize_backward = recorded_finalize_backward
        FSDPParamGroup.unshard = recorded_unshard
        FSDPParamGroup.reshard = recorded_reshard
        FSDPParamGroup.post_backward = recorded_post_backward
        self._watch("all_gather_into_tensor", "all_gather", ("input_tensor", 1))
        self._watch("reduce_scatter_tensor", "reduce_scatter", ("input", 1))
        self._watch("all_reduce", "all_reduce", ("tensor", 0))

    def begin_step(self):
        self.phase = "forward"
        self.events, self.collectives, self.dropped = [], [], []
        self.whole = []

    def end_step(self):
        self.phase = None

    def _inside(self, group):
        recorder = self

        class Inside:
            def __enter__(self):
                self.outer, recorder._group = recorder._group, group

            def __exit__(self, *error):
                recorder._group = self.outer

        return Inside()

    def _drop_unshard(self, group):
        self.dropped.append(group_name(group))
        for records, key, word in (
            (self.events, "event", "unshard"),
            (self.collectives, "kind", "all_gather"),  # none over one rank
        ):
            found = [r for r in records if r[key] == word and r["group"] == group_name(group)]
            if found:
                last = max(i for i, record in enumerate(records) if record is found[-1])
                del records[last]

    def _event(self, event, group):
        if group.mesh_info.shard_mesh_size == 1 and group_name(group) not in self.whole:
            self.whole.append(group_name(group))
        if self.phase:
            self.events.append(
                {"event": event, "group": group_name(group), "phase": self.phase}
            )

    def _watch(self, function, kind, argument):
        original = getattr(dist, function)
        name, position = argument

        def recorded(*args, **options):
            tensor = options[name] if name in options else args[position]
            if tensor.is_complex():  # which a step sends as pairs of reals
                tensor = torch.view_as_real(tensor)
            if self.phase:
                self.collectives.append(
                    {
                        "kind": kind,
                        "group": group_name(self._group),
                        "phase": self.phase,
                        "dtype": {
                            "float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16", "uint8": "ui8",
                        }[str(tensor.dtype).removeprefix("torch.")],  # fmt: skip
                        "elements": tensor.numel(),
                        # Parameters that are resharded to a few ranks are so along the shards' axis.
                        "axis": self._group.mesh_info.mesh.mesh_dim_names[
                            0 if kind == "all_reduce" else -1
                        ],
                    }
                )
            return original(*args, **options)

        setattr(dist, function, recorded)


@functools.cache
def step_recorder():
    """The process's one recorder: making it patches FSDP2."""
    return StepRecorder()


class AllocationRecorder:
    """The allocator's bytes at the peak of a step: tensors alive at its beginning, and what the
    profiler's allocation events add to them (which also see storages resized to nothing).

    Events of threads that communicate are not seen. Where such a thread is the last to let go of a
    tensor, its bytes seem to stay until the step's end; the figure is that of the step with the
    lowest peak, so it errs, if at all, in favour of what is measured.
    """

    MARK = "step begins"

    def __init__(self):
        self._profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            profile_memory=True,
            acc_events=True,
        )
        self._profile.__enter__()
        self._at_rest = []

    def begin_step(self):
        gc.collect()
        storages = {}
        for thing in gc.get_objects():
            if type(thing) in (torch.Tensor, torch.nn.Parameter):
                storage = thing.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
        self._at_rest.append(sum(storages.values()))
        with torch.profiler.record_function(self.MARK):
            pass

    def peak(self, warm_up=2):
        self._profile.__exit__(None, None, None)
        events = sorted(
            self._profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()
        )
        peaks = []
        for event in events:
            if event.name() == self.MARK:
                live = self._at_rest[len(peaks)]
                peaks.append(live)
            elif event.name() == "[memory]" and peaks:
                live += event.nbytes()
                peaks[-1] = max(peaks[-1], live)
        return min(peaks[warm_up:])
