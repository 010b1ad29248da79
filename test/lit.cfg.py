# lit configuration; values that depend on the build are in lit.site.cfg.py.in.
import os
import shutil

import lit.formats
from lit.llvm import llvm_config

config.name = "fsdpc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.fsdp_obj_root

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_system_environment(["HOME", "TMPDIR", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"])
llvm_config.add_tool_substitutions(
    [
        "extract-problem",
        "fsdp-opt",
        "fsdp-compile",
        "fsdp-capture",
        "fsdp-checkpoint",
        "fsdp-diff",
        "fsdp-explain",
        "fsdp-lsp-server",
        "fsdp-plan",
        "fsdp-profile",
        "fsdp-reduce",
        "fsdpc",
        "schedule-benchmark",
    ],
    [config.fsdp_tools_dir],
)
llvm_config.add_tool_substitutions(["FileCheck", "not", "split-file"], [config.llvm_tools_dir])
config.substitutions.append(("%python", config.fsdp_python))
config.substitutions.append(("%source", config.fsdp_source_root))
config.substitutions.append(("%plugins", os.path.join(config.fsdp_obj_root, "tools", "plugins")))
# Runs the scripts of pages (tools/pages.test).
if shutil.which("node"):
    config.available_features.add("node")
