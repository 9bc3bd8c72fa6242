#include "optimizers/adafactor/adafactor.h"

#include <cmath>
#include <optional>

#include "kernels/checksum/checksum.h"
#include "kernels/second_moment/second_moment.h"

namespace tidepool {
namespace {

float* floats(const UpdateArray& array) { return reinterpret_cast<float*>(array.data); }

void make_hashes(const UpdateArray& array, u64 bytes) {
  constexpr u64 block = checksum_block_elements * sizeof(float);
  for (u64 at = 0; at < bytes && !array.hashes.empty(); at += block)
    array.hashes[at / block] =
        block_checksum({array.data + at, std::min(block, bytes - at)}, array.seed, at / block);
}

}  // namespace

UpdateStep adafactor_step(const OptimizerSettings& settings, u64 t) {
  const double share = std::pow(static_cast<double>(t), adafactor_decay_rate);
  return {.unclipped = {.factors = {static_cast<float>(1 - share), static_cast<float>(share),
                                    static_cast<float>(settings.learning_rate)},
                        .decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay)},
          .of_gradient = {1}};
}

void adafactor_update(const UpdateChunk& chunk, const StateSlots& slots, const UpdateScalars& scalars,
                      CorePool& pool) {
  const AdafactorScalars s(scalars);
  const UpdateArray& rows = chunk.arrays[1 + slot_of(slots.optimizer_slot(0))];
  const UpdateArray& columns = chunk.arrays[1 + slot_of(slots.optimizer_slot(1))];
  std::optional<FactoredSteps> steps;
  if (!scalars.skip)
    steps.emplace(chunk, slots.precision(), SecondMoments{floats(rows), floats(columns)},
                  SecondMomentScalars{.scale = s.scale,
                                      .keep = s.keep,
                                      .share = s.share,
                                      .epsilon = adafactor_epsilon,
                                      .rate = static_cast<double>(s.learning_rate)},
                  pool);
  UpdateChunk step = part_of(chunk, slots, UpdatePart::step);
  step.source = steps ? &*steps : nullptr;
  update(step, slots, UpdatePart::step, adafactor_tile, scalars, pool);
  u64 of_rows = 0, of_columns = 0;
  for (const UpdateTensor& tensor : chunk.tensors) of_rows += tensor.rows, of_columns += tensor.columns;
  make_hashes(rows, of_rows * sizeof(float));
  make_hashes(columns, of_columns * sizeof(float));
}

}  // namespace tidepool
