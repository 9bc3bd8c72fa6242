// Lists the keys of a machine file as data, so that reading, writing and docs agree.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "base/text/rate_text.h"
#include "tidepool/machine.h"

namespace tidepool {

struct RateRef {
  double* per_second;
  RateUnit unit;
};
struct FractionRef {
  double* value;
};
using Switches = std::vector<std::vector<u32>>;
using DiskPoints = std::vector<DiskPoint>;
using MachineRef = std::variant<std::string*, u32*, Bytes*, Nanos*, RateRef, FractionRef, DeviceKind*,
                                Switches*, DiskPoints*>;

enum class Need : u8 {
  required,
  positive,  // may be left out; must be above 0 if present
  optional,  // may be left out or 0
};

struct MachineKey {
  std::string_view section;  // "" for keys at the top level
  std::string_view key;
  MachineRef (*ref)(Machine&);
  Need need = Need::positive;
  std::string_view help;  // meaning; for optional keys also the value that holds if left out
};

std::span<const MachineKey> machine_keys();
inline constexpr std::string_view update_rate_key = "adam";  // of section host
inline constexpr std::string_view machine_sections[] = {"device", "copies", "host", "disk", "network"};
inline constexpr std::string_view device_kind_names[] = {"cpu", "cuda"};  // in the order of DeviceKind
inline constexpr std::string_view disk_point_keys[] = {"block", "depth", "read", "write"};

}  // namespace tidepool
