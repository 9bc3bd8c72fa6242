// Weights on their way from files into the state: read ahead, and turned into what the state keeps, by a few
// threads, so that the disk is busy while its user writes.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "huggingface/weights/safetensors.h"
#include "tidepool/chunk.h"

namespace tidepool {

// A tensor, and where its elements go.
struct WeightSource {
  SafetensorsModel::Location at;  // F32, BF16 or F16
  u32 window = 0;
  u64 window_offset = 0;  // elements
};

// Elements [begin, begin + ...) of a window, as the state stores them.
struct WeightPiece {
  u32 window = 0;
  u64 begin = 0;
  std::span<const std::byte> param;
  std::span<const std::byte> master;  // or master_low; empty: all zeros, or fp32, which has none
  u32 source = 0;                     // of `sources`
  u64 xxh3 = 0;                       // of the bytes in the file: hashed_part_bytes, the last one fewer
};

// Pieces come in the order of `sources`. One thread takes them.
class WeightReader {
 public:
  // Errors: ErrorKind::does_not_fit. REQUIRES: what `sources` point to outlives the reader.
  static Result<std::unique_ptr<WeightReader>> create(std::vector<WeightSource> sources, Precision of_state);
  ~WeightReader();
  WeightReader(const WeightReader&) = delete;

  // Valid until the next call. Null: that was all. Errors name the file, and the tensor whose values are not
  // finite.
  Result<const WeightPiece*> next();

  // Memory taken beside the caller's, whatever the model.
  static constexpr Bytes memory_max{48 * mib};

 private:
  struct Part {  // of a source
    u32 source = 0;
    u64 begin = 0, elements = 0;
  };
  struct Buffer {
    std::unique_ptr<std::byte[], void (*)(void*)> memory{nullptr, nullptr};
    bool full = false;
    std::optional<Error> error;
    WeightPiece piece;
  };

  WeightReader(std::vector<WeightSource> sources, Precision of_state);
  Result<void> start();
  void serve();
  Result<void> fill(const Part&, Buffer&) const;
  Result<std::span<std::byte>> read(const SafetensorsModel::Location&, u64 begin, u64 bytes, Buffer&) const;
  Result<void> convert(const Part&, Dtype, std::span<std::byte> raw, Buffer&) const;

  const std::vector<WeightSource> sources_;
  const Precision precision_;
  std::map<const SafetensorsFile*, Fd> direct_;  // beside the page cache, where the file system lets us
  std::vector<Part> parts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Buffer> buffers_;  // part i is in buffer i % size
  u64 claimed_ = 0;              // parts that a thread has taken
  u64 taken_ = 0;                // parts that next() has returned
  u64 given_back_ = 0;           // of these, whose buffers are free again
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidepool
