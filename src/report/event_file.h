// EventFile writes TensorBoard's event file: scalars that `tensorboard --logdir` draws.
//
// A file is a sequence of records: u64 length, u32 masked crc32c of the length, `length` bytes, u32 masked
// crc32c of those bytes. Each record is a protobuf message `Event` (tensorflow/core/util/event.proto). Its
// four fields that we need are encoded by hand, so that we do not depend on protobuf.
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
  double value = 0;      // written even if not finite: TensorBoard shows a gap
};

// Records with length and checksums. `seconds`: since 1970.
std::string version_record(double seconds);
std::string restart_record(double seconds, u64 step);  // makes viewers drop earlier records from `step` on
std::string scalars_record(double seconds, u64 step, std::span<const Scalar>);

// EventFile appends records to one file.
//
// Every record reaches the file before append() returns. After an error no part of the record stays in the
// file, because viewers would read no record after a broken one.
//
// THREADS: one.
class EventFile {
 public:
  // Creates a new file events.out.tfevents.* in `dir`. `first_step` above 1: the run is resumed, and an
  // earlier file has its first steps.
  static Result<std::unique_ptr<EventFile>> create(const std::string& dir, u64 first_step);

  Result<void> append(u64 step, std::span<const Scalar>);

  Result<void> sync() { return log_.sync(); }

 private:
  explicit EventFile(AppendLog log) : log_(std::move(log)) {}

  AppendLog log_;
};

}  // namespace tidepool
