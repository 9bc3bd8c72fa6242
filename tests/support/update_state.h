// UpdateState is a chunk set in memory for tests of update rules: a gradient, parameters, and the state of
// any rule.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gradient/gradient.h"
#include "optimizers/optimizer.h"
#include "tidepool/fp16.h"

namespace tidepool::test {

constexpr std::array<Optim, optim_count> all_rules = {Optim::adamw_torch, Optim::lion, Optim::sgd};

struct UpdateState {
  Optim optim;
  StateSlots slots;
  u64 elements;
  std::vector<std::byte> grad;
  std::vector<std::vector<std::byte>> arrays;  // param, then the slots
  std::vector<std::vector<u64>> hashes;        // by array; empty: not asked for
  std::vector<DecaySegment> segments;

  UpdateState(Optim rule, Precision precision, u64 n, u32 seed = 1)
      : optim(rule), slots(state_slots(precision, rule)), elements(n), segments{{0, n, true}} {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    grad.resize(n * value_bytes(precision));
    arrays.emplace_back(slots.bytes(Kind::param, n));
    slots.each([&](Kind slot) { arrays.emplace_back(slots.bytes(slot, n)); });
    for (u64 i = 0; i < n; ++i) {
      set_grad(i, 0.1f * normal(random));
      set_master(i, normal(random));
      for (u32 s = 0; s < rule_slots(); ++s) {
        const float scale = s == 0 ? 0.01f : 0.001f, value = scale * normal(random);
        set_state(s, i, s == 0 ? value : std::abs(value));
      }
    }
  }

  Precision precision() const { return slots.precision(); }
  u32 first_of_rule() const { return slots.has_master() ? 2 : 1; }
  u32 rule_slots() const { return static_cast<u32>(arrays.size()) - first_of_rule(); }

  float state(u32 slot, u64 i) const { return at<float>(arrays[first_of_rule() + slot], i); }
  void set_state(u32 slot, u64 i, float x) { put(arrays[first_of_rule() + slot], i, x); }
  u16 half(u64 i) const { return at<u16>(arrays[0], i); }  // of param
  u16 low(u64 i) const { return at<u16>(arrays[1], i); }   // in bf16
  float master(u64 i) const {
    if (precision() == Precision::bf16) return float_from_split(half(i), low(i));
    return at<float>(arrays[precision() == Precision::fp16 ? 1 : 0], i);
  }
  void set_master(u64 i, float x) {
    if (precision() == Precision::fp32) return put(arrays[0], i, x);
    const bool bf16 = precision() == Precision::bf16;
    put(arrays[0], i, bf16 ? bf16_from_float(x) : fp16_from_float(x));
    bf16 ? put(arrays[1], i, low_from_float(x)) : put(arrays[1], i, x);
  }
  float gradient(u64 i) const {
    if (precision() == Precision::fp32) return at<float>(grad, i);
    const u16 bits = at<u16>(grad, i);
    return precision() == Precision::bf16 ? float_from_bf16(bits) : float_from_fp16(bits);
  }
  void set_grad(u64 i, float x) {
    if (precision() == Precision::fp32) return put(grad, i, x);
    put(grad, i, precision() == Precision::bf16 ? bf16_from_float(x) : fp16_from_float(x));
  }

  UpdateChunk chunk() {
    UpdateChunk c{.elements = elements, .grad = grad.data(), .segments = segments};
    for (u32 a = 0; a < arrays.size(); ++a) c.arrays[a].data = arrays[a].data();
    return c;
  }
  // With hashes of every array; array a has seed 11 + a.
  UpdateChunk hashed_chunk() {
    UpdateChunk c = chunk();
    hashes.assign(arrays.size(), std::vector<u64>(div_up(elements, checksum_block_elements)));
    for (u32 a = 0; a < arrays.size(); ++a) c.arrays[a].hashes = hashes[a], c.arrays[a].seed = 11 + a;
    return c;
  }
  void update(const UpdateScalars& scalars, CorePool& pool) {
    tidepool::update(chunk(), slots, optim, scalars, pool);
  }
  void update_hashed(const UpdateScalars& scalars, CorePool& pool) {
    tidepool::update(hashed_chunk(), slots, optim, scalars, pool);
  }

 private:
  template <class T>
  static T at(const std::vector<std::byte>& bytes, u64 i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  static void put(std::vector<std::byte>& bytes, u64 i, T value) {
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
};

inline UpdateScalars update_scalars_of(Optim optim, u64 t = 3, double norm = 2.0) {
  return update_scalars(update_step(optim, {.learning_rate = 1e-3, .weight_decay = 0.1}, t, 1.0),
                        {.grad_norm = norm, .skipped = !std::isfinite(norm)});
}

}  // namespace tidepool::test
