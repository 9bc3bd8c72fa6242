#include "huggingface/adapters/adapter_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/regex.hpp>
#include <cctype>
#include <charconv>
#include <optional>
#include <span>
#include <stdexcept>

namespace tidepool {
namespace json = boost::json;
namespace {

using Modules = AdapterTargets::Modules;

Error fault(std::string text) { return {ErrorKind::bad_input, std::move(text)}; }

bool is_said(const json::value* v) { return v != nullptr && !v->is_null(); }

Result<Modules> modules_of(const json::object& o, const char* key) {
  const json::value* v = o.if_contains(key);
  if (!is_said(v)) return Modules{};
  if (v->is_string()) return Modules{.names = {}, .pattern = std::string(std::string_view(v->get_string()))};
  const Error wrong = fault(fmt::format("{}: must be a list of modules' names, or a pattern", key));
  if (!v->is_array()) return wrong;
  Modules out;
  for (const json::value& name : v->get_array()) {
    if (!name.is_string() || name.get_string().empty()) return wrong;
    out.names.emplace_back(std::string_view(name.get_string()));
  }
  return out;
}

Result<std::vector<u64>> layers_of(const json::object& o) {
  const json::value* v = o.if_contains("layers_to_transform");
  if (!is_said(v)) return std::vector<u64>{};
  const json::array one = {*v};
  std::vector<u64> out;
  for (const json::value& layer : v->is_array() ? v->get_array() : one) {
    if (!layer.is_int64() || layer.get_int64() < 0)
      return fault("layers_to_transform: must be a layer's number, or a list of layers' numbers");
    out.push_back(static_cast<u64>(layer.get_int64()));
  }
  return out;
}

// A key of letters, digits, dots and escaped dots, as an unescaped text; an unescaped dot is any character.
struct PlainKey {
  std::string text;
  std::vector<bool> any;
};
std::optional<PlainKey> plain_key(const std::string& key) {
  PlainKey out;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const bool escaped = key[i] == '\\' && i + 1 < key.size() && key[i + 1] == '.';
    const bool plain =
        (std::isalnum(static_cast<unsigned char>(key[i])) != 0) || key[i] == '_' || key[i] == '.';
    if (!escaped && !plain) return std::nullopt;
    out.any.push_back(!escaped && key[i] == '.');
    out.text += escaped ? '.' : key[i];
    i += escaped;
  }
  return out;
}

bool ends_with_one_of(std::string_view module, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return module.size() > name.size() && module.ends_with(name) &&
           module[module.size() - name.size() - 1] == '.';
  });
}

bool is_one_of(std::string_view module, const std::vector<std::string>& names) {
  return std::ranges::find(names, module) != names.end();
}

}  // namespace

Result<bool> matches_pattern(std::string_view module, const std::string& pattern) {
  try {
    return boost::regex_match(module.begin(), module.end(), boost::regex(pattern));
  } catch (const std::runtime_error& e) {  // also thrown when a pattern takes too many steps
    return fault(
        fmt::format("the pattern '{}' cannot be read: {}; name the modules in a list", pattern, e.what()));
  }
}

Result<bool> ends_with_key(std::string_view module, const std::string& key) {
  const std::optional<PlainKey> plain = plain_key(key);
  if (!plain) return matches_pattern(module, fmt::format("(.*\\.)?({})", key));
  const std::size_t size = plain->text.size();
  if (size > module.size() || (size < module.size() && module[module.size() - size - 1] != '.')) return false;
  const std::string_view end = module.substr(module.size() - size);
  for (std::size_t i = 0; i < size; ++i)
    if (!plain->any[i] && end[i] != plain->text[i]) return false;
  return true;
}

std::optional<LayerModule> layer_module_of(std::string_view path) {
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    const std::size_t next = std::min(path.find('.', dot + 1), path.size());
    const std::string_view part = path.substr(dot + 1, next - dot - 1);
    u64 layer = 0;
    const auto [end, ec] = std::from_chars(part.data(), part.data() + part.size(), layer);
    if (ec == std::errc() && end == part.data() + part.size())
      return LayerModule{layer, path.substr(std::min(next + 1, path.size()))};
  }
  return std::nullopt;
}

Result<AdapterTargets> parse_adapter_targets(const json::object& o) {
  AdapterTargets out;
  TRY_ASSIGN(out.named, modules_of(o, "target_modules"));
  TRY_ASSIGN(out.excluded, modules_of(o, "exclude_modules"));
  TRY_ASSIGN(Modules parameters, modules_of(o, "target_parameters"));
  if (!parameters.pattern.empty()) return fault("target_parameters: must be a list of parameters' names");
  out.parameters = std::move(parameters.names);
  TRY_ASSIGN(out.layers, layers_of(o));
  return out;
}

Result<bool> AdapterTargets::hold(std::string_view module) const {
  if (is_one_of(module, excluded.names) || ends_with_one_of(module, excluded.names)) return false;
  if (!excluded.pattern.empty()) {
    TRY_ASSIGN(const bool out, matches_pattern(module, excluded.pattern));
    if (out) return false;
  }
  if (all_linear()) return true;
  if (!named.pattern.empty()) return matches_pattern(module, named.pattern);
  if (is_one_of(module, named.names)) return true;
  if (!ends_with_one_of(module, named.names)) return false;
  const std::optional<LayerModule> at = layer_module_of(module);
  return layers.empty() || (at && std::ranges::find(layers, at->layer) != layers.end());
}

std::string targets_text(const AdapterTargets& targets) {
  constexpr std::size_t names_shown_max = 8;
  if (!targets.named.pattern.empty()) return targets.named.pattern;
  std::vector<std::string> names = targets.named.names;
  names.insert(names.end(), targets.parameters.begin(), targets.parameters.end());
  const auto shown = std::span(names).first(std::min(names.size(), names_shown_max));
  return fmt::format("{}{}", fmt::join(shown, ", "), shown.size() < names.size() ? " ..." : "");
}

}  // namespace tidepool
