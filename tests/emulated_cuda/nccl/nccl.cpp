// libnccl.so.2 for the emulation: the functions that we call, on streams of emulated devices, loaded like the
// real library and as strict as possible: calls for which NCCL would wait for ever stop the process, with the
// reason.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mix_bits.h"
#include "failure.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

constexpr int success = 0, unhandled_cuda_error = 1, invalid_argument = 4;

template <class... P>
[[noreturn]] void stop(const char* format, P... values) {
  char text[300];
  std::snprintf(text, sizeof text, format, values...);
  fail(std::string("NCCL: ") + text);
}

struct RankCall {
  CallKind kind;
  const void* from;
  void* to;
  std::size_t bytes;
  int other;                      // root or peer
  std::vector<std::byte> sent{};  // data in transit; empty: still at its source
};

// Calls of one group for one rank.
struct Part {
  std::vector<RankCall> calls;
  cudaStream_t stream = nullptr;
  std::uint64_t operation = 0;  // of the stream
};

// Exchange is one group of all ranks: nothing arrives before all ranks have reached it, and it ends for all
// at once.
struct Exchange {
  std::vector<Part> parts;
  std::uint64_t number = 0;  // number in the communicator, from 1
  int arrived = 0;
  int error = success;  // set: the exchange never ends, for this reason
  bool stuck = false, done = false;
};

struct Clique {
  std::vector<int> devices;         // by rank
  std::vector<std::uint64_t> come;  // by rank: number of exchanges reached
  std::uint64_t exchanges = 0;
  int error = success;
  bool aborted = false;
};

}  // namespace
}  // namespace emulated_cuda

struct ncclComm {
  std::shared_ptr<emulated_cuda::Clique> clique;
  int rank = 0;
};

namespace emulated_cuda {
namespace {

struct Group {
  int depth = 0;
  std::map<Clique*, std::pair<std::shared_ptr<Clique>, std::vector<Part>>> parts;
};
thread_local Group group;

void require_memory(const Lock& lock, const void* p, std::size_t bytes, int device) {
  const Allocation* found = find_memory(lock, p, bytes);
  if (found == nullptr || found->kind != MemoryKind::device || found->device != device)
    stop("%zu bytes that are not memory of device %d", bytes, device);
}

int call(ncclComm* comm, cudaStream_t stream, const RankCall& c) {
  Lock lock(runtime().mutex);
  if (comm == nullptr || comm->clique->aborted) return invalid_argument;
  const int device = comm->clique->devices[comm->rank],
            ranks = static_cast<int>(comm->clique->devices.size());
  if (group.depth == 0)
    stop("a call outside of a group: one thread of %d ranks would wait for itself", ranks);
  require_stream(stream);
  if (stream->device != device)
    stop("rank %d is device %d, its stream is of %d", comm->rank, device, stream->device);
  if (c.other < 0 || c.other >= ranks) return invalid_argument;
  if (c.kind != CallKind::receive) require_memory(lock, c.from, c.bytes, device);
  if (c.kind != CallKind::send) require_memory(lock, c.to, c.bytes, device);
  auto& [clique, parts] = group.parts[comm->clique.get()];
  clique = comm->clique;
  parts.resize(comm->clique->devices.size());
  Part& part = parts[comm->rank];
  if (part.stream != nullptr && part.stream != stream)
    stop("rank %d has two streams in one group", comm->rank);
  part.stream = stream;
  part.calls.push_back(c);
  runtime().calls.push_back({.kind = c.kind,
                             .device = device,
                             .stream = stream->number,
                             .to = c.to,
                             .from = c.from,
                             .bytes = c.bytes});
  return success;
}

std::vector<RankCall> of_kind(const Part& part, CallKind kind, int other = -1) {
  std::vector<RankCall> out;
  for (const RankCall& c : part.calls)
    if (c.kind == kind && (other < 0 || c.other == other)) out.push_back(c);
  return out;
}

// Stops the process for exchanges that would never end.
void require_complete(const std::vector<Part>& parts) {
  const int ranks = static_cast<int>(parts.size());
  const auto first = of_kind(parts[0], CallKind::broadcast);
  for (int r = 0; r < ranks; ++r) {
    const auto mine = of_kind(parts[r], CallKind::broadcast);
    if (mine.size() != first.size())
      stop("rank 0 makes %zu broadcasts in a group, rank %d makes %zu: it would wait for ever", first.size(),
           r, mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (mine[i].other != first[i].other || mine[i].bytes != first[i].bytes)
        stop("broadcast %zu of a group: rank 0 has %zu bytes from %d, rank %d has %zu from %d", i,
             first[i].bytes, first[i].other, r, mine[i].bytes, mine[i].other);
    for (int to = 0; to < ranks; ++to) {
      const auto sends = of_kind(parts[r], CallKind::send, to),
                 gets = of_kind(parts[to], CallKind::receive, r);
      if (sends.size() != gets.size())
        stop("rank %d sends %zu times to rank %d, which receives %zu times: it would wait for ever", r,
             sends.size(), to, gets.size());
      for (std::size_t i = 0; i < sends.size(); ++i)
        if (sends[i].bytes != gets[i].bytes)
          stop("rank %d sends %zu bytes to rank %d, which receives %zu", r, sends[i].bytes, to,
               gets[i].bytes);
    }
  }
}

void deliver(const RankCall& from, const RankCall& to) {
  std::memmove(to.to, from.sent.empty() ? from.from : from.sent.data(), to.bytes);
}

void move(const Exchange& e) {
  const int ranks = static_cast<int>(e.parts.size());
  for (int r = 0; r < ranks; ++r) {
    const auto mine = of_kind(e.parts[r], CallKind::broadcast);
    for (std::size_t i = 0; i < mine.size(); ++i)
      deliver(of_kind(e.parts[mine[i].other], CallKind::broadcast)[i], mine[i]);
    for (int from = 0; from < ranks; ++from) {
      const auto gets = of_kind(e.parts[r], CallKind::receive, from),
                 sends = of_kind(e.parts[from], CallKind::send, r);
      for (std::size_t i = 0; i < gets.size(); ++i) deliver(sends[i], gets[i]);
    }
  }
}

// A rank may send before the others have arrived, because NCCL has buffers.
void send_ahead(Part& part, int rank) {
  for (RankCall& c : part.calls) {
    if (c.kind == CallKind::receive || (c.kind == CallKind::broadcast && c.other != rank)) continue;
    const auto* from = static_cast<const std::byte*>(c.from);
    c.sent.assign(from, from + c.bytes);
  }
}

// Runs on a rank's stream.
void run(Clique& clique, Exchange& e, int rank) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (clique.aborted) return;
  if (++clique.come[rank] != e.number)
    stop(
        "rank %d comes to exchange %llu where %llu is next: ranks that come in different orders wait for "
        "each other for ever",
        rank, static_cast<unsigned long long>(e.number), static_cast<unsigned long long>(clique.come[rank]));
  for (const Part& part : e.parts) part.stream->wanted = std::max(part.stream->wanted, part.operation);
  r.changed.notify_all();
  if (tidepool::mix_bits(r.options.seed + e.number) % 2 == 0) send_ahead(e.parts[rank], rank);
  if (++e.arrived == static_cast<int>(e.parts.size())) {
    if (e.stuck) {
      clique.error = e.error;
    } else {
      lock.unlock();
      move(e);
      lock.lock();
      e.done = true;
    }
    r.changed.notify_all();
  }
  r.changed.wait(lock, [&] {
    return e.done || clique.aborted || sticky_error(lock, clique.devices[rank]) != cudaSuccess;
  });
}

void start(Lock& lock, const std::shared_ptr<Clique>& clique, std::vector<Part> parts) {
  Runtime& r = runtime();
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    if (parts[rank].stream == nullptr)
      stop("rank %zu is not in a group of %zu: the others would wait for ever", rank, parts.size());
  require_complete(parts);
  auto e = std::make_shared<Exchange>();
  e->number = ++clique->exchanges;
  e->stuck = fires(r.faults.exchange);
  e->error = r.faults.exchange_error;
  e->parts = std::move(parts);
  // Every part's number is known before any part runs, because the lock is held.
  for (std::size_t rank = 0; rank < e->parts.size(); ++rank) {
    Part& part = e->parts[rank];
    enqueue(lock, part.stream, [clique, e, rank] { run(*clique, *e, static_cast<int>(rank)); });
    part.operation = part.stream->enqueued;
  }
}

}  // namespace
}  // namespace emulated_cuda

