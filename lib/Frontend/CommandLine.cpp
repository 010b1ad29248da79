//===- CommandLine.cpp - The flags of a capture ---------------------------===//

#include "fsdp/Frontend/CommandLine.h"

#include "fsdp/Frontend/OperatorLibraries.h"
#include "fsdp/IR/OutputFile.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>

#include <map>

using namespace fsdp;
using namespace fsdp::frontend;

/// The optimizers that have an option, with its defaults: "of sgd and rmsprop (0)". The default
/// that most of them have is first, without their names.
static std::string describeDefaults(const plan::OptimizerOption &option) {
  std::vector<std::string_view> kinds;
  std::map<std::string, std::vector<std::string_view>> kindsOf; // by default
  for (const plan::OptimizerKind &kind : plan::kOptimizerKinds)
    if (const plan::OptimizerDefault *known = plan::findDefault(kind, option.name)) {
      std::string value;
      llvm::raw_string_ostream(value) << llvm::format("%g", known->values[0]);
      if (option.numValues() == 2)
        llvm::raw_string_ostream(value) << llvm::format(",%g", known->values[1]);
      kinds.push_back(kind.name);
      kindsOf[value].push_back(kind.name);
    }
  std::string text;
  if (kinds.size() < plan::kOptimizerKinds.size())
    text = ", of " + llvm::join(kinds, ", ");
  if (option.isFlag())
    return text;
  auto common = llvm::max_element(
      kindsOf, [](const auto &a, const auto &b) { return a.second.size() < b.second.size(); });
  text += " (" + common->first;
  for (const auto &[value, those] : kindsOf)
    if (value != common->first)
      text += "; " + llvm::join(those, ", ") + ": " + value;
  return text + ")";
}

/// Adds the flag `--weight-decay` for the option `weight_decay`.
static void addOptimizerFlag(CLI::App &app, const plan::OptimizerOption &option,
                             OptimizerOptions &options) {
  std::string name(option.name);
  std::string flag = "--" + name;
  llvm::replace(flag, '_', '-');
  std::string help = option.help + describeDefaults(option);
  if (option.isFlag())
    app.add_flag_function(flag, [&options, name](int64_t) { options[name] = {1}; }, help);
  else if (option.numValues() == 2)
    app.add_option_function<std::vector<double>>(
           flag,
           [&options, name](const std::vector<double> &values) {
             options[name].assign(values.begin(), values.end());
           },
           help)
        ->delimiter(',')
        ->expected(2);
  else
    app.add_option_function<double>(
        flag, [&options, name](double value) { options[name] = {value}; }, help);
}

static void addLossScaleFlags(CLI::App &app, std::optional<LossScaling> &scaling) {
  auto add = [&](const std::string &flag, const std::string &help, auto LossScaling::*field) {
    using Number = std::decay_t<decltype(std::declval<LossScaling>().*field)>;
    return app.add_option_function<Number>(
        flag,
        [&scaling, field](const Number &value) {
          if (!scaling)
            scaling.emplace();
          (*scaling).*field = value;
        },
        help);
  };
  const std::string scale = "--loss-scale";
  add(scale,
      "begin the backward with the loss times this number, which follows the gradients, as "
      "torch.amp.GradScaler does: 65536 is its init_scale (no scaling)",
      &LossScaling::init);
  add(scale + "-growth-factor",
      "growth_factor of GradScaler: multiplies the scale after steps without Inf or NaN (2)",
      &LossScaling::growthFactor)
      ->needs(scale);
  add(scale + "-backoff-factor",
      "backoff_factor of GradScaler: multiplies the scale after a step with Inf or NaN (0.5)",
      &LossScaling::backoffFactor)
      ->needs(scale);
  add(scale + "-growth-interval",
      "growth_interval of GradScaler: steps without Inf or NaN after which the scale grows (2000)",
      &LossScaling::growthInterval)
      ->needs(scale);
}

