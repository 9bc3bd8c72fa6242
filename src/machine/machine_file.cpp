// Reader parses YAML into a Machine. Every error names its place: FILE:LINE.
#include "machine/machine_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "base/read_file.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "base/text/value_text.h"
#include "base/yaml/read_keys.h"
#include "machine/contradiction.h"
#include "machine/machine_values.h"

namespace tidepool {

namespace {

constexpr u64 disk_points_max = 4096;

std::string full_name(const MachineKey& key) {
  return key.section.empty() ? std::string(key.key) : fmt::format("{}.{}", key.section, key.key);
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file), places_(machine_keys().size()) {}

  Result<void> read_file(const YAML::Node& root);
  Result<Machine> finish();

 private:
  Result<void> read_key(const std::string& place, std::string_view section, const std::string& key,
                        const YAML::Node& value);
  Result<void> read_value(const MachineKey& key, const YAML::Node& value);
  Result<void> read_switches(const MachineKey& key, const YAML::Node& value, Switches& to);
  Result<void> read_points(const MachineKey& key, const YAML::Node& value);
  Result<DiskPoint> read_point(const MachineKey& key, const YAML::Node& value);
  Error unknown(const std::string& place, std::string_view section, const std::string& key) const;
  Result<void> check_required() const;
  Result<void> check_switches();
  void fill_in();
  Result<void> check_contradictions() const;

  bool has(std::string_view section, std::string_view key) const;
  bool has_section(std::string_view section) const;
  std::string place_of(const YAML::Node& node) const { return place_in(file_, node); }
  Error key_fault(const std::string& place, const MachineKey& key, std::string_view text) const {
    return fault_at(place, fmt::format("{}: {}", full_name(key), text));
  }

