#include "model/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tidepool {
namespace {

// Frequencies that turn often within the original length are unchanged. Frequencies that turn seldom are
// divided by the factor. Between them the change is gradual.
float llama3_scaled(const Rope& rope, float original_positions, float frequency) {
  const float factor = static_cast<float>(rope.factor);
  const float low = static_cast<float>(rope.low_freq_factor),
              high = static_cast<float>(rope.high_freq_factor);
  const float length = 2 * std::numbers::pi_v<float> / frequency;  // positions per turn
  if (length < original_positions / high) return frequency;
  if (length > original_positions / low) return frequency / factor;
  const float smooth = (original_positions / length - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// The ramp of YaRN in pairs of columns: angles of pairs before `low` are unchanged, those after `high` are
// divided by the factor.
struct Ramp {
  float low, length;
};
Ramp yarn_ramp(const Rope& rope, u32 columns, u32 original_positions) {
  const auto pair_with = [&](double turns) {
    return columns * std::log(original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_with(rope.beta_fast), high = pair_with(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, columns - 1.0);
  if (low == high) high += 0.001;  // as transformers does, against a division by zero
  return {static_cast<float>(low), static_cast<float>(high - low)};
}

float yarn_scaled(const Rope& rope, const Ramp& ramp, u32 pair, float power) {
  const float along = std::clamp((static_cast<float>(pair) - ramp.low) / ramp.length, 0.0f, 1.0f);
  const float unchanged = 1 - along;
  const float slowed = 1.0f / (static_cast<float>(rope.factor) * power);
  return slowed * (1 - unchanged) + 1.0f / power * unchanged;
}

// The base of dynamic angles ("NTK-aware" scaling).
double grown_theta(const ModelConfig& c, u32 tokens) {
  const Rope& rope = c.attention.rope;
  const double columns = c.rotary_size(), longer = std::max(1.0, static_cast<double>(tokens) / c.positions);
  return rope.theta * std::pow(rope.factor * longer - (rope.factor - 1), columns / (columns - 2));
}

// The base of dynamic angles: with an alpha it does not depend on the sequence.
double dynamic_theta(const ModelConfig& c, u32 tokens) {
  const Rope& rope = c.attention.rope;
  if (rope.alpha == 0) return grown_theta(c, tokens);
  const double columns = c.rotary_size();
  return rope.theta * std::pow(rope.alpha, columns / (columns - 2));
}

bool is_long(const Rope& rope, u32 tokens) { return tokens > rope.original_positions; }

}  // namespace

std::string angles_by_length(const ModelConfig& c, u32 tokens) {
  const Rope& rope = c.attention.rope;
  if (style(c.family).positions != PositionKind::rotary) return "";
  if (rope.type == RopeType::longrope)
    return fmt::format(
        "positions: longrope's {} factors, for sequences of {} tokens; the original length is {}",
        is_long(rope, tokens) ? "long" : "short", tokens, rope.original_positions);
  if (rope.type == RopeType::dynamic && rope.alpha == 0 && tokens > c.positions)
    return fmt::format(
        "positions: dynamic, with a base of {:.4g} instead of {:.4g} for sequences of {} tokens",
        grown_theta(c, tokens), rope.theta, tokens);
  return "";
}

RotaryFrequencies inverse_frequencies(const ModelConfig& c, u32 layer, u32 tokens) {
  const Rope rope = c.rope(layer);
  const u32 columns = c.rotary_size(layer), pairs = columns / 2;
  const bool proportional = rope.type == RopeType::proportional;
  const u32 turning = proportional ? static_cast<u32>(rope.partial_factor * columns / 2) : pairs;
  CHECK(pairs <= rotary_pairs_max, pairs);
  const u32 original = rope.original_positions != 0 ? rope.original_positions : c.positions;
  const Ramp ramp = rope.type == RopeType::yarn ? yarn_ramp(rope, columns, original) : Ramp{};
  const double theta = rope.type == RopeType::dynamic ? dynamic_theta(c, tokens) : rope.theta;
  const std::vector<double>& divisors = is_long(rope, tokens) ? rope.long_factor : rope.short_factor;
  RotaryFrequencies out = {};
  for (u32 i = 0; i < turning; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(columns);
    const float power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    out[i] = 1.0f / power;
    if (rope.type == RopeType::linear || proportional) out[i] /= static_cast<float>(rope.factor);
    if (rope.type == RopeType::llama3) out[i] = llama3_scaled(rope, static_cast<float>(original), out[i]);
    if (rope.type == RopeType::yarn) out[i] = yarn_scaled(rope, ramp, i, power);
    if (rope.type == RopeType::longrope) out[i] = 1.0f / (static_cast<float>(divisors[i]) * power);
  }
  return out;
}

}  // namespace tidepool
