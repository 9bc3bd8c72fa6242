// Runtime is the state behind the emulated runtime. One per process, as in CUDA; its mutex guards all of it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "control.h"

namespace emulated_cuda {

// Mark is the place in a stream that an event marks.
struct Mark {
  CUstream_st* stream = nullptr;
  int device = 0;
  std::uint64_t operation = 0;
  bool done = false;
  bool captured = false;  // inside a graph: it cannot be queried
  double seconds = 0;
};

// Capture records a stream's work into a graph.
struct Capture {
  cudaStreamCaptureMode mode{};
  std::thread::id thread;
  bool spoilt = false;
  std::vector<std::function<void()>> nodes;
};

enum class MemoryKind { device, pinned, registered };

struct Allocation {
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  int device = 0;
};

struct Runtime {
  std::mutex mutex;
  std::condition_variable changed;  // an operation ended, was enqueued, or is waited for
  Options options;
  Faults faults;
  std::map<int, cudaError_t> sticky;  // by device
  std::map<int, unsigned> contexts;   // by device: its flags at the start
  std::vector<Call> calls;
  std::map<std::uintptr_t, Allocation> memory;
  std::map<std::pair<int, const void*>, int> shared_limits;  // by device and kernel
  std::map<int, std::size_t> device_bytes;
  std::size_t device_bytes_peak = 0;
  unsigned streams_made = 0, events_made = 0;
  std::vector<CUstream_st*> streams;
  std::string range_of_failure;
  std::size_t events = 0, communicators = 0;
  std::size_t graphs = 0, graph_bytes = 0;
  std::set<std::pair<int, const void*>> loaded;  // kernels, by device
};
Runtime& runtime();

using Lock = std::unique_lock<std::mutex>;

// RETURNS: the device's sticky error.
cudaError_t sticky_error(const Lock&, int device);
// RETURNS: the result of a call before it does anything: cudaSuccess, an injected fault, or the sticky error.
cudaError_t entry_error(const Lock&);
// The same for calls that submit work to a stream, which an invalidated capture refuses.
cudaError_t entry_error(const Lock&, cudaStream_t);
// The same for calls that a capture cannot record and so forbids: in its own thread, or, for a global
// capture, in any thread. Such calls invalidate the capture.
cudaError_t unsafe_entry_error(const Lock&);
cudaError_t spoil(CUstream_st&);  // invalidates its capture
// Remembers an error for cudaGetLastError.
cudaError_t returned(cudaError_t);
bool fires(int& countdown);  // counts down a fault
int current_device();

// Enqueues work in a stream; it runs without the lock, unless the device has failed by then. Under capture
// the work goes into the graph instead, and the last recorded call is marked. `operations`: its length on the
// clock of events.
void enqueue(Lock&, cudaStream_t, std::function<void()> work, unsigned operations = 1);
std::size_t free_bytes_of(const Runtime&, int device);
// Counts device memory that is not an allocation of the caller.
void take_device_bytes(Runtime&, int device, std::size_t);

// Sets the paths under which the product looks for run-time libraries.
void place_libraries(const Options&);

// Stops the process if the stream is the default stream.
void require_stream(cudaStream_t);

// RETURNS: null if [p, p + bytes) is not within one allocation.
const Allocation* find_memory(const Lock&, const void* p, std::size_t bytes);
// Stops the process unless the range is device memory.
void require_device_memory(const void* p, std::size_t bytes, const char* what);

}  // namespace emulated_cuda

struct CUstream_st {
  unsigned number = 0;
  int device = 0;
  struct Operation {
    std::function<void()> work;
    unsigned operations = 1;
  };
  std::deque<Operation> queue;
  std::uint64_t enqueued = 0, finished = 0;
  std::uint64_t wanted = 0;  // some thread waits until this many are finished
  bool closing = false;
  std::uint64_t random = 0;
  std::uint64_t operations = 0;  // operations run so far
  std::unique_ptr<emulated_cuda::Capture> capture;
  std::thread thread;
};

struct CUevent_st {
  unsigned number = 0;
  int device = 0;
  std::shared_ptr<emulated_cuda::Mark> mark;  // null before the first record
};

struct CUgraph_st {
  int device = 0;
  std::vector<std::function<void()>> nodes;
};

struct CUgraphExec_st {
  int device = 0;
  std::shared_ptr<const std::vector<std::function<void()>>> nodes;
  std::size_t bytes = 0;  // device memory, once taken
};
