//===- Recorder.cpp - Records operator calls below autograd ---------------===//

#include "Recorder.h"

#include "ShapesByRunning.h"
#include "fsdp/IR/AtenSemantics.h"
#include "fsdp/Plan/DTypes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/SequenceNumber.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

using namespace fsdp::frontend;
namespace functional = at::functionalization::impl;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

static Recorder *active = nullptr;

std::string fsdp::frontend::getCalleeName(const c10::OperatorHandle &op) {
  const std::string &qualified = op.operator_name().name;
  std::string name = qualified.rfind("aten::", 0) == 0 ? qualified.substr(6) : qualified;
  const std::string &overload = op.operator_name().overload_name;
  return name + "." + (overload.empty() ? "default" : overload);
}

bool fsdp::frontend::isSupportedDtype(at::ScalarType dtype) {
  return plan::findDType(static_cast<uint32_t>(dtype));
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

/// Formulas of derivatives multiply by complex numbers. Literals are real, so that the step makes
/// the number, as it makes those of the program.
static bool multiplyByComplex(const c10::OperatorHandle &op, torch::jit::Stack &stack) {
  if (!stack.back().isComplexDouble() || getCalleeName(op) != "mul.Scalar")
    return false;
  const c10::complex<double> number = torch::jit::pop(stack).toComplexDouble();
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  auto part = [&](double value) {
    return at::full({}, value, at::device(at::kCPU).dtype(c10::toRealValueType(x.scalar_type())));
  };
  stack.push_back(at::mul(x, at::complex(part(number.real()), part(number.imag()))));
  return true;
}

static void recordKernel(const c10::OperatorHandle &op, DispatchKeySet keys,
                         torch::jit::Stack *stack) {
  if (active && active->isRecording() && multiplyByComplex(op, *stack))
    return;
  constexpr DispatchKeySet afterFake(DispatchKeySet::FULL_AFTER, DispatchKey::Fake);
  c10::impl::ExcludeDispatchKeyGuard withoutFake(DispatchKey::Fake);
  if (active && active->isRecording())
    active->record(op, keys & afterFake, *stack);
  else
    op.redispatchBoxed(keys & afterFake, stack);
}

Recorder::Recorder(KnownResults knownResults) : knownResults(std::move(knownResults)) {
  TORCH_CHECK(!active, "two captures at a time");
  // Per operator: torch itself uses the fallback of the Fake key.
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto op = c10::Dispatcher::singleton().findSchema(name);
    size_t colons = name.name.find("::");
    std::string space = name.name.substr(0, colons);
    if (!op || space == "prim" || space == "prims" ||
        op->hasKernelForDispatchKey(DispatchKey::Fake))
      continue;
    auto &library = libraries[space];
    if (!library)
      library = std::make_unique<torch::Library>(torch::Library::IMPL, space, DispatchKey::Fake,
                                                 __FILE__, __LINE__);
    std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    library->impl((name.name.substr(colons + 2) + overload).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&recordKernel>());
  }
  active = this;
}

Recorder::~Recorder() { active = nullptr; }

Recorder::Region::Region(Recorder &recorder) : recorder(recorder) {
  recorder.recording = true;
  recorder.lastSequence = at::sequence_number::peek();
}

