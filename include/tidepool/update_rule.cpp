#include "tidepool/update_rule.h"

#include <algorithm>

#include "tidepool/model_graph.h"

namespace tidepool {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  const u64 star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star), pattern.remove_prefix(star + 1);
  for (u64 skipped = 0; skipped <= text.size(); ++skipped)
    if (matches(pattern, text.substr(skipped))) return true;
  return false;
}

}  // namespace

bool TensorSelection::has(const Tensor& tensor) const {
  if (kinds == 0 && names.empty()) return true;
  if (kinds >> static_cast<u32>(tensor.kind) & 1) return true;
  return std::ranges::any_of(names, [&](const std::string& name) { return matches(name, tensor.name); });
}

}  // namespace tidepool