  std::string file_;
  std::vector<std::string> places_;  // by key: its place in the file; empty: the key is absent
  Machine machine_;
};

const MachineKey* find_key(std::string_view section, std::string_view name) {
  for (const MachineKey& key : machine_keys())
    if (key.section == section && key.key == name) return &key;
  return nullptr;
}

Result<void> Reader::read_file(const YAML::Node& root) {
  if (!root.IsMap())
    return fault_at(place_of(root),
                    "a machine file is a map of sections: device, copies, host, disk, network");
  return read_keys(file_, root, [&](const auto& place, const auto& name, const YAML::Node& value) {
    const bool section = std::ranges::find(machine_sections, name) != std::end(machine_sections);
    if (!section) return read_key(place, "", name, value);
    return read_section(file_, name, value, [&](const auto& place, const auto& key, const YAML::Node& value) {
      return read_key(place, name, key, value);
    });
  });
}

Result<void> Reader::read_key(const std::string& place, std::string_view section, const std::string& name,
                              const YAML::Node& value) {
  const MachineKey* key = find_key(section, name);
  if (key == nullptr) return unknown(place, section, name);
  places_[static_cast<size_t>(key - machine_keys().data())] = place;
  return read_value(*key, value);
}

Result<void> Reader::read_value(const MachineKey& key, const YAML::Node& value) {
  const MachineRef ref = key.ref(machine_);
  if (auto* const* switches = std::get_if<Switches*>(&ref)) return read_switches(key, value, **switches);
  if (std::holds_alternative<DiskPoints*>(ref)) return read_points(key, value);
  const std::string place = place_of(value);
  if (!value.IsScalar())
    return key_fault(place, key,
                     value.IsNull() ? fmt::format("has no value ({})", type_name(key))
                                    : fmt::format("must be one value ({})", type_name(key)));
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  if (std::ranges::any_of(value.Scalar(), is_control))
    return key_fault(place, key, "holds a control character, which a terminal would obey; write plain text");
  if (const auto set = set_machine_value(key, machine_, value.Scalar()); !set)
    return key_fault(place, key, fmt::format("'{}' {}", value.Scalar(), set.error().message));
  return {};
}

Result<void> Reader::read_switches(const MachineKey& key, const YAML::Node& value, Switches& to) {
  constexpr std::string_view form = "must be lists of device numbers, like [[0, 1], [2, 3]]";
  if (!value.IsSequence()) return key_fault(place_of(value), key, form);
  for (const YAML::Node& group : value) {
    if (!group.IsSequence()) return key_fault(place_of(group), key, form);
    to.emplace_back();
    for (const YAML::Node& device : group) {
      const auto number = device.IsScalar() ? parse_integer(device.Scalar()) : Result<u64>(Error{});
      if (!number || *number >= none) return key_fault(place_of(device), key, form);
      to.back().push_back(static_cast<u32>(*number));
    }
  }
  return {};
}

Result<void> Reader::read_points(const MachineKey& key, const YAML::Node& value) {
  if (!value.IsSequence() || value.size() > disk_points_max)
    return key_fault(place_of(value), key,
                     fmt::format("must be a list of at most {} points", disk_points_max));
  for (const YAML::Node& item : value) {
    TRY_ASSIGN(const DiskPoint point, read_point(key, item));
    machine_.disk.points.push_back(point);
  }
  return {};
}

Result<DiskPoint> Reader::read_point(const MachineKey& key, const YAML::Node& value) {
  constexpr std::string_view form =
      "a point is written {block: 1MiB, depth: 32, read: 2 GB/s, write: 1 GB/s}, all above 0";
  const auto refuse = [&](std::string_view why) {
    return key_fault(place_of(value), key, fmt::format("{}{}", why, form));
  };
  if (!value.IsMap() || value.size() != std::size(disk_point_keys)) return refuse("");
  for (std::string_view name : disk_point_keys) {
    const YAML::Node part = value[std::string(name)];
    if (!part.IsDefined() || !part.IsScalar()) return refuse(fmt::format("'{}' is missing; ", name));
  }
  const auto text = [&](const char* name) { return value[name].Scalar(); };
  const auto block = parse_size(text("block"));
  const auto depth = parse_integer(text("depth"));
  if (!block || !depth || block->value == 0 || *depth == 0 || *depth >= none) return refuse("");
  const auto rate = [&](const char* name) -> Result<double> {
    Result<double> found = point_rate(text(name));
    if (!found) return refuse(fmt::format("{}: '{}' {}; ", name, text(name), found.error().message));
    return found;
  };
  TRY_ASSIGN(const double read, rate("read"));
  TRY_ASSIGN(const double write, rate("write"));
  return DiskPoint{*block, static_cast<u32>(*depth), read, write};
}

Error Reader::unknown(const std::string& place, std::string_view section, const std::string& key) const {
  const std::string what = section.empty() ? fmt::format("unknown key '{}'", key)
                                           : fmt::format("unknown key '{}' in section '{}'", key, section);
  std::vector<std::string_view> here;
  for (const MachineKey& known : machine_keys()) {
    if (known.section == section) here.push_back(known.key);
    if (known.section != section && known.key == key && !known.section.empty())
      return fault_at(place, fmt::format("{}; it belongs in section '{}'", what, known.section));
  }
  if (section.empty()) here.insert(here.end(), std::begin(machine_sections), std::end(machine_sections));
  const std::string near = did_you_mean(key, here);
  return fault_at(place, what + (near.empty() ? "; docs/machine-files.md lists the keys" : near));
}

bool Reader::has(std::string_view section, std::string_view key) const {
  return !places_[static_cast<size_t>(find_key(section, key) - machine_keys().data())].empty();
}

bool Reader::has_section(std::string_view section) const {
  return std::ranges::any_of(
      machine_keys(), [&](const MachineKey& key) { return key.section == section && has(section, key.key); });
}

Result<void> Reader::check_required() const {
  for (const MachineKey& key : machine_keys()) {
    if (key.need != Need::required || has(key.section, key.key)) continue;
    const bool may_lack = key.section == "disk" || key.section == "network";  // nothing to plan with
    if (may_lack && !has_section(key.section)) continue;
    return fault_at(file_, fmt::format("'{}' is missing in section '{}': {} ({})", key.key, key.section,
                                       key.help, type_name(key)));
  }
  return {};
}

Result<void> Reader::check_switches() {
  const MachineKey& key = *find_key("copies", "switches");
  const std::string& place = places_[static_cast<size_t>(&key - machine_keys().data())];
  std::set<u32> seen;
  for (const auto& group : machine_.copies.switches) {
    for (u32 device : group) {
      if (device >= machine_.device.count)
        return key_fault(place, key,
                         fmt::format("there is no device {}: device.count is {}, and they count from 0",
                                     device, machine_.device.count));
      if (!seen.insert(device).second)
        return key_fault(place, key, fmt::format("device {} stands behind two switches", device));
    }
  }
  if (!machine_.copies.switches.empty() && machine_.copies.switch_bytes_per_s == 0)
    return key_fault(place, key,
                     "copies.switch_rate is missing: give the rate of one switch in each direction");
  return {};
}

// Fills in omitted keys with the values that their help states.
void Reader::fill_in() {
  auto& flops = machine_.device.flops_per_s;
  if (!has("device", "bf16")) flops[static_cast<u32>(MathType::bf16)] = flops[0];
  if (!has("device", "fp16")) flops[static_cast<u32>(MathType::fp16)] = flops[0];
  if (!has("host", "checksum")) machine_.host.checksum_bytes_per_s = machine_.host.memory_bytes_per_s;
  if (has_section("disk") && !has("disk", "mixed")) {
    // Equal bytes read and written, one after the other: half of the bytes at each rate.
    DiskRates& disk = machine_.disk;
    disk.mixed_bytes_per_s = 2 / (1 / disk.read_bytes_per_s + 1 / disk.write_bytes_per_s);
  }
}

Result<void> Reader::check_contradictions() const {
  const auto found = find_contradiction(machine_);
  if (!found) return {};
  const MachineKey& key = *find_key(found->section, found->key);
  return key_fault(places_[static_cast<size_t>(&key - machine_keys().data())], key, found->why);
}

Result<Machine> Reader::finish() {
  TRY(check_required());
  TRY(check_switches());
  fill_in();
  TRY(check_contradictions());
  return machine_;
}

}  // namespace

Result<Machine> parse_machine(std::string_view yaml, std::string_view file_name) {
  Reader reader(file_name);
  try {
    TRY_ASSIGN(const YAML::Node root, only_document(file_name, yaml));
    TRY(reader.read_file(root));
  } catch (const YAML::Exception& e) {
    return not_yaml(file_name, yaml, e);
  }
  return reader.finish();
}

Result<Machine> load_machine(const std::string& path) {
  TRY_ASSIGN(const std::string text,
             read_written_file(
                 path, {.what = "the machine file",
                        .advice = "name one of configs/machines/, or one that `tidepool probe` made"}));
  TRY(check_is_utf8(path, text, ErrorKind::usage));
  return parse_machine(text, path);
}

}  // namespace tidepool
