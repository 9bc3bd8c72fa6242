#include "model/rope.h"

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

}  // namespace

RotaryFrequencies inverse_frequencies(const ModelConfig& c, u32 layer) {
  const Rope rope = c.slides(layer) ? Rope{.theta = c.local_rope_theta} : c.rope;
  const u32 pairs = c.rotary_size() / 2;
  CHECK(pairs <= rotary_pairs_max, pairs);
  const u32 original = rope.original_positions != 0 ? rope.original_positions : c.positions;
  RotaryFrequencies out = {};
  for (u32 i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(c.rotary_size());
    const float power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    out[i] = 1.0f / power;
    if (rope.type == RopeType::linear) out[i] /= static_cast<float>(rope.factor);
    if (rope.type == RopeType::llama3) out[i] = llama3_scaled(rope, static_cast<float>(original), out[i]);
  }
  return out;
}

}  // namespace tidepool
