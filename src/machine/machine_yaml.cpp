// Writes a Machine as commented YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include "base/text/value_text.h"
#include "machine/machine_file.h"
#include "machine/machine_values.h"

namespace tidepool {

namespace {

constexpr size_t comment_column = 34;

std::string in_quotes(const std::string& text) {
  YAML::Emitter out;
  out << YAML::DoubleQuoted << text;
  return out.c_str();
}

struct ValueYaml {
  std::string operator()(const std::string* v) const { return in_quotes(*v); }
  std::string operator()(const u32* v) const { return fmt::format("{}", *v); }
  std::string operator()(const Bytes* v) const { return size_yaml(*v); }
  std::string operator()(const Nanos* v) const { return format_duration(*v); }
  std::string operator()(const RateRef& v) const { return format_rate(*v.per_second, v.unit); }
  std::string operator()(const FractionRef& v) const { return format_real(*v.value); }
  std::string operator()(const DeviceKind* v) const {
    return std::string(device_kind_names[static_cast<u32>(*v)]);
  }
  std::string operator()(const Switches* v) const { return fmt::format("{}", *v); }
  // One point per line, below the key.
  std::string operator()(const DiskPoints* v) const {
    std::string out;
    for (const DiskPoint& point : *v)
      out += fmt::format("\n    - {{block: {}, depth: {}, read: {}, write: {}}}", size_yaml(point.block),
                         point.depth, format_rate(point.read_bytes_per_s, RateUnit::bytes),
                         format_rate(point.write_bytes_per_s, RateUnit::bytes));
    return out.empty() ? "[]" : out;
  }
};

void write_key(std::string& out, const MachineKey& key, Machine& machine, const MachineRemarks& remarks) {
  const char* indent = key.section.empty() ? "" : "  ";
  const std::string name =
      key.section.empty() ? std::string(key.key) : fmt::format("{}.{}", key.section, key.key);
  if (const auto remark = remarks.find(name); remark != remarks.end())
    out += fmt::format("{}# {}\n", indent, remark->second);
  const std::string value = std::visit(ValueYaml{}, key.ref(machine));
  const bool below = value.starts_with('\n');
  std::string line = fmt::format("{}{}:{}{}", indent, key.key, below ? "" : " ", below ? "" : value);
  line.resize(std::max(line.size() + 1, comment_column), ' ');
  out += fmt::format("{}# {}{}\n", line, key.help, below ? value : "");
}

}  // namespace

std::string to_yaml(const Machine& written, const MachineRemarks& remarks) {
  Machine machine = written;  // copied, because keys hold references that can also write
  std::string out, section;
  for (const MachineKey& key : machine_keys()) {
    if (key.section == "disk" && !has_disk(machine)) continue;
    if (key.section == "network" && !has_network(machine)) continue;
    if (key.section != section) out += fmt::format("\n{}:\n", key.section);
    section = key.section;
    write_key(out, key, machine, remarks);
  }
  return out;
}

}  // namespace tidepool
