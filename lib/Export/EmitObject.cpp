//===- EmitObject.cpp - A plan as a native object -------------------------===//

#include "fsdp/Export/EmitObject.h"
#include "fsdp/Codegen/CpuMachine.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <cstddef>

using namespace llvm;
using fsdp::PlanTables;

// The object contains the tables' bytes as they are in memory: host and target have the same ABI.
static_assert(sizeof(fsdp_value) == 24 && sizeof(fsdp_argument) == 24 &&
              sizeof(fsdp_entry) == 136 && sizeof(fsdp_input) == 16 && sizeof(fsdp_buffer) == 16 &&
              sizeof(fsdp_constant) == 24 && sizeof(fsdp_piece) == 32 &&
              sizeof(fsdp_parameter) == 44 && sizeof(fsdp_group) == 176 &&
              sizeof(fsdp_optimizer) == 120 && sizeof(fsdp_communicator) == 24 &&
              sizeof(fsdp_kernel) == 48);
// The plan itself: numbers first, then one pointer per table.
static constexpr size_t kNumTables = 16;
static constexpr size_t kNumberBytes = offsetof(fsdp_plan, values);
static_assert(kNumberBytes % sizeof(void *) == 0 &&
              sizeof(fsdp_plan) == kNumberBytes + (kNumTables + 2) * sizeof(void *));

namespace {
struct Table {
  const char *name;
  const void *data;
  size_t bytes;
};
} // namespace

static Constant *getBytes(LLVMContext &context, const void *data, size_t bytes) {
  return ConstantDataArray::getRaw(StringRef(static_cast<const char *>(data), bytes), bytes,
                                   Type::getInt8Ty(context));
}

/// Defines the functions of a plan's kernels and a table of their addresses; null without kernels.
static Expected<Constant *> addKernels(Module &module, const PlanTables &tables) {
  LLVMContext &context = module.getContext();
  PointerType *pointer = PointerType::get(context, 0);
  if (tables.kernels.empty())
    return ConstantPointerNull::get(pointer);
  Expected<std::unique_ptr<Module>> code =
      parseBitcodeFile(MemoryBufferRef(tables.kernelCode, "kernels of the plan"), context);
  if (!code)
    return code.takeError();
  if (Linker::linkModules(module, std::move(*code)))
    return createStringError("the plan's kernels cannot be linked");
  SmallVector<Constant *> functions;
  for (const std::string &name : tables.kernelFunctions)
    functions.push_back(module.getFunction(name));
  auto *type = ArrayType::get(pointer, functions.size());
  return new GlobalVariable(module, type, /*isConstant=*/true, GlobalValue::InternalLinkage,
                            ConstantArray::get(type, functions), "fsdp_kernel_functions");
}

