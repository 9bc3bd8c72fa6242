// TensorBoard's event file: scalars that `tensorboard --logdir` draws.
//
// A file is records: u64 length, u32 masked crc32c of the length, that many bytes, u32 masked crc32c of
// the bytes. Each record is a protobuf message `Event` (tensorflow/core/util/event.proto); we write four of
// its fields by hand rather than depend on protobuf for them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"
#include "base/write_file.h"

namespace tidepool {

struct Scalar {
  std::string_view tag;  // "train/loss"
  double value = 0;      // not finite: written as it is, TensorBoard shows a gap
};

// Records, framed. `seconds`: since 1970.
std::string version_record(double seconds);
std::string restart_record(double seconds, u64 step);  // viewers forget what was written from `step` on
std::string scalars_record(double seconds, u64 step, std::span<const Scalar>);

// One thread. Every record reaches the file before append() returns; after an error nothing of it stays, or
// viewers would read no record after it.
class EventFile {
 public:
  // A new file events.out.tfevents.* in `dir`. `first_step` above 1: continues a run that an earlier file
  // has a part of.
  static Result<std::unique_ptr<EventFile>> create(const std::string& dir, u64 first_step);

  Result<void> append(u64 step, std::span<const Scalar>);

  Result<void> sync() { return log_.sync(); }

 private:
  explicit EventFile(AppendLog log) : log_(std::move(log)) {}

  AppendLog log_;
};

}  // namespace tidepool