Recorder::Region::~Region() {
  recorder.recording = false;
  recorder.inBackward = false;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

at::Tensor Recorder::wrap(const at::Tensor &tensor, ValueKind kind, std::string name,
                          bool requiresGrad) {
  at::Tensor meta = at::empty(tensor.sizes(), at::TensorOptions(tensor.dtype()).device(at::kMeta));
  graph.add({.tensor = meta, .kind = kind, .name = std::move(name)});
  at::Tensor wrapper = functional::to_functional_tensor(meta);
  if (requiresGrad)
    wrapper.requires_grad_(true);
  return wrapper;
}

at::Tensor Recorder::wrapConstant(const at::Tensor &data, std::string name) {
  // A scalar keeps its data: programs read sizes and factors back from such constants.
  at::Tensor tensor =
      data.dim() == 0 ? data.detach()
                      : at::empty(data.sizes(), at::TensorOptions(data.dtype()).device(at::kMeta));
  graph.add({.tensor = tensor,
             .kind = ValueKind::Constant,
             .name = std::move(name),
             .data = data.detach().contiguous()});
  return functional::to_functional_tensor(tensor);
}

at::Tensor Recorder::wrapNumber(const at::Tensor &number) {
  at::Tensor wrapped = number.detach().clone();
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  return wrapped;
}

void Recorder::refuse(const at::Tensor &tensor, std::string name) {
  refused.emplace(tensor.unsafeGetTensorImpl(), std::move(name));
}

int Recorder::getValue(const at::Tensor &tensor, const std::string &what) {
  at::Tensor held = tensor;
  if (functional::isFunctionalTensor(tensor)) {
    functional::sync(tensor);
    held = functional::from_functional_tensor(tensor);
    if (int id = graph.find(held); id >= 0)
      return id;
  }
  auto dropped = unknown.find(held.unsafeGetTensorImpl());
  throw CaptureError(
      what + " depends on a tensor of unknown origin" +
      (dropped == unknown.end() ? "" : ", which " + dropped->second.second + " reads"));
}

//===----------------------------------------------------------------------===//
// Origins of calls
//===----------------------------------------------------------------------===//

/// The place of the current node of the backward.
int Recorder::findPlace(uint64_t sequence) const {
  auto found = nodeOfSequence.find(sequence);
  return found == nodeOfSequence.end() ? 0 : graph.nodes[found->second].place;
}

/// Maps autograd nodes made since the last call to forward nodes: the newest to the node that is
/// about to be added, earlier ones to the previous node (in-place writes to views).
void Recorder::trackSequence() {
  uint64_t next = at::sequence_number::peek();
  int node = static_cast<int>(graph.nodes.size());
  for (uint64_t sequence = lastSequence; sequence + 1 < next; ++sequence)
    if (node > 0)
      nodeOfSequence.emplace(sequence, node - 1);
  if (next > lastSequence)
    nodeOfSequence.emplace(next - 1, node);
  lastSequence = next;
}

int Recorder::getCurrentPlace() const {
  if (auto node = torch::autograd::get_current_node())
    return findPlace(node->sequence_nr());
  return inBackward ? 0 : getPlace();
}

void Recorder::fail(const c10::OperatorHandle &op, const std::string &reason) {
  std::string text = "operator '" + getCalleeName(op) + "' in " +
                     describePlace(graph.places[getCurrentPlace()], inBackward) + ": " + reason;
  if (!error)
    error = text;
  throw CaptureError(text);
}

//===----------------------------------------------------------------------===//
// Recording
//===----------------------------------------------------------------------===//

std::string fsdp::frontend::describePlace(const Place &place, bool isBackward) {
  std::string text = place.module.empty() ? "the root module" : "module '" + place.module + "'";
  if (isBackward)
    text += " (backward)";
  if (!place.file.empty())
    text += " at " + place.file + ":" + std::to_string(place.line);
  return text;
}

std::string fsdp::frontend::summarizeError(const std::exception &exception) {
  std::string text = exception.what();
  if (auto *error = dynamic_cast<const c10::Error *>(&exception))
    text = error->what_without_backtrace();
  if (text.find("Meta kernel registered") != std::string::npos)
    return "it has no meta kernel, so that the shapes of its results are unknown";
  return text.substr(0, text.find('\n'));
}

/// True if all operands are known, false if the call is to be dropped: functionalization runs some
/// operators on clones to determine shapes, and their results are unused. `origin` is then the
/// first call that read an unknown tensor.
bool Recorder::checkOperands(const c10::OperatorHandle &op, const std::vector<IValue> &arguments,
                             std::string &origin) {
  bool isKnown = true;
  for (const IValue &argument : arguments)
    forEachTensor(argument, [&](const at::Tensor &tensor) {
      if (graph.find(tensor) >= 0 || tensor.unsafeGetTensorImpl()->is_wrapped_number())
        return;
      auto held = refused.find(tensor.unsafeGetTensorImpl());
      if (held != refused.end())
        fail(op, "uses a constant of unknown origin: '" + held->second +
                     "' is no parameter or buffer; register its tensors as buffers");
      if (tensor.is_meta()) {
        isKnown = false;
        auto dropped = unknown.find(tensor.unsafeGetTensorImpl());
        if (dropped != unknown.end())
          origin = dropped->second.second;
        else if (origin.empty())
          origin = "operator '" + getCalleeName(op) + "' in " +
                   describePlace(graph.places[getCurrentPlace()], inBackward);
      } else if (tensor.dim() == 0 && !tensor.requires_grad()) {
        // A number that one of torch's formulas wrapped in a tensor.
        graph.add({.tensor = tensor, .kind = ValueKind::Constant, .data = tensor});
      } else {
        fail(op, "uses a constant of unknown origin: a tensor that is no parameter, buffer, input "
                 "or literal of the model");
      }
    });
  return isKnown;
}

/// Refuses operands of two dtypes: some operators take them on meta, but fail on every device.
void Recorder::checkDtypes(const GraphNode &node) {
  // The first operand, from which on all tensors have one dtype. Batch norm's input may differ.
  static const std::map<std::string, size_t> firstOperands = {
      {"aten::mm", 0},
      {"aten::bmm", 0},
      {"aten::addmm", 0},
      {"aten::baddbmm", 0},
      {"aten::mv", 0},
      {"aten::addmv", 0},
      {"aten::dot", 0},
      {"aten::vdot", 0},
      {"aten::convolution", 0},
      {"aten::native_batch_norm", 1},
      {"aten::_native_batch_norm_legit_functional", 1},
  };
  const auto firstOperand = firstOperands.find(node.op.operator_name().name);
  if (firstOperand == firstOperands.end())
    return;
  // Overloads with a result dtype ("addmm.dtype") add to a product of narrower operands.
  if (node.op.operator_name().overload_name.rfind("dtype", 0) == 0)
    return;
  std::optional<at::ScalarType> first;
  for (const IValue &argument : std::span(node.arguments).subspan(firstOperand->second))
    forEachTensor(argument, [&](const at::Tensor &tensor) {
      if (first.value_or(tensor.scalar_type()) != tensor.scalar_type())
        fail(node.op, std::string("has operands of dtypes ") + toString(*first) + " and " +
                          toString(tensor.scalar_type()) + ", which torch refuses; cast one");
      first = tensor.scalar_type();
    });
}

void Recorder::checkResults(const GraphNode &node) {
  for (const IValue &result : node.results)
    forEachTensor(result, [&](const at::Tensor &tensor) {
      if (tensor.layout() != at::kStrided)
        fail(node.op, std::string("makes a sparse tensor (layout ") +
                          (tensor.layout() == at::kSparse ? "sparse" : "not strided") +
                          "); only dense tensors and gradients are captured");
      if (!isSupportedDtype(tensor.scalar_type()))
        fail(node.op,
             std::string("makes a tensor of unsupported dtype ") + toString(tensor.scalar_type()));
      if (graph.find(tensor) >= 0)
        fail(node.op, "returns its own argument");
    });
}

/// Checks the table of AtenSemantics, which passes rely on, against torch's behaviour.
void Recorder::checkAliasing(const GraphNode &node) {
  const std::string callee = getCalleeName(node.op);
  fsdp::aten::Semantics semantics =
      fsdp::aten::lookupSemantics(llvm::StringRef(callee).split('.').first);
  const c10::StorageImpl *first = nullptr;
  std::vector<const c10::StorageImpl *> storages;
  for (const IValue &argument : node.arguments)
    forEachTensor(argument, [&](const at::Tensor &tensor) {
      storages.push_back(tensor.storage().unsafeGetStorageImpl());
      if (!first)
        first = storages.back();
    });
  for (const IValue &result : node.results)
    forEachTensor(result, [&](const at::Tensor &tensor) {
      const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
      bool isView = storage == first;
      if (tensor.numel() == 0)
        return;
      if (isView != semantics.isView ||
          (!isView && std::find(storages.begin(), storages.end(), storage) != storages.end()))
        fail(node.op, isView ? "returns a view, which the table of operators does not say"
                             : "returns no view of its first operand, against the table of "
                               "operators");
    });
  // CPU flash attention is tagged because of its CUDA variant; it takes no dropout. Backwards of
  // attention are tagged, too, but receive the seeds of their forward.
  bool isTagged = node.op.hasTag(at::Tag::nondeterministic_seeded) &&
                  callee.find("flash_attention_for_cpu") == std::string::npos &&
                  callee.find("_attention_backward") == std::string::npos;
  if (isTagged != semantics.isRandom)
    fail(node.op, isTagged ? "draws random numbers, which the table of operators does not say"
                           : "draws no random numbers, against the table of operators");
}

/// If neither torch nor this library has a meta kernel, the CPU's kernel determines the results;
/// the strides of a GPU's kernel may differ.
void Recorder::callOnMeta(const c10::OperatorHandle &op, DispatchKeySet below,
                          torch::jit::Stack &stack) {
  const size_t base = stack.size() - op.schema().arguments().size();
  const std::vector<IValue> arguments(stack.begin() + base, stack.end());
  auto refuse = [&](const std::exception &exception) {
    fail(op, op.hasTag(at::Tag::dynamic_output_shape)
                 ? "the shape of its result depends on data (if all batches have the same shape "
                   "here: fsdpc.export(specialize=True))"
                 : "cannot be captured: " + summarizeError(exception));
  };
  try {
    op.redispatchBoxed(below, &stack);
  } catch (const c10::NotImplementedError &exception) {
    if (!mayRunOnExample(op))
      refuse(exception);
    try {
      std::vector<IValue> results = runOnExample(op, arguments);
      stack.resize(base);
      std::ranges::move(results, std::back_inserter(stack));
    } catch (const std::exception &other) {
      refuse(other);
    }
  } catch (const std::exception &exception) {
    refuse(exception);
  }
}

static at::Tensor asMeta(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.is_meta() || tensor.dim() == 0)
    return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

/// `argument`, beside tensors on meta: what a program has expanded of real scalars is on meta then,
/// too. Scalars themselves meet tensors of all devices.
static IValue asMeta(const IValue &argument) {
  if (argument.isTensor())
    return asMeta(argument.toTensor());
  if (!argument.isTensorList())
    return argument;
  std::vector<at::Tensor> list = argument.toTensorVector();
  for (at::Tensor &tensor : list)
    tensor = asMeta(tensor);
  return list;
}

void Recorder::record(const c10::OperatorHandle &op, DispatchKeySet below,
                      torch::jit::Stack &stack) {
  if (std::this_thread::get_id() != thread)
    fail(op, "runs on another thread than the capture");
  const c10::FunctionSchema &schema = op.schema();
  size_t count = schema.arguments().size(), base = stack.size() - count;
  GraphNode node{.op = op, .arguments = {stack.begin() + base, stack.end()}, .results = {}};

  bool hasTensor = false, hasMeta = false;
  for (const IValue &argument : node.arguments)
    forEachTensor(argument, [&](const at::Tensor &tensor) {
      hasTensor = true;
      hasMeta |= tensor.is_meta();
    });
  if (hasMeta && op.hasTag(at::Tag::data_dependent_output))
    fail(op, "reads a value that is known at run time only (.item(), or a tensor as a condition)");
  std::string origin;
  bool isKnown = checkOperands(op, node.arguments, origin);
  if (isKnown && schema.is_mutable() && hasMeta)
    fail(op, "writes in place and has no functional form");

  // The program may name devices, but the step runs on one device and the recording on meta. Sizes
  // that a trace computes through scalar tensors keep their data, so that they can be read back.
  bool isScalar = op.operator_name().name == "aten::scalar_tensor";
  for (size_t i = 0; i < count; ++i) {
    const std::string &name = schema.arguments()[i].name();
    IValue &argument = stack[base + i];
    bool isDefaultDevice = !hasTensor && argument.isNone() && name == "device";
    if (isDefaultDevice)
      node.arguments[i] = c10::Device(at::kMeta);
    if (!isScalar && (argument.isDevice() || isDefaultDevice))
      argument = c10::Device(at::kMeta);
    if (name == "pin_memory")
      argument = node.arguments[i] = IValue();
    if (hasMeta)
      argument = asMeta(argument);
  }
  callOnMeta(op, below, stack);
  size_t numResults = schema.returns().size();
  knownResults.apply(op, node.arguments, {stack.end() - numResults, numResults});
  node.results.assign(stack.end() - numResults, stack.end());
  if (!isKnown) {
    for (const IValue &result : node.results)
      forEachTensor(result, [&](const at::Tensor &tensor) {
        if (graph.find(tensor) < 0)
          unknown.try_emplace(tensor.unsafeGetTensorImpl(), tensor, origin);
      });
    return;
  }
  node.isBackward = inBackward;
  checkDtypes(node);
  checkResults(node);
  checkAliasing(node);
  for (const IValue &result : node.results)
    forEachTensor(result, [&](const at::Tensor &tensor) { graph.add({.tensor = tensor}); });
  if (!inBackward)
    trackSequence();
  node.place = getCurrentPlace();
  if (inBackward && op.operator_name().name == "aten::add" &&
      op.operator_name().overload_name == "Tensor")
    sums.recordAddition(static_cast<int>(graph.nodes.size()));
  graph.nodes.push_back(std::move(node));
}