/// Adds the plan of the first tables, which points to the plans of the others. `name`: "" for an
/// internal symbol.
static Expected<GlobalVariable *> addPlan(Module &module, ArrayRef<PlanTables> program,
                                          StringRef name) {
  Constant *next = ConstantPointerNull::get(PointerType::get(module.getContext(), 0));
  if (program.size() > 1) {
    Expected<GlobalVariable *> others = addPlan(module, program.drop_front(), "");
    if (!others)
      return others.takeError();
    next = *others;
  }
  Expected<Constant *> functions = addKernels(module, program.front());
  if (!functions)
    return functions.takeError();
  const fsdp_plan plan = program.front().getPlan();
  // In the order of the pointers in fsdp_plan.
  const Table tables[] = {
      {"fsdp_values", plan.values, plan.num_values * sizeof(fsdp_value)},
      {"fsdp_arguments", plan.arguments, plan.num_arguments * sizeof(fsdp_argument)},
      {"fsdp_entries", plan.entries, plan.num_entries * sizeof(fsdp_entry)},
      {"fsdp_inputs", plan.inputs, plan.num_inputs * sizeof(fsdp_input)},
      {"fsdp_buffers", plan.buffers, plan.num_buffers * sizeof(fsdp_buffer)},
      {"fsdp_constants", plan.constants, plan.num_constants * sizeof(fsdp_constant)},
      {"fsdp_groups", plan.groups, plan.num_groups * sizeof(fsdp_group)},
      {"fsdp_parameters", plan.parameters, plan.num_parameters * sizeof(fsdp_parameter)},
      {"fsdp_pieces", plan.pieces, plan.num_pieces * sizeof(fsdp_piece)},
      {"fsdp_integers", plan.integers, plan.num_integers * sizeof(int64_t)},
      {"fsdp_optimizer_groups", plan.optimizer_groups,
       plan.num_optimizer_groups * sizeof(fsdp_optimizer)},
      {"fsdp_communicators", plan.communicators,
       plan.num_communicators * sizeof(fsdp_communicator)},
      {"fsdp_kernels", plan.kernels, plan.num_kernels * sizeof(fsdp_kernel)},
      {"fsdp_strings", plan.strings, plan.num_string_bytes},
      {"fsdp_data", plan.data, plan.num_data_bytes},
      {"fsdp_gpu_code", plan.gpu_code, plan.num_gpu_code_bytes}};
  static_assert(std::size(tables) == kNumTables);
  static_assert(offsetof(fsdp_plan, arguments) == kNumberBytes + sizeof(void *) &&
                offsetof(fsdp_plan, entries) == kNumberBytes + 2 * sizeof(void *) &&
                offsetof(fsdp_plan, inputs) == kNumberBytes + 3 * sizeof(void *) &&
                offsetof(fsdp_plan, buffers) == kNumberBytes + 4 * sizeof(void *) &&
                offsetof(fsdp_plan, constants) == kNumberBytes + 5 * sizeof(void *) &&
                offsetof(fsdp_plan, groups) == kNumberBytes + 6 * sizeof(void *) &&
                offsetof(fsdp_plan, parameters) == kNumberBytes + 7 * sizeof(void *) &&
                offsetof(fsdp_plan, pieces) == kNumberBytes + 8 * sizeof(void *) &&
                offsetof(fsdp_plan, integers) == kNumberBytes + 9 * sizeof(void *) &&
                offsetof(fsdp_plan, optimizer_groups) == kNumberBytes + 10 * sizeof(void *) &&
                offsetof(fsdp_plan, communicators) == kNumberBytes + 11 * sizeof(void *) &&
                offsetof(fsdp_plan, kernels) == kNumberBytes + 12 * sizeof(void *) &&
                offsetof(fsdp_plan, strings) == kNumberBytes + 13 * sizeof(void *) &&
                offsetof(fsdp_plan, data) == kNumberBytes + 14 * sizeof(void *) &&
                offsetof(fsdp_plan, gpu_code) == kNumberBytes + 15 * sizeof(void *) &&
                offsetof(fsdp_plan, kernel_functions) == kNumberBytes + 16 * sizeof(void *) &&
                offsetof(fsdp_plan, next) == kNumberBytes + 17 * sizeof(void *));

  LLVMContext &context = module.getContext();
  SmallVector<Constant *> fields = {getBytes(context, &plan, kNumberBytes)};
  for (const Table &table : tables) {
    Constant *bytes = getBytes(context, table.data, table.bytes);
    auto *global = new GlobalVariable(module, bytes->getType(), /*isConstant=*/true,
                                      GlobalValue::InternalLinkage, bytes, table.name);
    global->setAlignment(Align(64));
    fields.push_back(global);
  }
  fields.append({*functions, next});
  Constant *contents = ConstantStruct::getAnon(fields, /*Packed=*/true);
  auto *global =
      new GlobalVariable(module, contents->getType(), /*isConstant=*/true,
                         name.empty() ? GlobalValue::InternalLinkage : GlobalValue::ExternalLinkage,
                         contents, name.empty() ? "fsdp_next_plan" : name);
  global->setAlignment(Align(64));
  return global;
}

