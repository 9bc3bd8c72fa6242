#include "executor/devices.h"

namespace tidepool {
namespace {

const GpuBackend* registered = nullptr;

}  // namespace

void register_gpu_backend(const GpuBackend& backend) { registered = &backend; }
const GpuBackend* gpu_backend() { return registered; }

}  // namespace tidepool
