// Checks of GPUs before a run takes one: who holds it, its precisions, and how it is started.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_devices.h"
#include "executor/cuda/gpu_processes.h"
#include "executor/devices.h"
#include "fit/alternatives.h"
#include "fit/executor_choice.h"
#include "fit/job.h"
#include "inference/evaluate.h"
#include "inference/generate.h"
#include "tests/support/asked_plan.h"
#include "tests/support/gpu_config.h"
#include "tests/support/places.h"

namespace tidepool::emulated_gpus_test {

using test::gpu_config;
using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EmulatedGpus : public ::testing::Test {
 protected:
  EmulatedGpus() {
    emulated_cuda::reset();
    register_cuda();
  }
  const TrainDir dir_;
};

// ---- precisions

class EmulatedOldGpu : public EmulatedGpus {
 protected:
  EmulatedOldGpu() { emulated_cuda::reset({.major = 7, .minor = 5}); }
  static void expect_refusal(const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::usage) << error.message;
    EXPECT_THAT(
        error.message,
        AllOf(HasSubstr("cuda:0 (Emulated GPU) has no bf16 (compute capability 7.5; 8.0 is the first)"),
              HasSubstr("train.precision=fp16"), HasSubstr("fp32 masters")));
  }
};

TEST_F(EmulatedOldGpu, Bf16IsRefusedBeforeAnythingIsPlanned) {
  Config config = gpu_config(dir_, Precision::bf16);
  config.memory.budgets.device = Bytes{mib};  // no plan fits
  const auto report = test::run(config);
  ASSERT_FALSE(report);
  expect_refusal(report.error());
}

TEST_F(EmulatedOldGpu, OtherPrecisionsTrain) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const auto report = test::run(gpu_config(dir_, precision, std::string(name(precision))));
    ASSERT_TRUE(report) << report.error().message;
  }
}

// The cores would take a hundred times as long, and the user did not ask for them.
TEST_F(EmulatedOldGpu, AutoDoesNotFallBackToTheCpuSilently) {
  Config config = gpu_config(dir_, Precision::bf16);
  config.machine.executor = "auto";
  const auto line = resolve_executor(config);
  ASSERT_FALSE(line);
  expect_refusal(line.error());
  config = gpu_config(dir_, Precision::fp16);
  config.machine.executor = "auto";
  EXPECT_TRUE(resolve_executor(config));
  EXPECT_EQ(config.machine.executor, "cuda");
}

TEST_F(EmulatedOldGpu, ABf16RunOfAnotherGpuIsRefused) {
  emulated_cuda::reset();
  const Config config = gpu_config(dir_, Precision::bf16);
  ASSERT_TRUE(test::run(config));
  emulated_cuda::reset({.major = 7, .minor = 5});
  const auto note = [](const std::string& line) { ADD_FAILURE() << line; };
  const auto generated = generate_text(
      {.path = config.output.dir, .generate = {.prompt = "the ", .max_new_tokens = 1}, .note = note},
      [](std::string_view) {});
  ASSERT_FALSE(generated);
  expect_refusal(generated.error());
  const auto evaluated =  // no plan fits it
      evaluate_model({.source = config.output.dir, .overrides = {"memory.device=1MiB"}, .note = note});
  ASSERT_FALSE(evaluated);
  expect_refusal(evaluated.error());
  const auto in_fp16 =
      evaluate_model({.source = config.output.dir, .overrides = {"train.precision=fp16"}, .note = note});
  EXPECT_TRUE(in_fp16) << in_fp16.error().message;
}

// RETURNS: the advised precision for host memory that is too small for fp32 and large enough for 16 bits.
std::string advised_precision(Config config) {
  config.memory.home = HomePolicy::host;
  for (u64 kibs = 1024; kibs < 8192; kibs += 32) {
    config.memory.budgets = {Bytes{88 * mib}, Bytes{kibs * kib}, Bytes{0}};
    const PlanOptions options = plan_options(config);
    const auto plan = make_plan(make_job(config).value().graph, options);
    if (plan) break;
    const BudgetRoom room{.device = options.budgets.device, .host = options.budgets.host, .disk = Bytes{0}};
    const std::string words =
        add_alternatives(make_job(config).value(), options, room, plan.error(), {}).message;
    if (const u64 at = words.find("train.precision="); at != std::string::npos) return words.substr(at, 20);
  }
  return {};
}

TEST_F(EmulatedOldGpu, AnAdvisedPrecisionIsSupported) {
  EXPECT_EQ(advised_precision(gpu_config(dir_, Precision::fp32)), "train.precision=fp16");
  emulated_cuda::reset();
  EXPECT_EQ(advised_precision(gpu_config(dir_, Precision::fp32)), "train.precision=bf16");
}

// A GPU too old for all precisions is refused for its age, without advice on precision.
TEST_F(EmulatedOldGpu, GpusBelowTheMinimumAreRefused) {
  emulated_cuda::reset({.major = 6, .minor = 1});
  EXPECT_TRUE(check_precision(gpu_config(dir_, Precision::bf16)));
  const auto report = test::run(gpu_config(dir_, Precision::bf16));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("7.0 (V100) is the least"));
}

// ---- who holds them

class EmulatedHolders : public EmulatedGpus {
 protected:
  // Loaded before the product asks for the driver's library by name, so that it gets this one.
  EmulatedHolders()
      : library_(
            ::dlopen(built_file("tests/emulated_nvml/libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << ::dlerror();
  }
  ~EmulatedHolders() override { ::dlclose(library_); }

  void* const library_;
};

TEST_F(EmulatedHolders, InAContainerAreTheProcessesBeforeOurs) {
  emulated_cuda::reset({.device_memory_bytes = 4 * mib});
  const auto device = CudaDevice::open({.frames = Bytes{16 * mib}, .pids = Pids::of_the_host});
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message,
              AllOf(HasSubstr(". process 4242 has 3.00 GiB. Lower"), Not(HasSubstr("4343"))));
  cudaDeviceProp gpu;
  ASSERT_EQ(cudaGetDeviceProperties(&gpu, 0), cudaSuccess);
  EXPECT_THAT(describe_gpu_processes(gpu, Pids::of_the_host), HasSubstr("4343")) << "now we are among them";
}

// ---- how they are started

// The emulation stops the process if a context exists before the way of waiting is chosen.
TEST_F(EmulatedGpus, AreAskedForFreeMemoryOnceTheyAreStarted) {
  ASSERT_TRUE(gpu_backend()->free_memory(0));
  EXPECT_TRUE(CudaDevice::open({.frames = Bytes{mib}}));
}

// 256 MiB, of which kernels require 128 MiB and page tables of 32 GiB 64 MiB.
TEST_F(EmulatedGpus, MemoryThatGrowsOutsideTheArenaIsDemanded) {
  emulated_cuda::reset({.device_memory_bytes = 256 * mib});
  EXPECT_TRUE(CudaDevice::open({.frames = Bytes{100 * mib}}));
  const auto device = CudaDevice::open({.frames = Bytes{100 * mib}, .pinned = Bytes{32 * gib}});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().kind, ErrorKind::does_not_fit);
  EXPECT_THAT(device.error().message,
              HasSubstr("page tables of 32.00 GiB of pinned memory 0.06, kernels 0.12"));
  EXPECT_FALSE(CudaDevice::open({.frames = Bytes{100 * mib}, .devices = 2})) << "NCCL's buffers";
}

}  // namespace tidepool::emulated_gpus_test
