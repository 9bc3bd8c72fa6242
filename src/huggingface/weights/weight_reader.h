// WeightReader streams weights from files into the state. A few threads read ahead and convert weights to the
// state's types, so that the disk stays busy while the caller writes.
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

// A tensor of a file, or consecutive elements of it, and their destination.
struct WeightSource {
  SafetensorsModel::Location at;  // F32, BF16 or F16
  u64 begin = 0, elements = 0;    // of the tensor
  u32 window = 0;
  u64 window_offset = 0;  // elements
};

// Elements of a window from `begin` on, as the state stores them.
struct WeightPiece {
  u32 window = 0;
  u64 begin = 0;
  std::span<const std::byte> param;
  std::span<const std::byte> master;  // or master_low; empty: all zeros, or fp32, which has no master
  u32 source = 0;                     // index into `sources`
  // Hash of the bytes in the file, if they are a whole part of TensorHash: hashed_part_bytes, or the last of
  // the tensor. Otherwise the bytes are in `unhashed`: where a source begins or ends within such a part.
  u64 xxh3 = 0;
  std::span<const std::byte> unhashed;
};

// Pieces come in the order of `sources`.
// THREADS: one calls next().
class WeightReader {
 public:
  // Error: does_not_fit.
  // REQUIRES: the files behind `sources` outlive the reader.
  static Result<std::unique_ptr<WeightReader>> create(std::vector<WeightSource> sources, Precision of_state);
  ~WeightReader();
  WeightReader(const WeightReader&) = delete;

  // RETURNS: the next piece, valid until the next call; null at the end.
  // Error: names the file, and the tensor that has a value that is not finite.
  Result<const WeightPiece*> next();

  // Memory taken beside the caller's, for any model.
  static constexpr Bytes memory_max{48 * mib};

 private:
  struct Part {  // of one source
    u32 source = 0;
    u64 begin = 0, elements = 0;  // of the file's tensor
    bool hashed = true;           // a whole part of TensorHash
  };
  struct Buffer {
    std::unique_ptr<std::byte[], void (*)(void*)> memory{nullptr, nullptr};
    bool full = false;
    std::optional<Error> error;
    WeightPiece piece;
  };

  WeightReader(std::vector<WeightSource> sources, Precision of_state);
  void add_parts(u32 source);
  Result<void> start();
  void serve();
  Result<void> fill(const Part&, Buffer&) const;
  Result<std::span<std::byte>> read(const SafetensorsModel::Location&, u64 begin, u64 bytes, Buffer&) const;
  Result<void> convert(const Part&, Dtype, std::span<std::byte> raw, Buffer&) const;

  const std::vector<WeightSource> sources_;
  const Precision precision_;
  std::map<const SafetensorsFile*, Fd> direct_;  // opened with O_DIRECT, where the file system allows it
  std::vector<Part> parts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Buffer> buffers_;  // part i is in buffer i % size
  u64 claimed_ = 0;              // parts claimed by a thread
  u64 taken_ = 0;                // parts returned by next()
  u64 given_back_ = 0;           // parts whose buffers are free again
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidepool
