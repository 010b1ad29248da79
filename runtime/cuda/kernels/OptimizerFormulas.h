//===- OptimizerFormulas.h - The update of one element ------------*- C++ -*-===//
//
// The formulas of torch 2.11's single-tensor optimizers (torch/optim, _single_tensor_*, not
// capturable), for one element in fp32. The kernels and their host reference share them. Both are
// compiled without contraction of a * b + c, so that each formula rounds as torch's operators on a
// CPU do: a multiply-add is fused where the operator's loop fuses it (add with alpha, addcmul and
// lerp), and nowhere else.
//
// A formula is made of a step's scalars, and called for each element:
//   kStates: bit i: the optimizer keeps its state i of Optimizers.h
//   operator()(parameter, gradient, state): updates the parameter and the states in place
// `Math` has rounded square roots and quotients:
//   rootOf(square), quotientOf(numerator, denominator)
//   RootDivisor::of(divisor).quotientOf(root), for divisors from 0 to 1
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_OPTIMIZERFORMULAS_H
#define FSDP_RUNTIME_CUDA_KERNELS_OPTIMIZERFORMULAS_H

#include "executor/OptimizerScalars.h"
#include "fsdp/Plan/Abi.h"

#include <cmath>

#ifdef __CUDACC__
#define FSDP_FORMULA __device__ __forceinline__
#else
#define FSDP_FORMULA inline
#endif

namespace fsdp::rt {

/// The states of an element.
using ElementState = float[FSDP_MAX_STATES];

/// The gradient with weight decay that is not decoupled: Tensor.add with alpha.
FSDP_FORMULA float decayed(float gradient, float weightDecay, float parameter) {
  return weightDecay != 0 ? fmaf(weightDecay, parameter, gradient) : gradient;
}

/// torch.maximum, which keeps a NaN.
FSDP_FORMULA float largestOf(float a, float b) { return a != a || a >= b ? a : b; }

/// lerp_: from the nearer end.
struct Lerp {
  float coefficient;
  bool fromStart;

  FSDP_FORMULA explicit Lerp(float weight)
      : coefficient(fabsf(weight) < 0.5f ? weight : weight - 1), fromStart(fabsf(weight) < 0.5f) {}
  FSDP_FORMULA float operator()(float start, float end) const {
    return fmaf(coefficient, end - start, fromStart ? start : end);
  }
};

/// mul_, then addcmul_: an average of squares.
FSDP_FORMULA float averageSquare(float average, float decay, float weight, float value) {
  return fmaf(weight * value, value, average * decay);
}

/// Takes the averages of the gradient and of its square, exp_avg and exp_avg_sq, after weight decay
/// that is not decoupled. Returns the decayed gradient.
template <typename Scalars>
FSDP_FORMULA float takeMoments(const Scalars &s, const Lerp &lerp, float p, float g,
                               ElementState &state) {
  g = decayed(g, s.weightDecay, p);
  state[0] = lerp(state[0], g);
  state[1] = averageSquare(state[1], s.beta2, s.oneMinusBeta2, g);
  return g;
}

template <typename Math, bool momentum> struct SgdFormula {
  static constexpr unsigned kStates = momentum;

  SgdScalars s;
  FSDP_FORMULA explicit SgdFormula(const OptimizerScalars &all) : s(all.sgd) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    g = decayed(g, s.weightDecay, p);
    if constexpr (momentum) {
      float &buffer = state[0];
      buffer = s.firstStep ? g : fmaf(s.gradientWeight, g, buffer * s.momentum);
      g = s.nesterov ? fmaf(s.momentum, buffer, g) : buffer;
    }
    p = fmaf(s.negativeLearningRate, g, p);
  }
};

/// Adam and AdamW.
template <typename Math, bool amsgrad> struct AdamFormula {
  static constexpr unsigned kStates = amsgrad ? 0b111 : 0b011;

  AdamScalars s;
  Lerp lerp;
  typename Math::RootDivisor correction2;
  FSDP_FORMULA explicit AdamFormula(const OptimizerScalars &all)
      : s(all.adam), lerp(s.lerpWeight), correction2(Math::RootDivisor::of(s.sqrtCorrection2)) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    takeMoments(s, lerp, p, g, state);
    if constexpr (amsgrad)
      state[2] = largestOf(state[2], state[1]);
    const float root = Math::rootOf(state[amsgrad ? 2 : 1]);
    const float denominator = correction2.quotientOf(root) + s.eps;
    p = p * s.decay + Math::quotientOf(s.negativeStepSize * state[0], denominator);
  }
};

template <typename Math, bool momentum, bool centered> struct RmspropFormula {
  static constexpr unsigned kStates = 0b001 | momentum << 1 | centered << 2;

  RmspropScalars s;
  Lerp lerp;
  FSDP_FORMULA explicit RmspropFormula(const OptimizerScalars &all)
      : s(all.rmsprop), lerp(s.oneMinusAlpha) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    g = decayed(g, s.weightDecay, p);
    float square = state[0] = averageSquare(state[0], s.alpha, s.oneMinusAlpha, g);
    if constexpr (centered) {
      state[2] = lerp(state[2], g);
      square = fmaf(-state[2], state[2], square);
    }
    const float denominator = Math::rootOf(square) + s.eps;
    if constexpr (momentum) {
      state[1] = state[1] * s.momentum + Math::quotientOf(g, denominator);
      p = fmaf(s.negativeLearningRate, state[1], p);
    } else {
      p = p + Math::quotientOf(s.negativeLearningRate * g, denominator);
    }
  }
};

