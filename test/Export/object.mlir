// An object defines `main` and the plan, and needs the runtime's entry alone.
// RUN: fsdp-compile %S/../IR/scheduled.mlir --object -o %t.o
// RUN: llvm-nm -g %t.o | FileCheck %s
// CHECK: D fsdp_step_plan
// CHECK-NEXT: U fsdp_train_main
// CHECK-NEXT: T main
// CHECK-NOT: {{.}}

// Compiled twice, it is the same.
// RUN: fsdp-compile %S/../IR/scheduled.mlir --object -o %t.2.o
// RUN: cmp %t.o %t.2.o

// Planned in a step of its own, it is the same but for the places in the text.
// RUN: fsdp-opt %S/../IR/scheduled.mlir -fsdp-plan-memory -o %t.planned.mlir
// RUN: fsdp-compile %S/../IR/scheduled.mlir --emit=plan | sed 's/ loc .*//' > %t.1.txt
// RUN: fsdp-compile %t.planned.mlir --emit=plan | sed 's/ loc .*//' > %t.2.txt
// RUN: diff %t.1.txt %t.2.txt

// The tables are constant data of the executable, which says what it holds; a shared library gives
// the plan by name and has no main.
// RUN: fsdp-compile %S/../IR/scheduled.mlir -o %t.exe
// RUN: %t.exe --describe | FileCheck %s --check-prefix=DESCRIBE
// DESCRIBE: tiny
// DESCRIBE: replicate = 2, shard = 2
// RUN: fsdp-compile %S/../IR/scheduled.mlir --shared -o %t.so
// RUN: llvm-nm -D %t.so | FileCheck %s --check-prefix=SHARED
// SHARED-NOT: main
// SHARED: fsdp_step_plan
