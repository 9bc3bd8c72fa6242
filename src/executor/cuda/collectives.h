// Collectives moves data between the GPUs of a run: NCCL calls in one group on a stream of every device.
//
// A gather is one broadcast per owner. Reductions do not use NCCL's reduction, because the order of its sums
// depends on the number of devices and their wiring. Devices send their parts to the owner, which adds them
// in device order, so that several devices give the bits of one device that accumulates
// (docs/decisions/0016).
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/cuda/nccl_library.h"
#include "executor/shared/collective_op.h"

namespace tidepool {

struct CollectivesOptions {
  struct Device {
    int index = 0;                 // CUDA's device number
    std::span<std::byte> staging;  // device memory for exclusive use, aligned to 256 bytes
  };
  std::vector<Device> devices;
  Nanos patience{60'000'000'000};  // timeout of the first exchange
};

class Collectives {
 public:
  // Exchanges a few bytes on every path, so that NCCL takes its memory before the first step.
  // Errors: NCCL is missing (ErrorKind::usage), or cannot start.
  static Result<std::unique_ptr<Collectives>> create(CollectivesOptions);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  u32 devices() const { return static_cast<u32>(options_.devices.size()); }
  int index(u32 device) const { return options_.devices[device].index; }
  cudaStream_t stream(u32 device) const { return streams_[device]; }
  // One line for people: "NCCL 2.19.3 between 2 GPUs, with 0.31 GiB of each beside memory.device".
  const std::string& describe() const { return describe_; }

  // Submit an operation to every device's stream and return.
  // THREADS: one thread.
  Result<void> all_gather(std::span<const GatheredCuts>);
  Result<void> reduce_scatter(std::span<const ScatteredSum>);

  // RETURNS: the first failure since the start, if any.
  // THREADS: any thread may call.
  Result<void> health() const;
  // Asks NCCL and the devices for errors; aborts everything if there is one.
  // RETURNS: false once collectives are aborted.
  // THREADS: any thread may call.
  bool check();
  // Ends running collectives unfinished and makes later ones no-ops: a failed device does not join an
  // exchange, and the other devices would wait for it for ever.
  // THREADS: any thread may call.
  void abort();

 private:
  explicit Collectives(CollectivesOptions options) : options_(std::move(options)) {}
  Result<void> start();
  Result<void> first_exchange();
  Result<void> await_streams();
  Result<void> exchange(std::span<const ScatteredSum>, u64 begin);
  void add(std::span<const ScatteredSum>, u64 begin);
  float* staged(u32 owner, u32 from) const;
  void abort_locked();

  // Runs calls as one group. The first error counts, and the group is always closed.
  template <class Body>
  Result<void> grouped(const Body& body);

  const CollectivesOptions options_;
  std::unique_ptr<NcclLibrary> nccl_;
  std::vector<cudaStream_t> streams_;
  u64 slice_elements_ = 0;  // elements of a sum that fit the staging memory for all devices but one
  std::string describe_;

  mutable std::mutex mutex_;  // guards the communicators
  std::vector<ncclComm*> comms_;
  bool aborted_ = false;
  int error_ = 0;  // asynchronous error of NCCL
  cudaError_t cuda_error_ = cudaSuccess;
};

}  // namespace tidepool
