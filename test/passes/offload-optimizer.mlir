// RUN: fsdp-opt %s --split-input-file --fsdp-offload-optimizer=offload=all --fsdp-verify-sharded | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-offload-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=OWN
// RUN: fsdp-opt %s --split-input-file --fsdp-offload-optimizer=offload=all --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled | FileCheck %s --check-prefix=ORDER

// State is fetched before each update and stored behind it, start beside wait, but for the group that
// says where its state lies. Without a policy only groups that say so are offloaded.
// CHECK: fsdp.group @a {{.*}} reshard_after_forward false optimizer_state host
// CHECK: fsdp.group @b {{.*}} reshard_after_forward false offload_optimizer true optimizer_state host
// CHECK: fsdp.group @c {{.*}} reshard_after_forward false offload_optimizer false{{$}}
// CHECK: fsdp.reduce_scatter.wait
// CHECK-NEXT: fsdp.update @c
// CHECK: fsdp.reduce_scatter.wait
// CHECK-NEXT: %[[FB:.+]] = fsdp.fetch_state.start @b
// CHECK-NEXT: %[[X:.+]] = fsdp.fetch_state.wait %[[FB]]
// CHECK-NEXT: fsdp.update @b with {{.*}} state %[[X]] :
// CHECK-NEXT: %[[SB:.+]] = fsdp.store_state.start %[[X]]
// CHECK-NEXT: fsdp.store_state.wait %[[SB]]
// CHECK: fsdp.fetch_state.start @a
// OWN-NOT: fetch_state{{.*}} @a
// OWN: fsdp.fetch_state.start @b
// OWN-NOT: fetch_state.start

// In FSDP2's order the state of the next group is fetched while a group is updated, and that of the
// group before has been stored by then; the last store is waited for at the end.
// ORDER: %[[FB:.+]] = fsdp.fetch_state.start @b
// ORDER-NEXT: %[[XB:.+]] = fsdp.fetch_state.wait %[[FB]]
// ORDER-NEXT: %[[FA:.+]] = fsdp.fetch_state.start @a
// ORDER-NEXT: fsdp.update @b with {{.*}} state %[[XB]] :
// ORDER-NEXT: %[[SB:.+]] = fsdp.store_state.start %[[XB]]
// ORDER: %[[XA:.+]] = fsdp.fetch_state.wait %[[FA]]
// ORDER-NEXT: fsdp.store_state.wait %[[SB]]
// ORDER-NEXT: fsdp.update @a with {{.*}} state %[[XA]] :
// ORDER-NEXT: %[[SA:.+]] = fsdp.store_state.start %[[XA]]
// ORDER-NEXT: fsdp.store_state.wait %[[SA]]
// ORDER-NEXT: return
// EXAMPLE: fsdp-offload-optimizer
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.param @c.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward false
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward false offload_optimizer true
  fsdp.group @c [@c.w] of ["c"] over @mesh "dp" flat reshard_after_forward false offload_optimizer false
  func.func @step() -> !s {
    %sa = fsdp.shard @a : !fsdp.shard<@a, f32>
    %sb = fsdp.shard @b : !fsdp.shard<@b, f32>
    %sc = fsdp.shard @c : !fsdp.shard<@c, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %ua = fsdp.all_gather.start %sa over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %wa = fsdp.all_gather.wait %ua : !m
    %ya = aten.call "mm.default"(%x, %wa) fwd in "a" : (!m, !m) -> !m
    %ub = fsdp.all_gather.start %sb over ["dp"] fwd on compute : !fsdp.shard<@b, f32>
    %wb = fsdp.all_gather.wait %ub : !m
    %yb = aten.call "mm.default"(%ya, %wb) fwd in "b" : (!m, !m) -> !m
    %uc = fsdp.all_gather.start %sc over ["dp"] fwd on compute : !fsdp.shard<@c, f32>
    %wc = fsdp.all_gather.wait %uc : !m
    %yc = aten.call "mm.default"(%yb, %wc) fwd in "c" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%yc, none) fwd in "" : (!m) -> !s
    %gc = aten.call "mul.Tensor"(%wc, %yb) bwd in "c" : (!m, !m) -> !m
    fsdp.reshard %uc bwd
    %rc = fsdp.reduce_scatter.start @c(%gc) over ["dp"] avg bwd on compute : !m
    %dc = fsdp.reduce_scatter.wait %rc : !fsdp.shard<@c, f32>
    fsdp.update @c with %dc step %step lr %lr : !fsdp.shard<@c, f32>
    %gb = aten.call "mul.Tensor"(%wb, %ya) bwd in "b" : (!m, !m) -> !m
    fsdp.reshard %ub bwd
    %rb = fsdp.reduce_scatter.start @b(%gb) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    fsdp.update @b with %db step %step lr %lr : !fsdp.shard<@b, f32>
    %ga = aten.call "mul.Tensor"(%wa, %x) bwd in "a" : (!m, !m) -> !m
    fsdp.reshard %ua bwd
    %ra = fsdp.reduce_scatter.start @a(%ga) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    fsdp.update @a with %da step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}
