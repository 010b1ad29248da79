"""Exports PyTorch models for fsdpc, writes its data and runs its tools.

    import fsdpc

    fsdpc.export(model, {"input_ids": ids, "labels": ids}, "model.pt2")
    fsdpc.compile("model.pt2", "train", mesh={"dp": 2}, optimizer="adamw", lr=1e-4)

A large model is built without values, and the weights come from elsewhere:

    with fsdpc.meta_parameters():
        model = LlamaForCausalLM(config)
    fsdpc.export(model, batch, "model.pt2")

Data come from Hugging Face's datasets, as one row of tokens or as packed samples:

    fsdpc.write_tokens(dataset, "tokens.bin", vocab=50257)
    fsdpc.write_packed(dataset, "packed.safetensors", 2048, labels="labels", positions="position_ids")
"""

from .errors import DataError, ExportError, ToolError
from .exporting import export, meta_parameters
from .packing import write_packed
from .steps import as_step
from .token_files import write_tokens
from .tools import compile

__all__ = ["DataError", "ExportError", "ToolError", "as_step", "compile", "export", "meta_parameters",
           "write_packed", "write_tokens"]  # fmt: skip
