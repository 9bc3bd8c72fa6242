#include "config/validate.h"

#include <fmt/format.h>

namespace tidepool {

std::optional<Complaint> validate(const Config& c) {
  if (c.model.n_embd % c.model.n_head != 0) {
    return Complaint{"model", "n_head",
                     fmt::format("{} does not divide model.n_embd {}; every head needs the same whole width",
                                 c.model.n_head, c.model.n_embd)};
  }
  if (c.train.sequence_length > c.model.n_positions) {
    return Complaint{"train", "sequence_length",
                     fmt::format("{} is longer than model.n_positions {}; shorten it or raise n_positions",
                                 c.train.sequence_length, c.model.n_positions)};
  }
  if (c.train.warmup_steps >= 1 &&
      c.train.warmup_steps != static_cast<double>(static_cast<u64>(c.train.warmup_steps))) {
    return Complaint{
        "train", "warmup_steps",
        fmt::format("{} is neither a whole number of steps nor a share below 1", c.train.warmup_steps)};
  }
  const u64 tokens = u64{c.train.per_device_train_batch_size} * c.train.sequence_length;
  if (tokens > 0x7fff'ffff) {
    return Complaint{"train", "per_device_train_batch_size",
                     fmt::format("{} sequences of {} tokens are more than 2^31 tokens in one micro-batch; "
                                 "raise gradient_accumulation_steps instead",
                                 c.train.per_device_train_batch_size, c.train.sequence_length)};
  }
  return std::nullopt;
}

}  // namespace tidepool