void CaptureFlags::addTo(CLI::App &app) {
  app.add_option("MODEL", model, "TorchScript file (torch.jit), or .pt2 (torch.export.save)")
      ->required();
  app.add_option("--input", inputs,
                 "NAME:DTYPE[DIMS] for each argument of the entry method, as tokens:i64[4,128]; a "
                 ".pt2 file has them itself")
      ->allow_extra_args(false)
      ->delimiter('\0');
  app.add_option("--load-library", libraries,
                 "shared library (TORCH_LIBRARY) of operators that the model uses and torch lacks, "
                 "with meta kernels and autograd formulas; once for each library. The training "
                 "binary needs it, too")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  app.add_option("--method", method, "entry method: takes the batch, returns the scalar loss")
      ->capture_default_str();
  std::vector<std::string> kinds;
  for (const plan::OptimizerKind &kind : plan::kOptimizerKinds)
    kinds.emplace_back(kind.name);
  app.add_option("--optimizer", optimizer,
                 plan::listOptimizers() +
                     " (the optimizer in fsdpc.export's file, else adamw); if it differs from the "
                     "file's, the file's optimizer options do not apply")
      ->check(CLI::IsMember(kinds));
  for (const plan::OptimizerOption &option : plan::kOptimizerOptions)
    addOptimizerFlag(app, option, optimizerOptions);
  app.add_option("--optimizer-state-dtype", stateDtype,
                 "dtype of the optimizer's state, float32 or bfloat16, or of single states, as "
                 "exp_avg=bfloat16,exp_avg_sq=float32 (the parameters'); updates compute in fp32");
  app.add_option("--clip-grad-norm", clipGradNorm,
                 "clip the gradients of all parameters together to this norm, as clip_grad_norm_ "
                 "does before the optimizer's step (no clipping)");
  app.add_option("--clip-norm-type", clipNormType,
                 "norm for --clip-grad-norm, as norm_type of clip_grad_norm_: 1, 2 or inf (2)")
      ->check(CLI::IsMember({"1", "2", "inf"}))
      ->needs("--clip-grad-norm");
  addLossScaleFlags(app, lossScaling);
  app.add_option(
         "--param-dtype", paramDtype,
         "cast fp32 parameters and floating-point inputs to this dtype and compute in it, as "
         "FSDP2's MixedPrecisionPolicy does: bfloat16 or float16; updates stay in fp32")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option(
         "--operator-facts", operatorFacts,
         "file that --operator-report of a training binary wrote on the target machine: dtypes and "
         "strides of operators' results that differ from torch's meta kernels; once for each file")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  app.add_option("--target", target,
                 "device whose fused operators are recorded: cpu, cuda, cuda:sm_90 or cuda:sm_100; "
                 "attention is the operator that torch chooses there, for cuda that of sm_80")
      ->check(CLI::IsMember({"cpu", "cuda", "cuda:sm_90", "cuda:sm_100"}))
      ->capture_default_str();
}

llvm::Expected<std::vector<InputSpec>>
fsdp::frontend::parseInputSpecs(const std::vector<std::string> &texts) {
  std::vector<InputSpec> specs;
  for (const std::string &text : texts) {
    llvm::Expected<InputSpec> spec = parseInputSpec(text);
    if (!spec)
      return spec.takeError();
    for (const InputSpec &other : specs)
      if (other.name == spec->name)
        return llvm::createStringError("input '" + spec->name + "' is given twice");
    specs.push_back(*spec);
  }
  return specs;
}

std::vector<fsdp::NamedPath> CaptureFlags::getFiles() const {
  std::vector<NamedPath> files = {{"MODEL", model}};
  for (const std::string &library : libraries)
    files.push_back({"--load-library", library});
  for (const std::string &facts : operatorFacts)
    files.push_back({"--operator-facts", facts});
  return files;
}

llvm::Expected<CaptureOptions> CaptureFlags::getOptions() const {
  if (llvm::Error error = loadOperatorLibraries(libraries))
    return error;
  CaptureOptions options;
  options.model = model;
  options.method = method;
  options.target = target == "cpu" ? Target::Cpu : Target::Cuda;
  if (target == "cuda:sm_90")
    options.cudaArchitecture = 90;
  else if (target == "cuda:sm_100")
    options.cudaArchitecture = 100;
  options.operatorFacts = operatorFacts;
  options.paramDtype = paramDtype == "bfloat16" ? "bf16" : paramDtype == "float16" ? "f16" : "";
  llvm::Expected<std::vector<InputSpec>> specs = parseInputSpecs(inputs);
  if (!specs)
    return specs.takeError();
  options.inputs = std::move(*specs);
  options.optimizer.kind = symbolizeOptimizerKind(optimizer);
  options.optimizer.options = optimizerOptions;
  if (!stateDtype.empty()) {
    llvm::Expected<StateDtypes> dtypes = parseStateDtypes(stateDtype);
    if (!dtypes)
      return dtypes.takeError();
    options.optimizer.stateDtypes = std::move(*dtypes);
  }
  options.optimizer.lossScaling = lossScaling;
  options.optimizer.clipGradNorm = clipGradNorm;
  options.optimizer.clipNormType = symbolizeNormType(clipNormType).value_or(NormType::Two);
  return options;
}

llvm::Error fsdp::frontend::writeModule(mlir::ModuleOp module, const std::string &path) {
  return writeFile(path, [&](llvm::raw_ostream &os) -> llvm::Error {
    if (llvm::StringRef(path).ends_with(".mlirbc")) {
      if (failed(mlir::writeBytecodeToFile(module, os)))
        return llvm::createStringError("cannot write '" + path + "' as bytecode");
    } else {
      mlir::OpPrintingFlags flags;
      flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
      module->print(os, flags);
    }
    return llvm::Error::success();
  });
}
