// Control of the emulation by tests: options, faults and records. None of it exists in CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace emulated_cuda {

struct Options {
  std::uint64_t seed = 1;      // for block order, thread order and jitter
  unsigned jitter_us_max = 0;  // a stream sleeps up to this before some of its operations
  bool late_streams = false;   // a stream runs an operation only when something waits for it
  double operation_us = 0;     // duration of a kernel or copy on the clock of events; 0: real time
  int devices = 1;
  int major = 9, minor = 0;  // compute capability
  std::string name = "Emulated GPU";
  int multiprocessors = 132;
  std::size_t device_memory_bytes = std::size_t{16} << 30;
  std::size_t taken_by_others_bytes = 0;
  std::size_t graph_node_bytes = 10 << 10;    // device memory per node of an instantiated graph
  std::size_t shared_bytes_max = 227 * 1024;  // dynamic, per block, after cudaFuncSetAttribute
  // Algorithms that cuBLASLt offers for a product, best first: number of operations that each takes on the
  // clock of events; 0: refused when started. Their sums differ in the last bits.
  std::vector<unsigned> algorithms = {1};
  std::size_t cublaslt_version = 130000;
  int driver_version = 13000;
  int nccl_version = 21903;
  bool cudnn = false;  // cuDNN can be loaded
  int cudnn_version = 91900;
  bool cudnn_deterministic = true;  // cuDNN has a deterministic engine behind a nondeterministic one
  float cudnn_scale = 1;            // factor on results of its graphs: a wrong kernel
  float cudnn_drift = 0;            // added to the factor at each execution: varying bits
  bool cudnn_nan = false;           // the first number of each output array is NaN
  std::size_t cudnn_workspace = 0;  // workspace that every plan requests beside its needs
};

// Each number counts down calls from now on: 1 is the next call; 0: never.
struct Faults {
  int device_allocation = 0;  // cudaErrorMemoryAllocation
  int host_allocation = 0;    // the same for cudaHostAlloc and cudaHostRegister
  int launch = 0;             // refused with launch_error
  cudaError_t launch_error = cudaErrorLaunchOutOfResources;
  int kernel_load = 0;  // before its first launch: refused with kernel_load_error
  cudaError_t kernel_load_error = cudaErrorNoKernelImageForDevice;
  int operation = 0;  // of any stream: not executed; sticky from then on
  cudaError_t operation_error = cudaErrorIllegalAddress;
  int algorithm = 0;  // cuBLASLt finds none for a product: CUBLAS_STATUS_NOT_SUPPORTED
  int product = 0;    // cuBLASLt refuses a product: CUBLAS_STATUS_INTERNAL_ERROR, no CUDA error
  cudaError_t every_call = cudaSuccess;  // cudaErrorInsufficientDriver, cudaErrorNoDevice, ...
  int attention_plan = 0;                // cuDNN refuses to finish a plan, with the next status:
  int attention_plan_status = 3000;      // CUDNN_STATUS_NOT_SUPPORTED
  int attention = 0;                     // cuDNN refuses to run a plan: CUDNN_STATUS_EXECUTION_FAILED
  int group = 0;                         // ncclGroupEnd returns ncclUnhandledCudaError and does nothing
  int capture = 0;                       // work under capture: refused, and the capture is invalidated
  int instantiation = 0;                 // of a graph: cudaErrorMemoryAllocation
  int exchange = 0;                      // a group's exchange never ends; the error is then returned by
  int exchange_error = 6;                // ncclCommGetAsyncError: ncclRemoteError
};

enum class CallKind {
  allocate,
  free,
  host_allocate,
  host_free,
  host_register,
  host_unregister,
  copy,
  set,
  launch,
  matmul,
  attention,
  host_function,
  broadcast,
  send,
  receive,
  event_record,
  stream_wait_event,
  event_synchronize,
  stream_synchronize,
  device_synchronize,
  graph_instantiate,
  graph_launch,
};

// Streams and events are numbered from 1 in order of creation; 0 is none.
struct Call {
  CallKind kind;
  int device = 0;
  unsigned stream = 0, event = 0;
  const void* to = nullptr;  // for launches the kernel
  const void* from = nullptr;
  std::size_t bytes = 0;
  dim3 grid, block;             // of launches
  std::size_t nodes = 0;        // of graphs
  std::uint64_t algorithm = 0;  // for products: in Options::algorithms
  bool captured = false;        // into a graph, and not run
};

// Restores the state after start. Stops the process if streams, events, graphs, communicators or memory are
// left: a leak of the previous test.
void reset(const Options& = {});
void set_faults(const Faults&);
// Changes these options from now on.
void offer_algorithms(double operation_us, std::vector<unsigned> algorithms);
void change_card(std::string name, int multiprocessors, std::size_t cublaslt_version);
// RETURNS: the profiler range around the call whose operation failed; empty if there was none.
std::string range_of_failure();
void clear_failure();  // clears the sticky error, so that a test can release its resources

bool has_context(int device);  // the device was selected or started

std::vector<Call> calls();  // since reset() or clear_calls(), in the host's call order
void clear_calls();
unsigned number_of(cudaStream_t);
unsigned number_of(cudaEvent_t);

struct Live {
  std::size_t device_allocations = 0, host_allocations = 0, streams = 0, events = 0, communicators = 0;
  std::size_t graphs = 0;  // instantiated or not
  std::size_t device_bytes = 0, device_bytes_peak = 0;
  bool operator==(const Live&) const = default;
};
Live live();

// RETURNS: number of kernels loaded onto the device since reset().
std::size_t loaded_kernels(int device);

// RETURNS: conflicts so far. For load_matrices: matrices whose rows do not lie in eight different groups of
// banks. For counted reads: groups of lanes served together in which two lanes read different words of one
// bank.
std::uint64_t shared_bank_conflicts();

// RETURNS: number of matrix products so far with a factor that was constant or contained NaN.
std::uint64_t products_of_constants();

// Stops the process if something was written outside an allocation. Also checked after each kernel.
void check_red_zones();

}  // namespace emulated_cuda
