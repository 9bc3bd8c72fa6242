#include "kernels/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tidepool::cudnn {
namespace {

constexpr int allocation_failed_on_host = 4003, allocation_failed_on_device = 4004;
constexpr const char* usual_file = "libcudnn.so.9";
// 9.15.1. Before, backward is wrong if the last tile of keys is partial; 9.10.0 and 9.10.1 have this bug in
// forward too; before 9.10, minus infinity must be replaced by the lowest float. NVIDIA's own frontend works
// around all of these.
constexpr size_t oldest = 91501;

std::string version_text(size_t v) { return fmt::format("{}.{}.{}", v / 10000, v % 10000 / 100, v % 100); }

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Error missing(const std::string& why) {
  return {ErrorKind::usage,
          fmt::format("cuDNN {} (pip install nvidia-cudnn-cu12 or -cu13, as the toolkit is, and set "
                      "TIDEPOOL_CUDNN to its libcudnn.so.9)",
                      why)};
}

bool find_all(void* library, Library::Calls& c) {
  return find(library, "cudnnGetVersion", c.get_version) &&
         find(library, "cudnnGetErrorString", c.error_string) &&
         find(library, "cudnnGetLastErrorString", c.last_error) && find(library, "cudnnCreate", c.create) &&
         find(library, "cudnnDestroy", c.destroy) && find(library, "cudnnSetStream", c.set_stream) &&
         find(library, "cudnnBackendCreateDescriptor", c.create_descriptor) &&
         find(library, "cudnnBackendDestroyDescriptor", c.destroy_descriptor) &&
         find(library, "cudnnBackendFinalize", c.finalize) &&
         find(library, "cudnnBackendSetAttribute", c.set_attribute) &&
         find(library, "cudnnBackendGetAttribute", c.get_attribute) &&
         find(library, "cudnnBackendExecute", c.execute);
}

}  // namespace

Result<std::unique_ptr<Library>> Library::load() {
  const char* const named = std::getenv("TIDEPOOL_CUDNN");
  if (named != nullptr && std::strcmp(named, "off") == 0)
    return Error{ErrorKind::usage, "cuDNN is switched off by TIDEPOOL_CUDNN=off"};
  // Never closed: it keeps state of each thread that called it.
  void* const library = ::dlopen(named != nullptr ? named : usual_file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return missing(fmt::format("was not found: {}", ::dlerror()));
  std::unique_ptr<Library> out(new Library);
  const bool complete = find_all(library, out->calls_);
  if (out->calls_.get_version != nullptr && out->calls_.get_version() < oldest)
    return missing(fmt::format("{} is older than {}", out->version(), version_text(oldest)));
  if (!complete) return missing(fmt::format("is not what {} is", named != nullptr ? named : usual_file));
  return out;
}

std::string Library::version() const { return version_text(calls_.get_version()); }

Error Library::error(int status, const std::string& doing) const {
  const std::string more = last_error();
  const bool memory = status == allocation_failed_on_host || status == allocation_failed_on_device;
  return {memory ? ErrorKind::does_not_fit : ErrorKind::io,
          fmt::format("{}: cuDNN {} says {}{}{}; {}", doing, version(), calls_.error_string(status),
                      more.empty() ? "" : ": ", more,
                      memory ? "lower memory.device, or end other programs on the GPU"
                             : "TIDEPOOL_CUDNN=off does without it. Resume a run that had begun from its "
                               "last checkpoint")};
}

// RETURNS: the first reason in lines such as `Warning: CUDNN_STATUS_X; Reason: what at: where`, which follow
// a JSON line.
std::string Library::last_error() const {
  char buffer[4000] = "";
  calls_.last_error(buffer, sizeof buffer);
  std::string text = buffer;
  constexpr std::string_view mark = "Reason: ";
  if (const auto at = text.find(mark); at != std::string::npos) text.erase(0, at + mark.size());
  return text.substr(0, std::min(text.find('\n'), text.find(" at: ")));
}

}  // namespace tidepool::cudnn
