"""docs/fsdp2.md, "What FSDP2 refuses": each row's first cell has words of an error of the installed torch, the second a
config file that is refused here, the third words of the error.

Usage: refused_test.py --tools FOLDER --source FOLDER
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import torch.distributed.fsdp._fully_shard as fsdp2

STEP = """
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @emb.weight : tensor<4x4xf32>
  fsdp.param @layers.0.w : tensor<3x4x8xf32>
  fsdp.param @layers.1.w : tensor<6x4x3xf32>
  fsdp.param @layers.2.w : tensor<4xf32>
  fsdp.param @layers.2.half : tensor<4xbf16>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %w = fsdp.read @layers.0.w : tensor<3x4x8xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "layers.0" : (tensor<3x4x8xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
"""


def rows(source):
    page = (source / "docs/fsdp2.md").read_text()
    section = re.search(r"(?ms)^## What FSDP2 refuses$(.*?)(?=^## |\Z)", page)[1]
    return re.findall(r"(?m)^\| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", section)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path)
    arguments = parser.parse_args()
    torch_text = "".join(path.read_text() for path in pathlib.Path(fsdp2.__file__).parent.glob("*.py"))
    torch_text = re.sub(r'"\s+f?"', "", torch_text)  # strings in pieces
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        step, config = pathlib.Path(folder, "step.mlir"), pathlib.Path(folder, "config.yaml")
        step.write_text(STEP)
        for theirs, content, ours in rows(arguments.source):
            if theirs not in torch_text:
                problems.append(f"torch says nowhere: {theirs}")
            config.write_text(content)
            mesh = "" if "mesh:" in content else "mesh=dp=4 "
            process = subprocess.run(
                [arguments.tools / "fsdp-opt", step, f"--fsdp-group-parameters={mesh}config={config}"],
                capture_output=True, text=True,
            )  # fmt: skip
            if process.returncode == 0:
                problems.append(f"accepted: {content}")
            elif ours not in process.stderr:
                problems.append(f"{content}: expected\n  {ours}\nin\n  {process.stderr}")
    print("\n".join(problems) or f"{len(rows(arguments.source))} configurations are refused")
    return bool(problems) or not rows(arguments.source)


if __name__ == "__main__":
    sys.exit(main())
