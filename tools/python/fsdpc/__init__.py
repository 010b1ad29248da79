"""Exports PyTorch models for fsdpc and runs its tools.

    import fsdpc

    fsdpc.export(model, {"input_ids": ids, "labels": ids}, "model.pt2")
    fsdpc.compile("model.pt2", "train", mesh={"dp": 2}, optimizer="adamw", lr=1e-4)

A large model is built without values, and the weights come from elsewhere:

    with fsdpc.meta_parameters():
        model = LlamaForCausalLM(config)
    fsdpc.export(model, batch, "model.pt2")
"""

from .exporting import export, meta_parameters
from .steps import ExportError, as_step
from .tools import ToolError, compile

__all__ = ["ExportError", "ToolError", "as_step", "compile", "export", "meta_parameters"]
