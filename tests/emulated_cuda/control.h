// What a test sets up, breaks and looks at. None of it exists in CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace emulated_cuda {

struct Options {
  std::uint64_t seed = 1;      // of block order, thread order and jitter
  unsigned jitter_us_max = 0;  // a stream sleeps up to this before some of its operations
  bool late_streams = false;   // a stream runs an operation only once somebody waits for it
  double operation_us = 0;     // what a kernel or a copy takes by the clock of events; 0: as long as it took
  int devices = 1;
  int major = 9, minor = 0;  // compute capability
  std::string name = "Emulated GPU";
  int multiprocessors = 132;
  std::size_t device_memory_bytes = std::size_t{16} << 30;
  std::size_t taken_by_others_bytes = 0;
  std::size_t graph_node_bytes = 10 << 10;    // of device memory: a node of an instantiated graph
  std::size_t shared_bytes_max = 227 * 1024;  // dynamic, per block, after cudaFuncSetAttribute
  // What cuBLASLt offers for a product, best advice first: operations that each takes by the clock of events,
  // 0 for one that is refused when it is started. Their sums differ in the last bits.
  std::vector<unsigned> algorithms = {1};
  std::size_t cublaslt_version = 130000;
  int driver_version = 13000;
  int nccl_version = 21903;
  bool cudnn = false;  // can be loaded
  int cudnn_version = 91900;
  bool cudnn_deterministic = true;  // it has an engine that is, behind one that is not
  float cudnn_scale = 1;            // its graphs' numbers are taken times this: a kernel that is wrong
  float cudnn_drift = 0;            // added to that at each execution: bits that vary
  bool cudnn_nan = false;           // the first number of each array that it writes is NaN
  std::size_t cudnn_workspace = 0;  // what every plan asks for beside its needs
};

// Each number counts calls from now on, 1 the next; 0 never.
struct Faults {
  int device_allocation = 0;  // cudaErrorMemoryAllocation
  int host_allocation = 0;    // likewise, of cudaHostAlloc and cudaHostRegister
  int launch = 0;             // refused with launch_error
  cudaError_t launch_error = cudaErrorLaunchOutOfResources;
  int kernel_load = 0;  // before its first launch: refused with kernel_load_error
  cudaError_t kernel_load_error = cudaErrorNoKernelImageForDevice;
  int operation = 0;  // of any stream: not carried out; sticky from then on
  cudaError_t operation_error = cudaErrorIllegalAddress;
  int algorithm = 0;                     // cuBLASLt finds none for a product: CUBLAS_STATUS_NOT_SUPPORTED
  int product = 0;                       // cuBLASLt refuses one: CUBLAS_STATUS_INTERNAL_ERROR, none of CUDA's
  cudaError_t every_call = cudaSuccess;  // cudaErrorInsufficientDriver, cudaErrorNoDevice, ...
  int attention_plan = 0;                // cuDNN refuses to finish a plan:
  int attention_plan_status = 3000;      // CUDNN_STATUS_NOT_SUPPORTED
  int attention = 0;                     // cuDNN refuses to run one: CUDNN_STATUS_EXECUTION_FAILED
  int group = 0;                         // ncclGroupEnd: ncclUnhandledCudaError, and nothing is done
  int capture = 0;                       // work under capture: refused, and the capture is spoilt
  int instantiation = 0;                 // of a graph: cudaErrorMemoryAllocation
  int exchange = 0;                      // a group's: never ends, and is then told by
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

// Streams and events are numbered from 1 in the order in which they are made; 0 is none.
struct Call {
  CallKind kind;
  int device = 0;
  unsigned stream = 0, event = 0;
  const void* to = nullptr;  // of launches the kernel
  const void* from = nullptr;
  std::size_t bytes = 0;
  dim3 grid, block;             // of launches
  std::size_t nodes = 0;        // of graphs
  std::uint64_t algorithm = 0;  // of products: in Options::algorithms
  bool captured = false;        // into a graph, and not run
};

// As after start. Stops the process if streams, events, graphs, communicators or memory are left: a leak of
// the test before.
void reset(const Options& = {});
void set_faults(const Faults&);
// Options of these names, from now on.
void offer_algorithms(double operation_us, std::vector<unsigned> algorithms);
void change_card(std::string name, int multiprocessors, std::size_t cublaslt_version);
// What a profiler would have shown around the call whose operation failed; empty if nothing.
std::string range_of_failure();
void clear_failure();  // the sticky error, so that a test can take down what it built

bool has_context(int device);  // it was set or started

std::vector<Call> calls();  // since reset() or clear_calls(), in the order in which the host made them
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

// Kernels that are on the device since reset().
std::size_t loaded_kernels(int device);

// So far, of load_matrices: matrices whose rows do not lie in eight different groups of banks; of counted
// reads: groups of lanes served together of which two want different words of one bank.
std::uint64_t shared_bank_conflicts();

// So far, of matrix products: those of which a factor was one number all over, or held one that is none.
std::uint64_t products_of_constants();

// Stops the process if something was written next to an allocation. Also done after each kernel.
void check_red_zones();

}  // namespace emulated_cuda
