#include "text/budget_text.h"

#include <fmt/format.h>

#include "tidepool/check.h"

namespace tidepool {
namespace {

u64 unit_of(Bytes bytes) { return bytes.value < 16 * mib ? kib : mib; }
Bytes rounded_up(Bytes bytes) { return Bytes{round_up(bytes.value, unit_of(bytes))}; }

}  // namespace

std::string budget_text(Bytes bytes) {
  const u64 unit = unit_of(bytes);
  return fmt::format("{}{}", div_up(bytes.value, unit), unit == kib ? "KiB" : "MiB");
}

std::string shortage_text(Bytes need, Bytes has) {
  CHECK(need > has, need.value, has.value);
  const Bytes needed = rounded_up(need), there{has.value / unit_of(has) * unit_of(has)};
  return fmt::format("needs {} and has {} (short by {})", budget_text(needed), budget_text(there),
                     budget_text(needed - there));
}

}  // namespace tidepool
