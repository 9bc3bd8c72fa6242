#include "config/validate.h"

#include <fmt/format.h>

#include <charconv>

#include "tidepool/check.h"

namespace tidepool {

namespace {

// "cpu:N" -> N, "cpu" -> 1; 0: neither.
u32 devices_named(std::string_view executor) {
  if (executor == "cpu") return 1;
  if (!executor.starts_with("cpu:")) return 0;
  const std::string_view digits = executor.substr(4);
  u32 count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return error == std::errc() && end == digits.data() + digits.size() && count <= devices_max ? count : 0;
}

}  // namespace

u32 MachineConfig::devices() const {
  const u32 count = devices_named(executor);
  CHECK(count > 0, executor);
  return count;
}

std::optional<Complaint> validate(const Config& c) {
  if (devices_named(c.machine.executor) == 0) {
    return Complaint{"machine", "executor",
                     fmt::format("'{}' is not cpu or cpu:N with N from 1 to {}", c.machine.executor, devices_max)};
  }
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
