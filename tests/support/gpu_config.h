// Configs of small training runs on GPUs, with what a test needs to know about the GPUs.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>

#include "tests/support/train_fixture.h"

#ifdef CUDA_EMULATED
#include "control.h"
#include "tests/support/places.h"
#endif

namespace tidepool::test {

inline Config gpu_config(const TrainDir& dir, Precision precision, const std::string& run = "run") {
  Config c = small_config(dir, run);
  c.model = {.vocab_size = 256, .positions = 16, .width = 64, .layers = 2, .attention = {.heads = 2}};
  c.train.precision = precision;
  if (precision == Precision::fp16) make_fp16_that_overflows(c);
  c.train.sequence_length = 16;
  c.train.max_steps = 3;
  c.train.per_device_train_batch_size = 1;
  c.train.gradient_accumulation_steps = 2;
  c.train.eval_batches = 2;
  c.memory.budgets.device = Bytes{88 * mib};  // 66 MiB of it are workspaces, 8 for graphs
  c.machine.executor = "cuda";
  // tuning writes to memory, and would overwrite the poison that reveals early reads
  c.machine.tune_products = false;
  return c;
}

// "cuda:0,1,2"
inline std::string first_gpus(u32 count) {
  std::string text = "cuda:0";
  for (u32 d = 1; d < count; ++d) text += "," + std::to_string(d);
  return text;
}

#ifdef CUDA_EMULATED
// Changes timing, which varies between runs on a GPU and hides or reveals a missing wait.
inline void change_timing(u64 seed, int devices = 1) {
  ::setenv("TIDEPOOL_NCCL", built_file("tests/libemulated_nccl.so").c_str(), 1);
  emulated_cuda::reset({.seed = seed + 1,
                        .jitter_us_max = seed % 3 == 1 ? 50u : 0u,
                        .late_streams = seed % 3 == 2,
                        .devices = devices});
}
inline void load_cudnn() { ::setenv("TIDEPOOL_CUDNN", built_file("tests/libemulated_cudnn.so").c_str(), 1); }
#else
inline void change_timing(u64, int = 1) {}
inline void load_cudnn() {}
#endif

inline u32 gpus_here() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? static_cast<u32>(devices) : 0;
}

}  // namespace tidepool::test
