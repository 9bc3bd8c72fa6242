#include "block.h"

#include <fmt/format.h>

#include <cstring>

#include "block_runner.h"
#include "device_language.h"
#include "failure.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

void carry_out(const AsyncCopy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
  std::memset(static_cast<std::byte*>(copy.to) + copy.bytes, 0, copy.zeros);
}

}  // namespace

thread_local constinit const ThreadIndices* thread_indices = nullptr;

unsigned lane_of_thread() { return block_runner().running().number % warp_lanes; }

void block_barrier(std::source_location where) { block_runner().barrier(where); }

void warp_collective(unsigned mask, const void* in, void* out, WarpFunction function, const char* name,
                     std::source_location where) {
  block_runner().collective(mask, in, out, function, name, where);
}

std::byte* dynamic_shared_memory() { return block_runner().dynamic_shared(); }

std::byte* static_shared_memory(const void* key, std::size_t bytes, std::size_t alignment) {
  return block_runner().static_shared(key, bytes, alignment);
}

void async_copy(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
  const auto misaligned = [&](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % (bytes + zeros) != 0;
  };
  if (misaligned(to) || (bytes > 0 && misaligned(from)))
    fail("an asynchronous copy between unaligned addresses");
  const AsyncCopy copy = {to, from, bytes, zeros};
  // completes at once, as in kernels/cuda/async_copy.h
  if (runtime().options.major < 8) return carry_out(copy);
  block_runner().running().open_copies.push_back(copy);
}

void async_copy_commit() {
  DeviceThread& thread = block_runner().running();
  thread.copies.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
}

void async_copy_wait(std::size_t groups_left) {
  auto& groups = block_runner().running().copies;
  for (; groups.size() > groups_left; groups.pop_front()) {
    for (const AsyncCopy& copy : groups.front()) carry_out(copy);
  }
}

void shuffle_from_outside(unsigned lane, unsigned source, unsigned mask) {
  fail(fmt::format("lane {} shuffles from lane {}, which mask {:#x} leaves out", lane, source, mask));
}

unsigned ballot(unsigned mask, bool predicate, const char* name, std::source_location where) {
  unsigned votes = 0;
  const auto count_votes = [](const WarpView& warp) {
    unsigned all = 0;
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
      if ((warp.mask >> lane & 1) != 0 && *static_cast<const bool*>(warp.in[lane])) all |= 1u << lane;
    }
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
      if ((warp.mask >> lane & 1) != 0) *static_cast<unsigned*>(warp.out[lane]) = all;
    }
  };
  warp_collective(mask, &predicate, &votes, count_votes, name, where);
  return votes;
}

}  // namespace emulated_cuda

void __trap(std::source_location where) {
  emulated_cuda::fail(fmt::format("a kernel trapped at {}:{}", where.file_name(), where.line()));
}

void __syncwarp(unsigned mask, std::source_location where) {
  emulated_cuda::warp_collective(
      mask, nullptr, nullptr, [](const emulated_cuda::WarpView&) {}, "__syncwarp", where);
}
