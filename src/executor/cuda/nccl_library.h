// NcclLibrary loads NCCL at run time when a run has several GPUs. NCCL may be absent, and nothing is linked
// against it.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "base/result.h"

struct ncclComm;

namespace tidepool {

class NcclLibrary {
 public:
  // Loads libnccl.so.2 from the loader's path, or the file that TIDEPOOL_NCCL names.
  // Errors: NCCL is missing or too old (ErrorKind::usage), with the package to install.
  static Result<std::unique_ptr<NcclLibrary>> load();

  // The functions we call, declared as in nccl.h of NCCL 2. Results are 0 or an error.
  struct Calls {
    int (*get_version)(int*) = nullptr;
    const char* (*error_string)(int) = nullptr;
    int (*init_all)(ncclComm**, int count, const int* devices) = nullptr;
    int (*destroy)(ncclComm*) = nullptr;
    int (*abort)(ncclComm*) = nullptr;
    int (*async_error)(ncclComm*, int* error) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*broadcast)(const void* from, void* to, size_t count, int type, int root, ncclComm*,
                     cudaStream_t) = nullptr;
    int (*send)(const void* from, size_t count, int type, int peer, ncclComm*, cudaStream_t) = nullptr;
    int (*recv)(void* to, size_t count, int type, int peer, ncclComm*, cudaStream_t) = nullptr;
    const char* (*last_error)(ncclComm*) = nullptr;  // null before 2.13
  };
  static constexpr int type_byte = 0, type_float = 7;  // ncclInt8, ncclFloat32
  static constexpr int in_progress = 7;                // a result, but not an error

  const Calls& calls() const { return calls_; }
  std::string version() const;  // "2.19.3"
  // RETURNS: the library's words for a result that is not 0. `comm` may be null.
  Error error(int result, ncclComm* comm) const;

 private:
  NcclLibrary() = default;

  Calls calls_;
};

}  // namespace tidepool
