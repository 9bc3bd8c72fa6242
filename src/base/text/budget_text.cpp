#include "base/text/budget_text.h"

#include <fmt/format.h>

#include "base/check.h"

namespace tidepool {
namespace {

u64 unit_of(Bytes bytes) { return bytes.value < 16 * mib ? kib : bytes.value < 64 * gib ? mib : gib; }
std::string in_units(Bytes bytes, u64 unit) {
  return fmt::format("{}{}", div_up(bytes.value, unit), unit == kib ? "KiB" : unit == mib ? "MiB" : "GiB");
}

}  // namespace

Bytes written_above(Bytes bytes) { return Bytes{round_up(bytes.value, unit_of(bytes))}; }

Bytes written_below(Bytes bytes) { return Bytes{bytes.value / unit_of(bytes) * unit_of(bytes)}; }

std::string budget_text(Bytes bytes) { return in_units(bytes, unit_of(bytes)); }

std::string shortage_text(Bytes need, Bytes has) {
  CHECK(need > has, need.value, has.value);
  const Bytes needed = written_above(need), there = written_below(has);
  const Bytes missing = needed - there;
  u64 unit = gib;
  while (missing.value % unit != 0) unit /= 1024;
  return fmt::format("needs {} and has {} (short by {})", budget_text(needed), budget_text(there),
                     in_units(missing, unit));
}

std::string reserved_text(Bytes reserved) {
  if (reserved.value == 0) return {};
  return fmt::format(", of which a GPU's libraries and a step's numbers take {}", budget_text(reserved));
}

}  // namespace tidepool
