#include "tidepool/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tidepool {
namespace {

constexpr u32 width_max = 1 << 18;  // a row's parameters fit a worker's scratch area twice

std::optional<ModelFault> check_heads(const ModelConfig& c) {
  const ModelKeyNames& keys = key_names(c.family);
  if (c.heads == 0) return ModelFault{keys.heads, "0 is too few; a model needs at least one head"};
  if (c.head_size_given == 0 && c.width % c.heads != 0)
    return ModelFault{keys.heads,
                      fmt::format("{} does not divide model.{} {}; every head needs the same whole width",
                                  c.heads, keys.width, c.width)};
  if (c.head_size_given > model_head_size_max)
    return ModelFault{"head_dim", fmt::format("{} is more than the {} columns supported; lower it",
                                              c.head_size_given, model_head_size_max)};
  if (c.head_size() > model_head_size_max)
    return ModelFault{
        keys.heads, fmt::format("{} makes heads {} columns wide, more than the {} supported; raise model.{}",
                                c.heads, c.head_size(), model_head_size_max, keys.heads)};
  if (c.heads % c.kv_heads() != 0)
    return ModelFault{
        "num_key_value_heads",
        fmt::format("{} does not divide model.{} {}; each head of k and v serves the same number of "
                    "queries' heads",
                    c.kv_heads(), keys.heads, c.heads)};
  if (style(c.family).positions == PositionKind::rotary && c.head_size() % 2 != 0)
    return ModelFault{
        c.head_size_given != 0 ? "head_dim" : keys.heads,
        fmt::format("heads are {} columns wide, and the rotary embedding turns pairs of them; make it even",
                    c.head_size())};
  return std::nullopt;
}

std::optional<ModelFault> check_rope(const ModelConfig& c) {
  const Rope& r = c.rope;
  if (style(c.family).positions != PositionKind::rotary) return std::nullopt;
  if (!(r.theta > 0))
    return ModelFault{"rope_parameters.rope_theta", fmt::format("{} is not positive", r.theta)};
  if (!(c.local_rope_theta > 0))
    return ModelFault{"rope_local_base_freq", fmt::format("{} is not positive", c.local_rope_theta)};
  if (c.sliding_window_pattern == 0)
    return ModelFault{"sliding_window_pattern", "0 is too few; 1 means that every layer sees all tokens"};
  if (!(r.partial_factor > 0 && r.partial_factor <= 1) || c.rotary_size() < 2 || c.rotary_size() % 2 != 0)
    return ModelFault{
        "rope_parameters.partial_rotary_factor",
        fmt::format("{} turns {} of a head's {} columns; it must be at most 1 and turn pairs of them",
                    r.partial_factor, c.rotary_size(), c.head_size())};
  if (r.type == RopeType::plain) return std::nullopt;
  if (traits(c.family).plain_rope)
    return ModelFault{"rope_parameters.rope_type", fmt::format("{} is none that {} models have; set it to {}",
                                                               rope_type_names[static_cast<u32>(r.type)],
                                                               name(c.family), rope_type_names[0])};
  if (!(r.factor >= 1))
    return ModelFault{"rope_parameters.factor",
                      fmt::format("{} would make positions denser; it must be at least 1", r.factor)};
  if (r.type == RopeType::llama3 && !(r.low_freq_factor > 0 && r.low_freq_factor < r.high_freq_factor))
    return ModelFault{"rope_parameters.low_freq_factor",
                      fmt::format("{} must be positive and below high_freq_factor {}", r.low_freq_factor,
                                  r.high_freq_factor)};
  return std::nullopt;
}

std::optional<ModelFault> check_numbers(const ModelConfig& c) {
  const ModelKeyNames& keys = key_names(c.family);
  if (c.vocab_size == 0)
    return ModelFault{"vocab_size", "0 is too few; give the number of tokens, 256 for bytes"};
  if (c.width == 0 || c.width > width_max)
    return ModelFault{keys.width, fmt::format("{} must be in 1..{}", c.width, width_max)};
  if (c.layers == 0) return ModelFault{keys.layers, "0 is too few; a model needs at least one layer"};
  if (style(c.family).always_tied && !c.tied)
    return ModelFault{"tie_word_embeddings", "GPT-2's head is tied; leave the key out"};
  if (c.positions == 0) return ModelFault{keys.positions, "0 is too few; a model sees at least one token"};
  if (!(c.norm_epsilon > 0))
    return ModelFault{keys.norm_epsilon, fmt::format("{} must be positive", c.norm_epsilon)};
  if (!(c.initializer_range >= 0))
    return ModelFault{"initializer_range", fmt::format("{} must not be negative", c.initializer_range)};
  for (auto [key, p] : {std::pair{std::string_view("embd_pdrop"), c.embedding_dropout},
                        std::pair{keys.attention_dropout, c.attention_dropout},
                        std::pair{std::string_view("resid_pdrop"), c.residual_dropout}}) {
    if (!(p >= 0 && p < 1)) return ModelFault{key, fmt::format("{} must be in [0, 1)", p)};
  }
  return std::nullopt;
}

}  // namespace

// A gated MLP has two matrices up and one down. With an inner size of 8/3 width they have as many weights as
// the two matrices of a GELU MLP with 4 width.
u32 ModelConfig::inner() const {
  if (inner_given != 0) return inner_given;
  return style(family).mlp == MlpKind::gelu ? 4 * width : static_cast<u32>(round_up(u64{8} * width / 3, 256));
}

u32 ModelConfig::attention_window(u32 layer) const {
  switch (traits(family).window) {
    case WindowKind::none:
      return 0;
    case WindowKind::every_layer:
      return sliding_window;
    case WindowKind::by_switch:
      return use_sliding_window && layer >= max_window_layers ? sliding_window : 0;
    case WindowKind::by_layer:
      // transformers demands a window of such layers: all positions stand for none.
      return slides(layer) && sliding_window < positions ? sliding_window : 0;
  }
  return 0;
}

u32 ModelConfig::window_of_any_layer() const {
  u32 window = 0;
  for (u32 layer = 0; layer < layers; ++layer) window = std::max(window, attention_window(layer));
  return window;
}

ModelConfig default_model(Family family) {
  ModelConfig c = {.family = family,
                   .norm_epsilon = style(family).norm_epsilon,
                   .tied = style(family).always_tied || traits(family).tied_default};
  if (traits(family).left_out.rope_theta != 0) c.rope.theta = traits(family).left_out.rope_theta;
  return c;
}

std::optional<ModelFault> check_model(const ModelConfig& c) {
  for (const auto check : {check_numbers, check_heads, check_rope})
    if (std::optional<ModelFault> fault = check(c)) return fault;
  return std::nullopt;
}

}  // namespace tidepool
