//===- FilesByShape.cpp - Assigns data files to shapes of samples ---------===//

#include "data/SampleFile.h"

#include <algorithm>

using namespace fsdp::rt;

bool fsdp::rt::haveEqualSamples(const std::vector<InputShape> &inputs,
                                const std::vector<InputShape> &others) {
  auto equal = [](const InputShape &one, const InputShape &other) {
    return one.dtype == other.dtype &&
           std::ranges::equal(std::span(one.sizes).subspan(1), std::span(other.sizes).subspan(1));
  };
  return std::ranges::equal(inputs, others, equal);
}

static std::string numbered(size_t shape) { return "shape " + std::to_string(shape + 1); }

/// The shape of `named`, the "2:" of `2:tokens.bin`.
static Result<size_t> namedShape(const std::string &named, const std::string &path,
                                 size_t numShapes) {
  size_t shape = 0;
  for (char digit : named.substr(0, std::min<size_t>(named.size() - 1, 6)))
    shape = shape * 10 + static_cast<size_t>(digit - '0');
  if (shape == 0 || shape > numShapes)
    return Status::error("'" + named + path + "' is to have samples of shape " +
                         named.substr(0, named.size() - 1) + ", but this binary has " +
                         std::to_string(numShapes) + " shapes");
  return shape - 1;
}

static Result<size_t> shapeOf(const std::string &path,
                              const std::vector<std::vector<InputShape>> &shapes) {
  if (!path.ends_with(".safetensors"))
    return Status::error(
        "'" + path + "' is read as tokens, which fit each of the " + std::to_string(shapes.size()) +
        " shapes of this binary: say which samples they are cut into, as 2:" + path);
  std::optional<size_t> found;
  std::string reasons;
  for (size_t shape = 0; shape < shapes.size(); ++shape) {
    auto opened = openTensors(path, shapes[shape]);
    if (opened.ok() && found)
      return Status::error("'" + path + "' has samples of " + numbered(*found) + " and of " +
                           numbered(shape) + " of this binary");
    if (opened.ok())
      found = shape;
    else
      reasons += (reasons.empty() ? "" : "; ") + numbered(shape) + ": " + opened.status().message();
  }
  if (!found)
    return Status::error("'" + path + "' has samples of none of the " +
                         std::to_string(shapes.size()) + " shapes of this binary: " + reasons);
  return *found;
}

Result<std::vector<std::vector<std::string>>>
fsdp::rt::filesByShape(const std::vector<std::string> &paths,
                       const std::vector<std::vector<InputShape>> &shapes, const char *flag) {
  if (shapes.size() == 1)
    return std::vector<std::vector<std::string>>{paths};
  std::vector<std::vector<std::string>> files(shapes.size());
  for (const std::string &given : paths) {
    const auto [named, path] = splitShape(given);
    Result<size_t> shape =
        named.empty() ? shapeOf(path, shapes) : namedShape(named, path, shapes.size());
    if (!shape.ok())
      return shape.status();
    files[*shape].push_back(path);
  }
  for (size_t shape = 0; shape < shapes.size(); ++shape)
    if (files[shape].empty())
      return Status::error("no file of " + std::string(flag) + " has samples of " +
                           numbered(shape) + " of this binary, " + describeInputs(shapes[shape]));
  return files;
}
