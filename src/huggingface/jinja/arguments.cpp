#include "huggingface/jinja/arguments.h"

#include <algorithm>

namespace tidepool::jinja {

Result<void> Arguments::check(std::initializer_list<std::string_view> known) const {
  if (places.size() > known.size())
    return fault(
        fmt::format("{} arguments are given, but at most {} are allowed", places.size(), known.size()));
  for (const auto& [name, value] : names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) return fault(fmt::format("argument '{}' is unknown", name));
    if (static_cast<size_t>(found - known.begin()) < places.size())
      return fault(fmt::format("argument '{}' is given twice", name));
  }
  return {};
}

Result<std::string> Arguments::text(size_t place, std::string_view name) const {
  const Value* value = get(place, name);
  if (value == nullptr) return fault(fmt::format("argument '{}' is missing", name));
  if (value->is_undefined()) return fault(std::get<Undefined>(value->held()).what);
  if (value->text() == nullptr)
    return fault(fmt::format("argument '{}' must be a text, not {}", name, type_name(*value)));
  return *value->text();
}

Result<std::string> Arguments::text_or(size_t place, std::string_view name, std::string preset) const {
  if (const Value* value = get(place, name); value == nullptr || value->is_none()) return preset;
  return text(place, name);
}

Result<i64> Arguments::integer_or(size_t place, std::string_view name, i64 preset) const {
  const Value* value = get(place, name);
  if (value == nullptr || value->is_none()) return preset;
  if (value->boolean()) return *value->boolean() ? 1 : 0;
  if (value->integer() == nullptr)
    return fault(fmt::format("argument '{}' must be an integer, not {}", name, type_name(*value)));
  return *value->integer();
}

bool Arguments::truth_or(size_t place, std::string_view name, bool preset) const {
  const Value* value = get(place, name);
  return value == nullptr ? preset : is_true(*value);
}

}  // namespace tidepool::jinja