template <typename Math> struct AdagradFormula {
  static constexpr unsigned kStates = 0b001;

  AdagradScalars s;
  FSDP_FORMULA explicit AdagradFormula(const OptimizerScalars &all) : s(all.adagrad) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    g = decayed(g, s.weightDecay, p);
    state[0] = fmaf(g, g, s.firstStep ? s.initialSum : state[0]);
    p = p + Math::quotientOf(s.negativeRate * g, Math::rootOf(state[0]) + s.eps);
  }
};

template <typename Math> struct AdamaxFormula {
  static constexpr unsigned kStates = 0b011;

  AdamaxScalars s;
  Lerp lerp;
  FSDP_FORMULA explicit AdamaxFormula(const OptimizerScalars &all)
      : s(all.adamax), lerp(s.lerpWeight) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    g = decayed(g, s.weightDecay, p);
    state[0] = lerp(state[0], g);
    state[1] = largestOf(state[1] * s.beta2, fabsf(g) + s.eps);
    p = p + Math::quotientOf(s.negativeStepSize * state[0], state[1]);
  }
};

template <typename Math> struct NadamFormula {
  static constexpr unsigned kStates = 0b011;

  NadamScalars s;
  Lerp lerp;
  FSDP_FORMULA explicit NadamFormula(const OptimizerScalars &all)
      : s(all.nadam), lerp(s.lerpWeight) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    g = takeMoments(s, lerp, p, g, state);
    const float denominator = Math::rootOf(Math::quotientOf(state[1], s.correction2)) + s.eps;
    p = p * s.decay + Math::quotientOf(s.gradientFactor * g, denominator);
    p = p + Math::quotientOf(s.momentFactor * state[0], denominator);
  }
};

template <typename Math> struct RadamFormula {
  static constexpr unsigned kStates = 0b011;

  RadamScalars s;
  Lerp lerp;
  FSDP_FORMULA explicit RadamFormula(const OptimizerScalars &all)
      : s(all.radam), lerp(s.lerpWeight) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    takeMoments(s, lerp, p, g, state);
    float change = Math::quotientOf(state[0], s.correction1) * s.learningRate;
    if (s.isRectified) {
      const float rate = Math::quotientOf(1, Math::rootOf(state[1]) + s.eps);
      change = change * (rate * s.sqrtCorrection2) * s.rectification;
    }
    p = p * s.decay - change;
  }
};

template <typename Math> struct AdadeltaFormula {
  static constexpr unsigned kStates = 0b011;

  AdadeltaScalars s;
  FSDP_FORMULA explicit AdadeltaFormula(const OptimizerScalars &all) : s(all.adadelta) {}

  FSDP_FORMULA void operator()(float &p, float g, ElementState &state) const {
    g = decayed(g, s.weightDecay, p);
    state[0] = averageSquare(state[0], s.rho, s.oneMinusRho, g);
    const float root = Math::rootOf(state[0] + s.eps);
    const float change = Math::quotientOf(Math::rootOf(state[1] + s.eps), root) * g;
    state[1] = averageSquare(state[1], s.rho, s.oneMinusRho, change);
    p = fmaf(s.negativeLearningRate, change, p);
  }
};

template <typename Formula> struct FormulaType {
  using Type = Formula;
};
/// Calls function(FormulaType<Formula>()) for an optimizer of a known kind. `states`: bit i: it
/// keeps its state i.
template <typename Math, typename Function>
auto withFormula(uint32_t kind, unsigned states, Function function)
    -> decltype(function(FormulaType<SgdFormula<Math, false>>())) {
  switch (kind) {
  case FSDP_SGD:
    return states & 0b001 ? function(FormulaType<SgdFormula<Math, true>>())
                          : function(FormulaType<SgdFormula<Math, false>>());
  case FSDP_RMSPROP:
    switch (states) {
    case 0b111:
      return function(FormulaType<RmspropFormula<Math, true, true>>());
    case 0b101:
      return function(FormulaType<RmspropFormula<Math, false, true>>());
    case 0b011:
      return function(FormulaType<RmspropFormula<Math, true, false>>());
    default:
      return function(FormulaType<RmspropFormula<Math, false, false>>());
    }
  case FSDP_ADAGRAD:
    return function(FormulaType<AdagradFormula<Math>>());
  case FSDP_ADAMAX:
    return function(FormulaType<AdamaxFormula<Math>>());
  case FSDP_NADAM:
    return function(FormulaType<NadamFormula<Math>>());
  case FSDP_RADAM:
    return function(FormulaType<RadamFormula<Math>>());
  case FSDP_ADADELTA:
    return function(FormulaType<AdadeltaFormula<Math>>());
  default:
    return states & 0b100 ? function(FormulaType<AdamFormula<Math, true>>())
                          : function(FormulaType<AdamFormula<Math, false>>());
  }
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_OPTIMIZERFORMULAS_H
