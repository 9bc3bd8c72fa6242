// EventFile writes TensorBoard's event file: scalars that `tensorboard --logdir` draws.
//
// The file is a sequence of records: u64 length, u32 masked crc32c of the length, that many bytes, u32 masked
// crc32c of the bytes. Each record is a protobuf message `Event` (tensorflow/core/util/event.proto). Only
// four of its fields are needed, so they are written by hand instead of depending on protobuf.
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
  double value = 0;      // written even if not finite; TensorBoard then shows a gap
};

// Framed records. `seconds`: since 1970.
std::string version_record(double seconds);
std::string restart_record(double seconds, u64 step);  // viewers drop everything from `step` on
std::string scalars_record(double seconds, u64 step, std::span<const Scalar>);

// Every record reaches the file before append() returns. After an error nothing of the record stays, because
// viewers would read no record behind it.
// THREADS: one.
class EventFile {
 public:
  // Creates a new file events.out.tfevents.* in `dir`. `first_step` above 1: the run is continued, and an
  // earlier file has its first part.
  static Result<std::unique_ptr<EventFile>> create(const std::string& dir, u64 first_step);

  Result<void> append(u64 step, std::span<const Scalar>);

  Result<void> sync() { return log_.sync(); }

 private:
  explicit EventFile(AppendLog log) : log_(std::move(log)) {}

  AppendLog log_;
};

}  // namespace tidepool
