#include "data/batches/batch_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/check.h"

namespace tidepool {

namespace {

void pad(const BatchArrays& row) {
  make_empty(row);
  std::ranges::fill(row.starts, 0);
}

}  // namespace

BatchSource::BatchSource(const Dataset& data, BatchShape batch, u32 micro_batches, std::string reference)
    : data_(data),
      batch_(batch),
      micro_batches_(micro_batches),
      steps_per_epoch_(div_up(data.train_sequences(), u64{batch.sequences} * micro_batches)),
      reference_(std::move(reference)) {
  CHECK(batch.tokens == data.sequence_length(), batch.tokens, data.sequence_length());
}

u64 BatchSource::first_of_step(u64 step) const {
  CHECK(step >= 1, step);
  const u64 epoch = (step - 1) / steps_per_epoch_;
  const u64 step_of_epoch = (step - 1) % steps_per_epoch_;
  return epoch * data_.train_sequences() + step_of_epoch * sequences_per_step();
}

u64 BatchSource::sequences_of_step(u64 step) const {
  const u64 begin = (step - 1) % steps_per_epoch_ * sequences_per_step();
  return std::min(sequences_per_step(), data_.train_sequences() - begin);
}

double BatchSource::epoch(u64 step) const {
  return static_cast<double>(step) / static_cast<double>(steps_per_epoch_);
}

Result<void> BatchSource::load_batch(u64 step, u32 micro_batch, const BatchArrays& out) const {
  CHECK(micro_batch < micro_batches_, micro_batch, micro_batches_);
  CHECK(out.tokens.size() == batch_.rows() && out.targets.size() == batch_.rows(), out.tokens.size(),
        out.targets.size());
  const u64 first = first_of_step(step);
  const u64 filled = sequences_of_step(step);
  for (u64 row = 0; row < batch_.sequences; ++row) {
    const u64 place = u64{micro_batch} * batch_.sequences + row;
    const BatchArrays arrays = out.row(row, batch_.tokens);
    if (place < filled) {
      TRY(data_.train_sequence(first + place, arrays));
    } else {
      pad(arrays);
    }
  }
  return {};
}

u64 BatchSource::sum_over(u64 step, u32 (Dataset::*of_sequence)(u64) const) const {
  const u64 first = first_of_step(step);
  const u64 filled = sequences_of_step(step);
  u64 sum = 0;
  for (u64 place = 0; place < filled; ++place) sum += (data_.*of_sequence)(first + place);
  return sum;
}

u64 BatchSource::target_tokens(u64 step) const { return sum_over(step, &Dataset::train_targets); }
u64 BatchSource::tokens(u64 step) const { return sum_over(step, &Dataset::train_tokens); }

u32 BatchSource::empty_micro_batches(u64 step) const {
  return micro_batches_ - static_cast<u32>(div_up(sequences_of_step(step), u64{batch_.sequences}));
}

u64 BatchSource::validation_batches() const { return div_up(data_.validation_sequences(), batch_.sequences); }

Result<void> BatchSource::load_validation_batch(u64 batch, const BatchArrays& out) const {
  CHECK(batch < validation_batches(), batch, validation_batches());
  CHECK(out.tokens.size() == batch_.rows() && out.targets.size() == batch_.rows(), out.tokens.size(),
        out.targets.size());
  for (u64 row = 0; row < batch_.sequences; ++row) {
    const u64 sequence = batch * batch_.sequences + row;
    const BatchArrays arrays = out.row(row, batch_.tokens);
    if (sequence < data_.validation_sequences()) {
      TRY(data_.validation_sequence(sequence, arrays));
    } else {
      pad(arrays);
    }
  }
  return {};
}

std::string BatchSource::fingerprint() const {
  const std::string reference = reference_.empty() ? "" : "+" + reference_;
  return fmt::format("{}{}-{}", data_.fingerprint(), reference, sequences_per_step());
}

StepFingerprint step_fingerprint(const std::string& of_batches) {
  const std::size_t dash = of_batches.rfind('-');
  if (dash == std::string::npos) return {.data = of_batches};
  StepFingerprint out{.data = of_batches.substr(0, dash)};
  const char* end = of_batches.data() + of_batches.size();
  const auto read = std::from_chars(of_batches.data() + dash + 1, end, out.sequences_per_step);
  if (read.ec != std::errc() || read.ptr != end) out.sequences_per_step = 0;
  if (const std::size_t plus = out.data.find('+'); plus != std::string::npos) {
    out.reference = out.data.substr(plus + 1);
    out.data.erase(plus);
  }
  return out;
}

}  // namespace tidepool
