// RUN: fsdp-opt %s --split-input-file | fsdp-opt --split-input-file | FileCheck %s

// Each optimizer states all of its options, but for flags that are false and a few that are 0.
// CHECK: fsdp.optimizer rmsprop lr = 1.000000e-02 weight_decay = 1.000000e-01 momentum = 9.000000e-01 alpha = 0.98999999999999999 eps = 1.000000e-08 centered maximize state_dtype = {grad_avg = bf16, momentum_buffer = bf16}
fsdp.optimizer rmsprop lr = 0.01 weight_decay = 0.1 momentum = 0.9 alpha = 0.99 eps = 1.0e-8 centered maximize
    state_dtype = {grad_avg = bf16, momentum_buffer = bf16}

// -----

// CHECK: fsdp.optimizer adagrad lr = 1.000000e-02 weight_decay = 0.000000e+00 eps = 1.000000e-10 lr_decay = 5.000000e-01 initial_accumulator_value = 1.000000e-01{{$}}
fsdp.optimizer adagrad lr = 0.01 weight_decay = 0.0 eps = 1.0e-10 lr_decay = 0.5 initial_accumulator_value = 0.1

// -----

// CHECK: fsdp.optimizer adamax lr = 2.000000e-03 weight_decay = 0.000000e+00 betas = [9.000000e-01, 9.990000e-01] eps = 1.000000e-08{{$}}
fsdp.optimizer adamax lr = 0.002 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8

// -----

// CHECK: fsdp.optimizer nadam {{.*}} eps = 1.000000e-08 momentum_decay = 4.000000e-03 decoupled_weight_decay{{$}}
fsdp.optimizer nadam lr = 0.002 weight_decay = 0.1 betas = [0.9, 0.999] eps = 1.0e-8 momentum_decay = 0.004
    decoupled_weight_decay

// -----

// CHECK: fsdp.optimizer radam {{.*}} eps = 1.000000e-08 decoupled_weight_decay clip_grad_norm = 1.000000e+00
fsdp.optimizer radam lr = 0.001 weight_decay = 0.1 betas = [0.9, 0.999] eps = 1.0e-8 decoupled_weight_decay
    clip_grad_norm = 1.0

// -----

// CHECK: fsdp.optimizer rmsprop {{.*}} eps = 1.000000e-08 ema_decay = 5.000000e-01 clip_grad_value = 2.500000e-01 maximize
fsdp.optimizer rmsprop lr = 0.01 weight_decay = 0.1 momentum = 0.0 alpha = 0.99 eps = 1.0e-8 ema_decay = 0.5
    clip_grad_value = 0.25 maximize

// -----

// A moving average of the weights is a state of every optimizer.
// CHECK: fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 0.000000e+00 ema_decay = 5.000000e-01 state_dtype = {ema = bf16}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 ema_decay = 0.5 state_dtype = {ema = bf16}

// -----

// Groups have options of their own.
// CHECK: fsdp.optimizer adadelta lr = 1.000000e+00 weight_decay = 0.000000e+00 rho = 9.000000e-01 eps = 9.9999999999999995E-7
// CHECK: fsdp.optimizer_group [@w] rho = 5.000000e-01 eps = 1.000000e-03
fsdp.param @w : tensor<4xf32>
fsdp.optimizer adadelta lr = 1.0 weight_decay = 0.0 rho = 0.9 eps = 1.0e-6
fsdp.optimizer_group [@w] rho = 0.5 eps = 1.0e-3