using namespace emulated_cuda;

extern "C" {

int ncclGetVersion(int* version) {
  *version = runtime().options.nccl_version;
  return success;
}

const char* ncclGetErrorString(int result) {
  constexpr const char* names[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return result >= 0 && result < 8 ? names[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm*) { return ""; }

int ncclCommInitAll(ncclComm** comms, int ranks, const int* devices) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  auto clique = std::make_shared<Clique>();
  for (int rank = 0; rank < ranks; ++rank) {
    if (devices[rank] < 0 || devices[rank] >= r.options.devices) return invalid_argument;
    if (std::ranges::count(clique->devices, devices[rank]) > 0) return invalid_argument;
    clique->devices.push_back(devices[rank]);
  }
  clique->come.resize(clique->devices.size());
  for (int rank = 0; rank < ranks; ++rank) comms[rank] = new ncclComm{clique, rank};
  r.communicators += clique->devices.size();
  return success;
}

int ncclCommDestroy(ncclComm* comm) {
  Lock lock(runtime().mutex);
  const Clique& clique = *comm->clique;
  if (!clique.aborted && clique.come[comm->rank] != clique.exchanges)
    stop("rank %d ends before it has come to its last exchange", comm->rank);
  --runtime().communicators;
  delete comm;
  return success;
}

int ncclCommAbort(ncclComm* comm) {
  Lock lock(runtime().mutex);
  comm->clique->aborted = true;
  --runtime().communicators;
  runtime().changed.notify_all();
  delete comm;
  return success;
}

int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  Lock lock(runtime().mutex);
  *error = comm->clique->error;
  return success;
}

int ncclGroupStart() {
  ++group.depth;
  return success;
}

int ncclGroupEnd() {
  if (--group.depth > 0) return success;
  const auto asked = std::move(group.parts);
  group.parts.clear();
  Lock lock(runtime().mutex);
  if (fires(runtime().faults.group)) return unhandled_cuda_error;
  for (const auto& [raw, of_clique] : asked) start(lock, of_clique.first, of_clique.second);
  return success;
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, ncclComm* comm,
                  cudaStream_t stream) {
  return call(comm, stream, {CallKind::broadcast, from, to, count * (type == 7 ? 4 : 1), root});
}

int ncclSend(const void* from, std::size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream) {
  return call(comm, stream, {CallKind::send, from, nullptr, count * (type == 7 ? 4 : 1), peer});
}

int ncclRecv(void* to, std::size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream) {
  return call(comm, stream, {CallKind::receive, nullptr, to, count * (type == 7 ? 4 : 1), peer});
}

}  // extern "C"
