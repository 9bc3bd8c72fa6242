// UpdateState is a chunk set in memory for tests of update rules: a gradient, parameters, and the state of
// any rule.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/checksum/checksum.h"
#include "kernels/gradient/gradient.h"
#include "optimizers/optimizer.h"
#include "tidepool/fp16.h"

namespace tidepool::test {

// Rules that update any range of elements by itself.
inline std::vector<Optim> find_rules_of_elements() {
  std::vector<Optim> all;
  for (u32 i = 0; i < optim_count; ++i)
    if (const Optim optim = static_cast<Optim>(i); optimizer(optim).of_tensors == nullptr)
      all.push_back(optim);
  return all;
}
inline const std::vector<Optim> rules_of_elements = find_rules_of_elements();

struct UpdateState {
  Optim optim;
  StateSlots slots;
  u64 elements;
  std::vector<std::byte> grad;
  std::vector<std::vector<std::byte>> arrays;  // param, then the slots
  std::vector<std::vector<u64>> hashes;        // by array; empty: not asked for
  std::vector<DecaySegment> segments;
  Rounding rounding{.seed = 77, .first_block = 3};

  UpdateState(Optim rule, Precision precision, u64 n, u32 seed = 1)
      : optim(rule), slots(state_slots(precision, rule)), elements(n), segments{{0, n, true}} {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    grad.resize(n * value_bytes(precision));
    arrays.emplace_back(slots.bytes(Kind::param, n));
    slots.each([&](Kind slot) { arrays.emplace_back(slots.bytes(slot, n)); });
    std::vector<std::vector<float>> state(rule_slots(), std::vector<float>(n));
    for (u64 i = 0; i < n; ++i) {
      set_grad(i, 0.1f * normal(random));
      set_master(i, normal(random));
      for (u32 s = 0; s < rule_slots(); ++s) {
        const float scale = s == 0 ? 0.01f : 0.001f, value = scale * normal(random);
        state[s][i] = s == 0 ? value : std::abs(value);
      }
    }
    for (u32 s = 0; s < rule_slots(); ++s)
      for (u64 i = 0; i < n; i += slot_block_elements)
        put_block(s, i, std::span(state[s]).subspan(i, std::min<u64>(slot_block_elements, n - i)));
  }

  Precision precision() const { return slots.precision(); }
  u32 first_of_rule() const { return slots.has_master() ? 2 : 1; }
  u32 rule_slots() const { return static_cast<u32>(arrays.size()) - first_of_rule(); }

  const StateSlot& slot(u32 number) const { return slots[slots.optimizer_slot(number)]; }
  // A slot's block that has element i, as floats, and in memory.
  std::vector<float> block_of(u32 number, u64 i) const {
    const u64 begin = i / slot_block_elements * slot_block_elements;
    std::vector<float> values(std::min<u64>(slot_block_elements, elements - begin));
    decode_block(slot(number).format, arrays[first_of_rule() + number].data() + offset(number, begin),
                 values);
    return values;
  }
  u64 offset(u32 number, u64 begin) const { return slots.bytes(slots.optimizer_slot(number), begin); }
  float state(u32 number, u64 i) const { return block_of(number, i)[i % slot_block_elements]; }
  void set_state(u32 number, u64 i, float x) {
    std::vector<float> values = block_of(number, i);
    values[i % slot_block_elements] = x;
    put_block(number, i - i % slot_block_elements, values);
  }
  // At element `begin`, where a block begins.
  void put_block(u32 number, u64 begin, std::span<const float> values) {
    encode_block(slot(number).format, values, nullptr, number, 0,
                 arrays[first_of_rule() + number].data() + offset(number, begin));
  }
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
    UpdateChunk c{.elements = elements, .grad = grad.data(), .segments = segments, .rounding = rounding};
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

// After update_hashed(): each array has the checksums of its bytes.
inline void expect_hashes_of_memory(const UpdateState& state) {
  for (u32 a = 0; a < state.arrays.size(); ++a) {
    const std::span<const std::byte> bytes = state.arrays[a];
    const Kind kind = a == 0 ? Kind::param : state_kind(a - 1);
    const u64 block = state.slots.bytes(kind, checksum_block_elements);
    for (u64 i = 0; i < div_up(bytes.size(), block); ++i)
      EXPECT_EQ(
          state.hashes[a][i],
          block_checksum(bytes.subspan(i * block, std::min(block, bytes.size() - i * block)), 11 + a, i))
          << "array " << a;
  }
}

inline UpdateScalars update_scalars_of(Optim optim, u64 t = 3, double norm = 2.0) {
  return update_scalars(update_step(optim, {.learning_rate = 1e-3, .weight_decay = 0.1}, t, 1.0),
                        {.grad_norm = norm, .skipped = !std::isfinite(norm)});
}

}  // namespace tidepool::test