/// int main(int argc, char **argv) { return fsdp_train_main(argc, argv, &fsdp_step_plan); }
static void addMain(Module &module, GlobalVariable *plan) {
  LLVMContext &context = module.getContext();
  Type *i32 = Type::getInt32Ty(context), *ptr = PointerType::get(context, 0);
  FunctionCallee run =
      module.getOrInsertFunction("fsdp_train_main", FunctionType::get(i32, {i32, ptr, ptr}, false));
  auto *main = Function::Create(FunctionType::get(i32, {i32, ptr}, false),
                                GlobalValue::ExternalLinkage, "main", module);
  IRBuilder<> builder(BasicBlock::Create(context, "", main));
  builder.CreateRet(builder.CreateCall(run, {main->getArg(0), main->getArg(1), plan}));
}

/// The same for several programs: fsdp_train_meshes_main(argc, argv, programs, count).
static void addMain(Module &module, ArrayRef<Constant *> programs) {
  LLVMContext &context = module.getContext();
  Type *i32 = Type::getInt32Ty(context), *ptr = PointerType::get(context, 0);
  auto *type = ArrayType::get(ptr, programs.size());
  auto *table = new GlobalVariable(module, type, /*isConstant=*/true, GlobalValue::InternalLinkage,
                                   ConstantArray::get(type, programs), "fsdp_programs");
  FunctionCallee run = module.getOrInsertFunction(
      "fsdp_train_meshes_main", FunctionType::get(i32, {i32, ptr, ptr, i32}, false));
  auto *main = Function::Create(FunctionType::get(i32, {i32, ptr}, false),
                                GlobalValue::ExternalLinkage, "main", module);
  IRBuilder<> builder(BasicBlock::Create(context, "", main));
  builder.CreateRet(
      builder.CreateCall(run, {main->getArg(0), main->getArg(1), table,
                               ConstantInt::get(i32, static_cast<uint64_t>(programs.size()))}));
}

Expected<SmallVector<char, 0>> fsdp::emitObject(ArrayRef<std::vector<PlanTables>> programs,
                                                const EmitOptions &options) {
  // The baseline CPU of the architecture: an object runs on every host. Functions of kernels carry
  // their own CPU features; without kernels there is nothing to optimize.
  bool hasKernels = llvm::any_of(programs, [](ArrayRef<PlanTables> program) {
    return llvm::any_of(program, [](const PlanTables &plan) { return !plan.kernels.empty(); });
  });
  const Triple triple = fsdp::codegen::getHostTriple();
  Expected<std::unique_ptr<TargetMachine>> created = fsdp::codegen::createCpuMachine(
      triple, fsdp::codegen::getCpuLevels(triple).front(),
      hasKernels ? CodeGenOptLevel::Default : CodeGenOptLevel::None);
  if (!created)
    return created.takeError();
  TargetMachine *machine = created->get();
  LLVMContext context;
  Module module("fsdp_step", context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(PICLevel::BigPIC);
  SmallVector<Constant *> globals;
  for (ArrayRef<PlanTables> program : programs) {
    Expected<GlobalVariable *> plan =
        addPlan(module, program, globals.empty() ? fsdp::kPlanSymbol : "");
    if (!plan)
      return plan.takeError();
    globals.push_back(*plan);
  }
  if (options.withMain && programs.size() == 1)
    addMain(module, cast<GlobalVariable>(globals.front()));
  else if (options.withMain)
    addMain(module, globals);

  SmallVector<char, 0> object;
  raw_svector_ostream os(object);
  legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, os, nullptr, CodeGenFileType::ObjectFile))
    return createStringError("LLVM cannot emit object files for " +
                             machine->getTargetTriple().str());
  codegen.run(module);
  return object;
}
