//===- Quantities.cpp - Times, bytes and shares as text -------------------===//

#include "fsdp/Explain/Quantities.h"

#include <cmath>
#include <cstdio>
#include <iterator>

/// Three or four digits: 2.11, 35.0, 416.0.
static std::string formatDigits(double value, int mostDecimals = 2) {
  int decimals = std::abs(value) < 9.995 ? mostDecimals : std::abs(value) < 999.95 ? 1 : 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string fsdp::explain::formatBytes(int64_t bytes) {
  static constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::llabs(bytes) < 1024)
    return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (std::abs(value) >= 999.95 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return formatDigits(value) + " " + units[unit];
}

std::string fsdp::explain::formatTime(double ns) {
  static constexpr const char *units[] = {"ns", "us", "ms", "s"};
  if (ns == 0)
    return "0 s";
  double value = ns;
  size_t unit = 0;
  while (std::abs(value) >= 999.95 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  // Seconds get milliseconds: the unit in which schedules differ.
  return formatDigits(value, /*mostDecimals=*/unit == 3 ? 3 : 2) + " " + units[unit];
}

std::string fsdp::explain::formatCount(int64_t count) {
  std::string text = std::to_string(std::llabs(count));
  for (int64_t i = static_cast<int64_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(i, ",");
  return count < 0 ? "-" + text : text;
}

std::string fsdp::explain::formatShare(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}
