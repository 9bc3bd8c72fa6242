#include "tidepool/mamba_checks.h"

#include <fmt/format.h>

#include <utility>

namespace tidepool {
namespace {

constexpr u32 group_columns_max = 1 << 18;  // a group's parameters fit a worker's scratch area three times

// Letters of `layer_kinds` that the family's layers may have.
std::optional<ModelFault> check_layer_kinds(const ModelConfig& c) {
  constexpr std::string_view key = "hybrid_override_pattern";
  const bool parts = style(c.family).one_part;
  const std::string_view known = parts ? "M*-E" : "M*";
  if (!c.layer_kinds.empty() && c.layer_kinds.size() != c.layers)
    return ModelFault{key, fmt::format("'{}' has {} letters for {} layers; it must have one a layer",
                                       c.layer_kinds, c.layer_kinds.size(), c.layers)};
  if (const u64 at = c.layer_kinds.find_first_not_of(known); at != c.layer_kinds.npos)
    return ModelFault{
        key,
        fmt::format("has '{}' for layer {} (the first is 0); layers may be M (Mamba-2){}", c.layer_kinds[at],
                    at, parts ? ", * (attention), - (MLP) and E (experts)" : " and * (attention)")};
  return std::nullopt;
}

}  // namespace

std::optional<ModelFault> check_mamba(const ModelConfig& c) {
  if (traits(c.family).layer_kinds.empty()) return std::nullopt;
  if (auto fault = check_layer_kinds(c)) return fault;
  const MambaConfig& m = c.mamba;
  const bool both = traits(c.family).step_limits_key;
  const std::string_view heads = both ? "mamba_n_heads" : "mamba_num_heads",
                         head = both ? "mamba_d_head" : "mamba_head_dim",
                         state = both ? "mamba_d_state" : "ssm_state_size",
                         groups = both ? "mamba_n_groups" : "n_groups",
                         taps = both ? "mamba_d_conv" : "conv_kernel";
  if (m.groups == 0 || m.heads == 0 || m.heads % m.groups != 0)
    return ModelFault{heads, fmt::format("{} is no multiple of {} {}; each group serves the same number of "
                                         "heads",
                                         m.heads, groups, m.groups)};
  for (const auto& [key, size] : {std::pair{head, m.head_dim}, std::pair{state, m.state_size}})
    if (size == 0 || size > model_state_head_size_max)
      return ModelFault{key, fmt::format("{} must be in 1..{}", size, model_state_head_size_max)};
  if (m.inner() / m.groups > group_columns_max)
    return ModelFault{heads, fmt::format("{} heads of {} columns are more than the {} supported", m.heads,
                                         m.head_dim, group_columns_max)};
  if (both && m.inner() % c.width != 0)
    return ModelFault{heads, fmt::format("{} heads of {} columns are no multiple of model.hidden_size {}, "
                                         "which mamba_expand must be",
                                         m.heads, m.head_dim, c.width)};
  if (m.taps == 0 || m.taps > model_taps_max)
    return ModelFault{taps, fmt::format("{} must be in 1..{}", m.taps, model_taps_max)};
  const std::vector<double>& limits = m.step_limits;
  if (!limits.empty() && (limits.size() != 2 || !(limits[0] >= 0 && limits[0] < limits[1])))
    return ModelFault{"time_step_limit", "must be the least and the most of a step, the least not negative"};
  return std::nullopt;
}

}  // namespace tidepool
