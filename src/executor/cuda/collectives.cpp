// Collectives groups NCCL calls on one stream per device, and aborts them after a failure.
#include "executor/cuda/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"

namespace tidepool {
namespace {

constexpr u64 slice_alignment = 64;  // floats: 256 bytes

Result<u64> free_bytes(int device) {
  std::size_t free = 0, total = 0;
  TRY_CUDA(cudaSetDevice(device), "using cuda:" + std::to_string(device));
  TRY_CUDA(cudaMemGetInfo(&free, &total), "asking how much memory is free");
  return u64{free};
}

// Clears cudaErrorNotReady: otherwise it would stay the thread's last error and be taken for a kernel's
// error.
cudaError_t state_of(cudaStream_t stream) {
  const cudaError_t state = cudaStreamQuery(stream);
  if (state == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  return state;
}

}  // namespace

template <class Body>
Result<void> Collectives::grouped(const Body& body) {
  const NcclLibrary::Calls& nccl = nccl_->calls();
  int error = nccl.group_start();
  if (error != 0) return nccl_->error(error, nullptr);
  body([&](int result) {
    if (error == 0) error = result;
  });
  const int at_end = nccl.group_end();
  if (error == 0) error = at_end;
  if (error != 0) return nccl_->error(error, comms_.front());
  return {};
}

// ---- start and end

Result<std::unique_ptr<Collectives>> Collectives::create(CollectivesOptions options) {
  CHECK(!options.devices.empty() && options.devices.size() <= devices_max, options.devices.size());
  std::unique_ptr<Collectives> collectives(new Collectives(std::move(options)));
  TRY_ASSIGN(collectives->nccl_, NcclLibrary::load());
  if (const Result<void> started = collectives->start(); !started) {
    collectives->abort();  // part of the exchange may have begun
    return Error{started.error().kind, fmt::format("the first exchange between {} GPUs: {}",
                                                   collectives->devices(), started.error().message)};
  }
  return collectives;
}

// Streams have high priority: every device waits for collectives, and these need few multiprocessors.
Result<void> Collectives::start() {
  const u64 others = std::max(devices(), 2u) - 1;
  std::vector<int> indices;
  u64 taken = 0;
  std::vector<u64> free_before;
  for (const CollectivesOptions::Device& device : options_.devices) {
    const u64 slice = device.staging.size() / sizeof(float) / others / slice_alignment * slice_alignment;
    CHECK(slice > 0, device.staging.size(), devices());
    slice_elements_ = slice;
    indices.push_back(device.index);
    TRY_ASSIGN(const u64 free, free_bytes(device.index));
    free_before.push_back(free);
    int least = 0, greatest = 0;
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
    TRY_CUDA(cudaStreamCreateWithPriority(&streams_.emplace_back(), cudaStreamNonBlocking, greatest),
             "making a stream on cuda:" + std::to_string(device.index));
  }
  comms_.assign(devices(), nullptr);
  const int error = nccl_->calls().init_all(comms_.data(), static_cast<int>(devices()), indices.data());
  if (error != 0) {
    comms_.clear();
    return nccl_->error(error, nullptr);
  }
  TRY(first_exchange());
  for (u32 d = 0; d < devices(); ++d) {
    TRY_ASSIGN(const u64 free, free_bytes(index(d)));
    taken = std::max(taken, free_before[d] - std::min(free, free_before[d]));
  }
  describe_ = fmt::format("NCCL {} between {} GPUs, with {:.2f} GiB of each beside memory.device",
                          nccl_->version(), devices(), static_cast<double>(taken) / static_cast<double>(gib));
  return {};
}

// Makes NCCL connect and take its buffers now, because both happen at the first use.
Result<void> Collectives::first_exchange() {
  CollectiveParts<GatheredCuts> cuts;
  CollectiveParts<ScatteredSum> sums;
  for (u32 owner = 0; owner < devices(); ++owner) {
    GatheredCuts& cut = cuts.add();
    ScatteredSum& sum = sums.add();
    cut.owner = sum.owner = owner;
    cut.from = options_.devices[owner].staging.first(sizeof(float));
    sum.sum = staged(owner, owner == 0 ? 1 : 0);
    sum.elements = 1;
    for (u32 d = 0; d < devices(); ++d) {
      std::byte* const place = options_.devices[d].staging.data();
      if (d != owner) cut.to[d] = place;
      sum.from[d] = reinterpret_cast<const float*>(place);
    }
  }
  for (const CollectivesOptions::Device& device : options_.devices) {
    TRY_CUDA(cudaSetDevice(device.index), "asking for it");
    TRY_CUDA(cudaMemsetAsync(device.staging.data(), 0, device.staging.size(),
                             streams_[&device - options_.devices.data()]),
             "asking for it");
  }
  TRY(all_gather(cuts.all()));
  TRY(reduce_scatter(sums.all()));
  TRY_CUDA(cudaGetLastError(), "asking for it");
  return await_streams();
}

// Waits with a timeout: NCCL can wait for ever if GPUs cannot reach each other although the system says so.
Result<void> Collectives::await_streams() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.patience.value);
  for (u32 d = 0; d < devices(); ++d)
    for (;;) {
      TRY_CUDA(cudaSetDevice(index(d)), "asking for it");
      const cudaError_t state = state_of(streams_[d]);
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) return cuda_error(state, "asking for it");
      if (!check()) return health();
      if (std::chrono::steady_clock::now() > until) {
        abort();
        return Error{
            ErrorKind::io,
            fmt::format("it did not end within {} s; try NCCL_P2P_DISABLE=1 (GPUs that reach each other only "
                        "on paper, as in virtual machines), and NCCL_DEBUG=INFO to see what it waits for",
                        options_.patience.value / 1'000'000'000)};
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  return {};
}

Collectives::~Collectives() {
  for (ncclComm* const comm : comms_) nccl_->calls().destroy(comm);
  for (const cudaStream_t stream : streams_)
    if (stream != nullptr) cudaStreamDestroy(stream);
}

// ---- operations

Result<void> Collectives::all_gather(std::span<const GatheredCuts> cuts) {
  const std::scoped_lock lock(mutex_);
  if (aborted_) return {};
  return grouped([&](const auto& called) {
    for (const GatheredCuts& c : cuts)
      for (u32 d = 0; d < devices(); ++d) {
        const std::byte* const from = d == c.owner ? c.from.data() : c.to[d];
        std::byte* const to = c.to[d] != nullptr ? c.to[d] : const_cast<std::byte*>(c.from.data());
        CHECK(d == c.owner || c.to[d] != nullptr, d, c.owner);
        called(nccl_->calls().broadcast(from, to, c.from.size(), NcclLibrary::type_byte,
                                        static_cast<int>(c.owner), comms_[d], streams_[d]));
      }
  });
}

// Works in slices; the staging memory holds one slice from every other device.
Result<void> Collectives::reduce_scatter(std::span<const ScatteredSum> sums) {
  const std::scoped_lock lock(mutex_);
  if (aborted_) return {};
  u64 most = 0;
  for (const ScatteredSum& s : sums) most = std::max(most, s.elements);
  for (u64 begin = 0; begin < most; begin += slice_elements_) {
    if (devices() > 1) TRY(exchange(sums, begin));
    add(sums, begin);
  }
  return {};
}

Result<void> Collectives::exchange(std::span<const ScatteredSum> sums, u64 begin) {
  const NcclLibrary::Calls& nccl = nccl_->calls();
  return grouped([&](const auto& called) {
    for (const ScatteredSum& s : sums) {
      if (begin >= s.elements) continue;
      const u64 elements = std::min(slice_elements_, s.elements - begin);
      for (u32 d = 0; d < devices(); ++d) {
        if (d == s.owner) continue;
        called(nccl.send(s.from[d] + begin, elements, NcclLibrary::type_float, static_cast<int>(s.owner),
                         comms_[d], streams_[d]));
        called(nccl.recv(staged(s.owner, d), elements, NcclLibrary::type_float, static_cast<int>(d),
                         comms_[s.owner], streams_[s.owner]));
      }
    }
  });
}

void Collectives::add(std::span<const ScatteredSum> sums, u64 begin) {
  for (const ScatteredSum& s : sums) {
    if (begin >= s.elements) continue;
    std::array<const float*, devices_max> parts{};
    for (u32 d = 0; d < devices(); ++d) parts[d] = d == s.owner ? s.from[d] + begin : staged(s.owner, d);
    cudaSetDevice(index(s.owner));
    sum_in_order_cuda(std::span(parts).first(devices()), s.sum + begin,
                      std::min(slice_elements_, s.elements - begin), streams_[s.owner]);
  }
}

// RETURNS: the staging slice of device `from` at the owner. The owner has no slice of its own.
float* Collectives::staged(u32 owner, u32 from) const {
  const u32 slice = from < owner ? from : from - 1;
  return reinterpret_cast<float*>(options_.devices[owner].staging.data()) + slice * slice_elements_;
}

// ---- later failures

Result<void> Collectives::health() const {
  const std::scoped_lock lock(mutex_);
  if (error_ != 0) return nccl_->error(error_, nullptr);
  if (cuda_error_ != cudaSuccess) return cuda_error(cuda_error_, "exchanging data");
  return {};
}

bool Collectives::check() {
  const std::scoped_lock lock(mutex_);
  for (u32 d = 0; d < comms_.size(); ++d) {
    int error = 0;
    if (const int asked = nccl_->calls().async_error(comms_[d], &error); asked != 0) error = asked;
    if (error_ == 0 && error != NcclLibrary::in_progress) error_ = error;
    cudaSetDevice(index(d));
    const cudaError_t state = state_of(streams_[d]);
    if (cuda_error_ == cudaSuccess && state != cudaErrorNotReady) cuda_error_ = state;
  }
  if (error_ != 0 || cuda_error_ != cudaSuccess) abort_locked();
  return !aborted_;
}

void Collectives::abort() {
  const std::scoped_lock lock(mutex_);
  abort_locked();
}

void Collectives::abort_locked() {
  for (ncclComm* const comm : comms_) nccl_->calls().abort(comm);
  comms_.clear();
  aborted_ = true;
}

}  // namespace tidepool
