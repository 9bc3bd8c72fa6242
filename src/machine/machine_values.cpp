#include "machine/machine_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/overloaded.h"
#include "base/text/nearest.h"
#include "base/text/value_text.h"

namespace tidepool {

namespace {

constexpr u32 count_max = 1 << 12;  // devices, cores, nodes: more is a typing mistake

// Values outside these limits are typing mistakes, most often in the unit. Within the limits a step's
// nanoseconds fit 64 bits: 1 PB at 1 MB/s is 1e18 ns.
constexpr double bytes_per_s_least = 1e6, bytes_per_s_most = 1e16;
constexpr double flops_per_s_least = 1e7, flops_per_s_most = 1e18;
constexpr double point_bytes_per_s_least = 1e3;  // a hard disk, 4 KiB at a time
constexpr double fraction_least = 1e-3;
constexpr Nanos duration_most{1'000'000'000};

struct Range {
  double least, most;
};

Result<double> rate_within(std::string_view text, RateUnit unit, Range range) {
  TRY_ASSIGN(const double rate, parse_rate(text, unit));
  if (rate == 0 || (rate >= range.least && rate <= range.most)) return rate;
  return reason(fmt::format("is too {}; sensible are {} to {}", rate < range.least ? "low" : "high",
                            format_rate(range.least, unit), format_rate(range.most, unit)));
}

Result<void> above_zero(const MachineKey& key, bool zero, std::string_view advice) {
  if (!zero || key.need == Need::optional) return {};
  return reason(fmt::format("must be above 0; {}", advice));
}

Result<void> set_rate(const MachineKey& key, RateRef to, std::string_view text) {
  const Range range = to.unit == RateUnit::bytes ? Range{bytes_per_s_least, bytes_per_s_most}
                                                 : Range{flops_per_s_least, flops_per_s_most};
  TRY_ASSIGN(const double rate, rate_within(text, to.unit, range));
  const bool left_out = key.need == Need::positive;
  TRY(above_zero(key, rate == 0,
                 left_out ? "leave the key out where it is not known"
                          : "`tidepool probe` measures it, or take it from a data sheet"));
  *to.per_second = rate;
  return {};
}

Result<void> set_fraction(FractionRef to, std::string_view text) {
  TRY_ASSIGN(const double value, parse_real(text));
  if (!(value > 0 && value <= 1)) return reason("must be above 0 and at most 1");
  if (value < fraction_least) return reason(fmt::format("is too low; sensible are {} to 1", fraction_least));
  *to.value = value;
  return {};
}

Result<void> set_duration(Nanos* to, std::string_view text) {
  TRY_ASSIGN(const Nanos value, parse_duration(text));
  if (value > duration_most)
    return reason(fmt::format("is too long; sensible are 0 to {}", format_duration(duration_most)));
  *to = value;
  return {};
}

Result<void> set_count(const MachineKey& key, u32* to, std::string_view text) {
  TRY_ASSIGN(const u64 value, parse_integer(text));
  TRY(above_zero(key, value == 0, "there is at least one"));
  if (value > count_max) return reason(fmt::format("is too large; the most is {}", count_max));
  *to = static_cast<u32>(value);
  return {};
}

Result<void> set_kind(DeviceKind* to, std::string_view text) {
  const auto found = std::ranges::find(device_kind_names, text);
  if (found == std::end(device_kind_names))
    return reason(fmt::format("is not one of {}{}", fmt::join(device_kind_names, ", "),
                              did_you_mean(text, device_kind_names)));
  *to = static_cast<DeviceKind>(found - std::begin(device_kind_names));
  return {};
}

}  // namespace

Result<void> set_machine_value(const MachineKey& key, Machine& machine, std::string_view text) {
  const auto lists = [](auto*) -> Result<void> { return reason("must be a list"); };
  return std::visit(Overloaded{
                        [&](std::string* to) -> Result<void> {
                          *to = text;
                          return {};
                        },
                        [&](u32* to) { return set_count(key, to, text); },
                        [&](Bytes* to) -> Result<void> {
                          TRY_ASSIGN(*to, parse_size(text));
                          return above_zero(key, to->value == 0, "write it like 32GiB");
                        },
                        [&](Nanos* to) { return set_duration(to, text); },
                        [&](RateRef to) { return set_rate(key, to, text); },
                        [&](FractionRef to) { return set_fraction(to, text); },
                        [&](DeviceKind* to) { return set_kind(to, text); },
                        [&](Switches* to) { return lists(to); },
                        [&](DiskPoints* to) { return lists(to); },
                    },
                    key.ref(machine));
}

Result<double> point_rate(std::string_view text) {
  TRY_ASSIGN(const double rate,
             rate_within(text, RateUnit::bytes, {point_bytes_per_s_least, bytes_per_s_most}));
  if (rate == 0) return reason("must be above 0");
  return rate;
}

std::string_view type_name(const MachineKey& key) {
  Machine machine;
  return std::visit(Overloaded{
                        [](std::string*) { return "text"; },
                        [](u32*) { return "whole number"; },
                        [](Bytes*) { return "size"; },
                        [](Nanos*) { return "duration"; },
                        [](RateRef to) { return to.unit == RateUnit::bytes ? "rate" : "rate, FLOP/s"; },
                        [](FractionRef) { return "fraction"; },
                        [](DeviceKind*) { return "cpu or cuda"; },
                        [](Switches*) { return "lists of device numbers"; },
                        [](DiskPoints*) { return "list of {block, depth, read, write}"; },
                    },
                    key.ref(machine));
}

std::string size_yaml(Bytes bytes) {
  constexpr std::pair<u64, const char*> units[] = {
      {1'000'000'000'000, "TB"}, {1'000'000'000, "GB"}, {1'000'000, "MB"}};
  if (bytes.value % mib == 0) return format_size(bytes);
  for (const auto& [unit, name] : units)
    if (bytes.value != 0 && bytes.value % unit == 0) return fmt::format("{}{}", bytes.value / unit, name);
  return format_size(bytes);
}

}  // namespace tidepool
