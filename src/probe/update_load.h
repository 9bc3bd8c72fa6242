// UpdateLoad runs an update rule on arrays far larger than any cache, and scales the same arrays in place (x
// *= c, each byte read and written): the rate of the update, beside the rate of memory.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/machine_keys.h"
#include "optimizers/optimizer.h"

namespace tidepool {

// Machine files have the rate of this rule in bf16.
inline constexpr Optim measured_rule = Optim::adamw_torch;
inline std::string host_update_key() { return "host." + std::string(update_rate_key); }

class UpdateLoad {
 public:
  // Errors: ErrorKind::does_not_fit if memory is short.
  // REQUIRES: the pool outlives the load.
  static Result<std::unique_ptr<UpdateLoad>> create(Precision, Optim, u64 parameters, CorePool&);
  ~UpdateLoad();
  UpdateLoad(const UpdateLoad&) = delete;

  void scale();
  void update();         // without checksums
  void update_hashed();  // with checksums of the bytes it writes, as in runs

  u64 scale_bytes() const { return 2 * chunks_ * chunk_bytes_; }  // read plus written
  // Every array is read, the gradient as often as the rule does; all but the gradient are written.
  u64 update_bytes() const {
    return chunks_ *
           (2 * (chunk_bytes_ - arrays_[0].bytes) + optimizer(optim_).gradient_reads * arrays_[0].bytes);
  }
  double bytes_per_parameter() const {
    return static_cast<double>(update_bytes()) / static_cast<double>(chunks_ * elements_);
  }

 private:
  struct Array {
    u64 bytes, offset;  // within the chunk's part of the memory
    bool halves;        // else floats, or bytes
  };
  struct Piece {
    std::byte* data;
    u64 bytes;
    bool halves;
  };

  UpdateLoad(Precision, Optim, u64 parameters, CorePool&);
  Result<void> take_memory();
  std::byte* address(u64 chunk, const Array& array) const {
    return memory_ + chunk * chunk_bytes_ + array.offset;
  }
  void fill(const Array&, std::byte* data);
  void cut_pieces(const Array&, std::byte* data);
  void update_chunks(bool hashed);
  UpdateChunk chunk_of(u64 chunk, bool hashed);

  const Optim optim_;
  const StateSlots slots_;
  const u64 elements_;  // per chunk
  const u64 chunks_;
  CorePool& pool_;
  const DecaySegment segment_;
  const UpdateTensor tensor_;  // of each chunk: all of it
  std::vector<std::byte> scratch_;
  std::vector<Array> arrays_;  // the gradient, then those that change; they lie side by side as in frames
  u64 chunk_bytes_ = 0;
  void* mapped_ = nullptr;
  u64 mapped_bytes_ = 0;
  std::byte* memory_ = nullptr;  // begins on a huge page
  std::vector<Piece> pieces_;
  std::array<std::vector<u64>, update_arrays_max> hashes_;
  // volatile: read at run time, so that the compiler cannot drop a product with 1.
  volatile float float_factor_ = 1.0f;
  volatile u16 half_factor_ = 1;
};

}  // namespace tidepool
