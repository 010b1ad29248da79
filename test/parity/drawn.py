"""Random configurations of training: the same words for fsdpc and for the oracle."""

import dataclasses
import json
import random

import harness
from oracle import models

#: Patterns of frozen parameters that make sense for each.
MODELS = {
    "mlp": (dict(dim=18), ["layers.0.*", "*.up.*", "*.bias"]),
    "vit": (dict(dim=16), ["blocks.0.*", "*.qkv.*", "patch.*"]),
    "gpt2": (dict(dim=16), ["h.1.*", "*.ln_*", "wpe.*"]),
    "llama": (dict(dim=32), ["layers.*.attn.*", "tok.*", "layers.0.*"]),
    "convnet": (dict(dim=8), ["stem.*", "*.bn.*"]),
    "shared": (dict(dim=16), ["embed.*", "*.up.*"]),
}
#: Policies of groups, all of which compute on bf16 between them.
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
POLICIES = [BF16, {"param_dtype": "bfloat16"}, {"param_dtype": "float32", "output_dtype": "bfloat16"}]
#: Ranks, and replicas where the mesh has two axes.
MESHES = [(1, None), (2, None), (3, None), (4, None), (2, 1), (2, 2), (4, 2)]


@dataclasses.dataclass
class Group:
    """One call of fully_shard."""

    modules: list
    reshard: str | None = None
    forward_prefetch: list | None = None
    backward_prefetch: list | None = None
    factor: float | None = None
    mesh: dict | None = None  # of its own: sizes by axis

    @property
    def pattern(self):
        return ",".join(self.modules)

    def entry(self):
        key = "together" if len(self.modules) > 1 else "modules"
        entry = {key: self.modules}
        if self.reshard is not None:
            entry["reshard_after_forward"] = json.loads(self.reshard)
        for name in ("forward_prefetch", "backward_prefetch"):
            if getattr(self, name) is not None:
                entry[name] = getattr(self, name)
        if self.factor is not None:
            entry["gradient_divide_factor"] = self.factor
        if self.mesh is not None:
            entry["mesh"] = self.mesh
        return entry


class Configuration:
    """The same for the same number, on every machine."""

    def __init__(self, number):
        self.number = number
        self.random = random.Random(number)
        self.draw_model()
        self.offloaded, self.offloads_root = [], False
        self.draw_groups()
        self.draw_step()
        self.offloads_activations = self.maybe(0.3)
        first = {"sgd": "momentum_buffer", "adamw": "exp_avg"}[self.optimizer.kind]
        self.state_dtype = self.random.choice([None, None, "bfloat16", {first: "bfloat16"}])

    def maybe(self, share):
        return self.random.random() < share

    def draw_model(self):
        name = self.random.choice(list(MODELS))
        sizes, frozen = MODELS[name]
        self.model = models.Config(name, layers=3, batch=2, **sizes)
        if name in ("gpt2", "vit") and self.maybe(0.3):
            self.model = dataclasses.replace(self.model, batch=1)
        self.ignored = []
        if self.maybe(0.4):
            self.model = dataclasses.replace(self.model, frozen=[self.random.choice(frozen)])
            names = [n for n, p in models.build(self.model).named_parameters() if not p.requires_grad]
            if self.maybe(0.3):
                self.ignored = self.random.sample(names, self.random.randint(1, len(names)))
        self.optimizer = self.random.choice([harness.SGD, harness.ADAMW])
        self.ranks, self.replicas = self.random.choice(MESHES)
        self.shards = self.ranks // (self.replicas or 1)
        # torch knows no infinity norm of an empty shard, as of vit's positions on two ranks.
        if self.shards <= (1 if name == "vit" else 2) and self.maybe(0.3):
            options = dict(self.optimizer.options, clip_grad_norm=0.05, clip_norm_type="inf")
            self.optimizer = harness.Optimizer(self.optimizer.kind, options)
        elif self.maybe(0.3):
            options = dict(self.optimizer.options, clip_grad_value=1e-3)
            self.optimizer = harness.Optimizer(self.optimizer.kind, options)
        self.scales = self.maybe(0.2)
        if self.scales:
            options = dict(self.optimizer.options, loss_scale=3000.0, loss_scale_growth_interval=2)
            self.optimizer = harness.Optimizer(self.optimizer.kind, options)

    def draw_groups(self):
        """Inner modules before outer ones, as FSDP2 is called."""
        network = models.build(self.model)
        holders = {
            path: module
            for path, module in network.named_modules()
            if path and next(module.parameters(), None) is not None
        }
        blocks = [path for path in holders if path.count(".") == 1]
        self.groups, outer = [], []
        while blocks:
            block = blocks.pop(0)
            if not self.maybe(0.85):
                continue
            inner = [p for p in holders if p.startswith(block + ".") and p.count(".") == 2]
            self.groups += [Group([path]) for path in inner if self.maybe(0.15)]
            together = [block]
            if blocks and self.maybe(0.15):
                together.append(blocks.pop(0))
            outer.append(Group(together))
        tied = self.model.model == "gpt2"  # the head's weight is the embedding's
        last = [path for path in ("norm", "head") if path in holders and not tied]
        if len(last) == 2 and self.maybe(0.2):
            outer.append(Group(last))
        elif last and self.maybe(0.3):
            outer.append(Group([self.random.choice(last)]))
        self.groups += outer
        for group in self.groups:
            if self.maybe(0.25):
                group.reshard = self.draw_reshard(with_none=False)
            others = [other.modules[0] for other in self.groups if other is not group]
            for name in ("forward_prefetch", "backward_prefetch"):
                if others and self.maybe(0.12):
                    count = self.random.randint(1, min(3, len(others)))
                    setattr(group, name, self.random.sample(others, count))

    def draw_reshard(self, with_none=True):
        choices = ["true", "false"] + (["none"] if with_none else [])
        choices += [str(k) for k in (1, 2, 4) if self.shards % k == 0]
        return self.random.choice(choices)

    def draw_step(self):
        self.reshard = self.draw_reshard()
        self.layout = self.random.choice(["flat", "per-param"])
        self.recompute = self.random.choice(["none", "cheap", "selected", "full"])
        self.offload = self.maybe(0.2)
        if self.maybe(0.25):
            self.offloaded = [group for group in self.groups if self.maybe(0.7)]
            self.offloads_root = self.maybe(0.5)
        self.reduce_dtype = self.random.choice(["float32", "bfloat16", "float16"])
        # torch's batch normalisation takes no bf16 beside statistics in fp32; what FSDP2 ignores it does not cast.
        takes_bf16 = self.model.model != "convnet" and not self.ignored
        self.is_mixed = takes_bf16 and self.maybe(0.3)
        self.casts_itself = self.is_mixed and self.model.model == "llama"
        if self.casts_itself:
            self.model = dataclasses.replace(self.model, compute="bf16")
        self.policies = None
        if takes_bf16 and not self.is_mixed and self.maybe(0.25):
            self.policies = {
                group.pattern: self.random.choice(POLICIES[:2] if self.takes_bf16(group) else POLICIES)
                for group in self.groups
            }
            self.policies[""] = BF16
        self.form = "pt2" if self.policies else self.random.choice(["script", "script", "pt2", "trace"])
        if self.is_mixed and not self.casts_itself:
            self.form = "script"
        self.microbatches, self.sync, self.reshard_after_backward = 1, "each", True
        if self.maybe(0.35):
            self.microbatches = self.random.choice([2, 3])
            syncs = ["each", "last"] + (["reduce_scatter"] if self.replicas == 2 else [])
            self.sync = self.random.choice(syncs)
            self.reshard_after_backward = self.maybe(0.5)
        self.force_sum = self.maybe(0.15)
        self.factor = self.random.choice([2.0, 3.0, 8.0]) if self.maybe(0.15) else None
        for group in self.groups:
            if self.factor and self.maybe(0.3):
                group.factor = self.random.choice([2.0, 5.0])
        self.checkpoint = None
        # What torch computes again it counts again in the statistics of batches.
        if self.groups and self.model.model != "convnet" and self.maybe(0.2):
            plain = [g.modules[0] for g in self.groups if len(g.modules) == 1 and not self.has_inner(g)]
            self.checkpoint = self.random.choice(plain) if plain else None

        self.placement = self.draw_placement() if self.layout == "per-param" and self.maybe(0.5) else None
        self.schedule = self.draw_schedule()
        self.draw_meshes()

    def draw_meshes(self):
        """Of some groups, as many ranks in other shards. Without what depends on the number of shards."""
        numbers = [self.reshard, *(group.reshard or "true" for group in self.groups)]
        depends = self.placement or self.factor or self.force_sum or any(map(str.isdigit, numbers))
        # torch takes the norm, and looks for Inf, on one mesh.
        if self.ranks == 1 or depends or self.scales or "clip_grad_norm" in self.optimizer.options or self.maybe(0.6):
            return
        meshes = [{"every": self.ranks, "alone": 1}, {"all": self.ranks}]
        meshes += [{"outer": 2, "inner": 2}] if self.ranks == 4 else []
        for group in self.groups:
            if self.maybe(0.4):
                group.mesh = self.random.choice(meshes)
        if any(group.mesh == meshes[0] for group in self.groups):  # whole on each rank
            self.schedule = "fsdp2"

    def draw_placement(self):
        """FSDP2 ends with an error where a group keeps chunks and is cut on another dimension than 0."""
        numbers = [self.reshard, *(group.reshard or "true" for group in self.groups)]
        if any(number.isdigit() and 1 < int(number) < self.shards for number in numbers):
            return None
        even = {
            name: [dim for dim in range(p.dim()) if dim == 0 or p.shape[dim] % self.shards == 0]
            for name, p in models.build(self.model).named_parameters()
            if name not in self.ignored
        }
        return self.random.choice([
            "largest", {name: self.random.choice(dims) for name, dims in even.items()}
        ])  # fmt: skip

    def draw_schedule(self):
        """Of the step whose bits are compared; that with FSDP2's events has its order, too."""
        numbers = [self.reshard, *(group.reshard or "true" for group in self.groups)]
        is_ordered = any(group.forward_prefetch or group.backward_prefetch for group in self.groups)
        are_ranks_others = any(number.isdigit() and 1 < int(number) < self.shards for number in numbers)
        if self.shards == 1 or is_ordered or are_ranks_others or self.sync == "reduce_scatter":
            return "fsdp2"
        return self.random.choice(["fsdp2", "asap", "auto"])

    def has_meshes(self):
        return any(group.mesh is not None for group in self.groups)

    def takes_bf16(self, group):
        """What inner groups return is bf16. Of several modules FSDP2 casts the inputs of the first one alone,
        and `shared` calls another one with what an outer group returns."""
        is_called_again = self.model.model == "shared" and len(group.modules) > 1
        return self.has_inner(group) or is_called_again

    def has_inner(self, group):
        return any(
            other.modules[0].startswith(module + ".")
            for other in self.groups
            for module in group.modules
        )

    def yaml(self):
        offload = {"offload_policy": "cpu"}
        config = {"groups": [group.entry() | (offload if group in self.offloaded else {})
                             for group in self.groups]}  # fmt: skip
        if self.offloads_root:
            config["root"] = offload
        if self.force_sum:
            config["force_sum_reduction_for_comms"] = True
        if self.factor:
            config["gradient_divide_factor"] = self.factor
        if self.placement:
            config["shard_placement"] = self.placement
        if self.ignored:
            config["ignored_params"] = self.ignored
        if self.state_dtype:
            config["optimizer"] = {"state_dtype": self.state_dtype}
        if self.checkpoint:
            config["activation_checkpointing"] = [{"modules": [self.checkpoint]}]
        return json.dumps(config)

    def mesh(self):
        if self.replicas is None:
            return f"dp={self.ranks}"
        return f"replicate={self.replicas},shard={self.shards}"

    def capture_flags(self):
        return ["--param-dtype", "bfloat16"] if self.is_mixed and not self.casts_itself else []

    def options(self):
        """Of the pipeline, beside mesh, layout, reshard_after_forward and the file."""
        options = [f"recompute={self.recompute}"]
        if self.offload:
            options.append("offload-optimizer=all")
        if self.offloads_activations:
            options.append("offload-activations=all")
        if self.is_mixed:
            options.append(f"param-dtype=bfloat16 reduce-dtype={self.reduce_dtype}")
        if self.microbatches > 1:
            options.append(f"microbatches={self.microbatches} gradient-sync={self.sync} "
                           f"reshard-after-backward={str(self.reshard_after_backward).lower()}")  # fmt: skip
        return " ".join(options)

    def oracle_options(self):
        named = [group for group in self.groups if group.reshard is not None]
        return dict(
            groups=[group.pattern for group in self.groups],
            ranks=self.ranks,
            replicas=self.replicas or 1,
            two_axes=self.replicas is not None,
            reshard_after_forward=self.reshard,
            reshard_of={group.pattern: group.reshard for group in named},
            # gloo adds in rank order between two ranks only, and multiplies by no factor.
            det_rs=self.shards > 2 or (self.shards > 1 and self.factor is not None) or self.has_meshes(),
            mesh_of={group.pattern: group.mesh for group in self.groups if group.mesh is not None},
            microbatches=self.microbatches,
            gradient_sync=self.sync,
            reshard_after_backward=self.reshard_after_backward,
            mixed=self.is_mixed,
            reduce_dtype=self.reduce_dtype,
            force_sum=self.force_sum,
            gradient_divide_factor=self.factor,
            divide_factor_of={m: g.factor for g in self.groups if g.factor for m in g.modules},
            ignored=self.ignored,
            cpu_offload=[group.pattern for group in self.offloaded] + [""] * self.offloads_root,
            placement=self.placement,
            policies=self.policies,
            state_dtype=self.state_dtype,
            checkpoint={self.checkpoint: None} if self.checkpoint else {},
            **{
                name: {
                    group.modules[0]: getattr(group, name)
                    for group in self.groups
                    if getattr(group, name) is not None
                }
                for name in ("forward_prefetch", "backward_prefetch")
            },
        )

    def prefetched(self, direction):
        """The groups that other groups' lists name, by their first modules."""
        lists = [getattr(group, direction) or [] for group in self.groups]
        return [group for group in self.groups if any(group.modules[0] in names for names in lists)]

    def own_parameters(self, group):
        """Those that are in no inner group and not ignored."""
        names = [name for name, _ in models.build(self.model).named_parameters()]
        inside = lambda name, other: any(name.startswith(module + ".") for module in other.modules)
        earlier = self.groups[: self.groups.index(group)]
        return [name for name in names if inside(name, group) and name not in self.ignored
                and not any(inside(name, other) for other in earlier)]  # fmt: skip

    def refusals(self):
        """Messages with which the tools refuse this configuration."""
        messages = []
        splits_or_sums = self.force_sum or (self.is_mixed and self.reduce_dtype == "float16")
        if self.shards == 1 and self.factor and splits_or_sums:
            messages.append("where a parameter lies on one rank alone, FSDP2 divides twice")
        lists = [group for group in self.groups if group.forward_prefetch or group.backward_prefetch]
        if not all(self.own_parameters(group) for group in lists):
            messages.append("which has no parameters of its own")
        named = self.prefetched("forward_prefetch") + self.prefetched("backward_prefetch")
        if not all(self.own_parameters(group) for group in named):
            messages.append("which is no module of a group")
        return messages

    def may_be_dropped(self):
        """The groups that FSDP2 may gather for nothing, as the recorder names them: those whose backward is
        over when a list names them and, where parameters are frozen, those whose backward does not come."""
        groups = self.groups if self.model.frozen else self.prefetched("backward_prefetch")
        return {", ".join(group.modules) for group in groups} | ({"root"} if self.model.frozen else set())

    def __str__(self):
        frozen = f" frozen {self.model.frozen[0]}" if self.model.frozen else ""
        clip = "".join(f" {name}" for name in self.optimizer.options if name.startswith(("clip_grad", "loss_scale")))
        policies = f" policies {json.dumps(self.policies)}" if self.policies else ""
        return (f"{self.number}: {self.model.model} {self.form}{frozen}{policies} {self.mesh()} {self.layout} reshard={self.reshard} "
                f"{self.optimizer.kind}{clip} {self.options()} schedule={self.schedule} {self.yaml()}")  # fmt: skip
