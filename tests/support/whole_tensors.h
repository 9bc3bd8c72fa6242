// WholeTensors is a chunk set of several tensors, with padding between them, for tests of rules that update
// whole tensors.
#pragma once

#include "tests/support/update_state.h"
#include "tidepool/slot_range.h"

namespace tidepool::test {

struct WholeTensors : UpdateState {
  std::vector<UpdateTensor> tensors;
  std::vector<std::byte> scratch;

  // Tensors begin on multiples of 64 elements.
  WholeTensors(Optim rule, Precision precision, std::vector<UpdateTensor> given, u32 seed = 1)
      : UpdateState(rule, precision, place(given), seed), tensors(std::move(given)) {
    if (const auto bytes = optimizer(rule).scratch) scratch.resize(bytes(tensors));
    for (u64 i = 0; i < elements; ++i)
      if (!is_inside(i)) set_grad(i, 0), set_master(i, 0);
    std::mt19937 random(seed + 1);
    std::uniform_real_distribution<float> uniform(0.5e-3f, 2e-3f);
    segments.clear();
    for (u64 t = 0; t < tensors.size(); ++t)
      segments.push_back({t == 0 ? 0 : tensors[t].begin,
                          t + 1 < tensors.size() ? tensors[t + 1].begin : elements, tensors[t].rows > 0});
    slots.each_of_rule(0, [&](Kind slot) {
      if (slots.axis(slot) == SlotAxis::elements) return;
      u64 count = 0;
      for (const UpdateTensor& t : tensors)
        count += slot_elements(slots.axis(slot), t.elements(), t.rows, t.columns);
      std::vector<std::byte>& array = arrays[1 + slot_of(slot)];
      array.resize(count * sizeof(float));
      for (u64 i = 0; i < count; ++i) {
        const float value = uniform(random);
        std::memcpy(&array[i * sizeof(float)], &value, sizeof(float));
      }
    });
  }

  bool is_inside(u64 element) const {
    for (const UpdateTensor& t : tensors)
      if (element >= t.begin && element < t.begin + t.elements()) return true;
    return false;
  }
  std::span<float> factors(u32 slot) {
    std::vector<std::byte>& array = arrays[first_of_rule() + slot];
    return {reinterpret_cast<float*>(array.data()), array.size() / sizeof(float)};
  }

  UpdateChunk chunk() {
    UpdateChunk c = UpdateState::chunk();
    c.tensors = tensors, c.scratch = scratch;
    return c;
  }
  UpdateChunk hashed_chunk() {
    UpdateChunk c = UpdateState::hashed_chunk();
    c.tensors = tensors, c.scratch = scratch;
    return c;
  }

 private:
  // RETURNS: the elements of the chunk.
  static u64 place(std::vector<UpdateTensor>& tensors) {
    u64 end = 0;
    for (UpdateTensor& t : tensors) t.begin = round_up(end, 64), end = t.begin + t.elements();
    return round_up(end, cut_alignment_elements);
  }
};

}  // namespace tidepool::test
