#include <fmt/format.h>

#include "base/check.h"
#include "io/disk.h"
#include "io/thread_disk.h"
#include "io/uring_disk.h"

namespace tidepool {

Result<std::unique_ptr<Disk>> create_disk(SwapFile& file, DiskBackend backend, const DiskOptions& options,
                                          DiskSink sink) {
  CHECK(options.queue_depth >= 1 && options.queue_depth <= queue_depth_max, options.queue_depth);
  if (backend == DiskBackend::threads) return create_thread_disk(file, options, std::move(sink), "");
  auto ring = create_uring_disk(file, options, sink);
  if (ring || backend == DiskBackend::io_uring) return ring;
  return create_thread_disk(file, options, std::move(sink), ring.error().message);
}

}  // namespace tidepool
