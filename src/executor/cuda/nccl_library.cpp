#include "executor/cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace tidepool {
namespace {

constexpr const char* usual_file = "libnccl.so.2";
constexpr int oldest = 2700;  // 2.7.0: the first version with send and receive

// 2.8.4 is 2804, 2.19.3 is 21903.
std::string version_text(int v) {
  const int of_major = v < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", v / of_major, v % of_major / 100, v % 100);
}

const char* meaning_of(int result) {
  switch (result) {
    case 1:  // ncclUnhandledCudaError
      return "CUDA failed inside NCCL: look at nvidia-smi and dmesg. NCCL's buffers take some hundred MiB of "
             "each GPU beside "
             "memory.device";
    case 2:  // ncclSystemError
      return "the system refused NCCL a resource, often shared memory: in a container, raise its limit "
             "(docker --ipc=host or "
             "--shm-size=1g)";
    case 6:  // ncclRemoteError
      return "the exchange failed on another GPU";
    default:
      return "set NCCL_DEBUG=WARN to see NCCL's own messages";
  }
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Error missing(const std::string& why) {
  return {
      ErrorKind::usage,
      fmt::format(
          "several GPUs exchange data through NCCL, and {}: install it (Ubuntu, from NVIDIA's package "
          "source: apt install libnccl2; anywhere: pip install nvidia-nccl-cu12, and set TIDEPOOL_NCCL to "
          "its libnccl.so.2), or set machine.parallel=layers, which needs none, or train on one GPU with "
          "machine.executor=cuda:0",
          why)};
}

}  // namespace

Result<std::unique_ptr<NcclLibrary>> NcclLibrary::load() {
  const char* const named = std::getenv("TIDEPOOL_NCCL");
  // Never closed: threads of the library outlive its communicators.
  void* const library = ::dlopen(named != nullptr ? named : usual_file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return missing(fmt::format("it was not found ({})", ::dlerror()));
  std::unique_ptr<NcclLibrary> out(new NcclLibrary);
  Calls& c = out->calls_;
  const bool complete =
      find(library, "ncclGetVersion", c.get_version) && find(library, "ncclGetErrorString", c.error_string) &&
      find(library, "ncclCommInitAll", c.init_all) && find(library, "ncclCommDestroy", c.destroy) &&
      find(library, "ncclCommAbort", c.abort) && find(library, "ncclCommGetAsyncError", c.async_error) &&
      find(library, "ncclGroupStart", c.group_start) && find(library, "ncclGroupEnd", c.group_end) &&
      find(library, "ncclBroadcast", c.broadcast) && find(library, "ncclSend", c.send) &&
      find(library, "ncclRecv", c.recv);
  find(library, "ncclGetLastError", c.last_error);
  int version = 0;
  if (c.get_version != nullptr && (c.get_version(&version) != 0 || version < oldest || !complete))
    return missing(fmt::format("version {} is older than 2.7", version_text(version)));
  if (!complete) return missing(fmt::format("{} is something else", named != nullptr ? named : usual_file));
  return out;
}

std::string NcclLibrary::version() const {
  int version = 0;
  return calls_.get_version(&version) == 0 ? version_text(version) : "of unknown version";
}

Error NcclLibrary::error(int result, ncclComm* comm) const {
  const char* const more = calls_.last_error != nullptr ? calls_.last_error(comm) : "";
  return {ErrorKind::io,
          fmt::format("NCCL says {}{}{}; {}. Resume a run that had begun from its last checkpoint",
                      calls_.error_string(result), more != nullptr && *more != 0 ? ": " : "",
                      more != nullptr ? more : "", meaning_of(result))};
}

}  // namespace tidepool
