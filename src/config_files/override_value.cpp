#include "config_files/override_value.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/yaml/read_keys.h"

namespace tidepool {
namespace {

YAML::Node items_between_commas(std::string_view text) {
  YAML::Node list(YAML::NodeType::Sequence);
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    list.push_back(std::string(item));
    if (comma == text.size()) return list;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<YAML::Node> override_value(const std::string& place, const std::string& text, bool is_list) {
  if (text.find_first_of("[\"'") == 0) {
    try {
      return YAML::Load(text);
    } catch (const YAML::Exception& e) {
      return fault_at(place, e.msg);
    }
  }
  return is_list && text.find(',') != std::string::npos ? items_between_commas(text) : YAML::Node(text);
}

}  // namespace tidepool
