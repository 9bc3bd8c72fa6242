#include "tidepool/update_rule.h"

#include <algorithm>
#include <cmath>

#include "tidepool/model_graph.h"

namespace tidepool {
namespace {

// The part before the first star begins the text, the part behind the last ends it, and each in between is
// where it is found first.
bool matches(std::string_view pattern, std::string_view text) {
  const u64 first = pattern.find('*'), last = pattern.rfind('*');
  if (first == std::string_view::npos) return pattern == text;
  const std::string_view end = pattern.substr(last + 1);
  if (text.size() < first + end.size() || !text.starts_with(pattern.substr(0, first)) || !text.ends_with(end))
    return false;
  text = text.substr(first, text.size() - first - end.size());
  pattern = pattern.substr(first, last - first);
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    const std::string_view part = pattern.substr(0, pattern.find('*'));
    const u64 at = text.find(part);
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + part.size()), pattern.remove_prefix(part.size());
  }
  return true;
}

}  // namespace

float adjusted_rate(AdjustRate adjust, u32 outputs, u32 inputs) {
  const double ratio = static_cast<double>(outputs) / inputs;
  switch (adjust) {
    case AdjustRate::original:
      return static_cast<float>(std::sqrt(std::max(1.0, ratio)));
    case AdjustRate::match_rms_adamw:
      return static_cast<float>(0.2 * std::sqrt(static_cast<double>(std::max(outputs, inputs))));
    case AdjustRate::spectral_unclamped:
      return static_cast<float>(std::sqrt(ratio));
  }
  return 1;
}

bool TensorSelection::has(const Tensor& tensor) const {
  if (kinds == 0 && names.empty()) return true;
  if (kinds >> static_cast<u32>(tensor.kind) & 1) return true;
  return std::ranges::any_of(names, [&](const std::string& name) { return matches(name, tensor.name); });
}

}  // namespace tidepool
