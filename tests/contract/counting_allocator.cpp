#include "tests/support/counting_allocator.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constexpr unsigned frames_max = 12, skipped_frames = 2;
struct Allocation {
  char thread[16];
  std::size_t bytes;
  void* frames[frames_max];
  int frame_count;
};

std::atomic<bool> counting{false};
std::atomic<unsigned> allocations{0};
std::array<Allocation, 8> first;  // plain memory, because recording must not allocate

void remember(std::size_t bytes) {
  const unsigned number = allocations.fetch_add(1, std::memory_order_relaxed);
  if (number >= first.size()) return;
  Allocation& a = first[number];
  prctl(PR_GET_NAME, a.thread);
  a.bytes = bytes;
  a.frame_count = backtrace(a.frames, frames_max);
}

void* counted(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) remember(bytes);
  void* memory = alignment == 0
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

// Not inlined: otherwise the compiler sees malloc paired with operator delete, and warns.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes, 0); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t a) {
  return counted(bytes, static_cast<std::size_t>(a));
}
// std::stable_sort allocates its buffer with this operator and frees it with the plain delete.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 0);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tidepool::test {

CountAllocations::CountAllocations() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads its library on the first call
  allocations = 0;
  counting = true;
}

void CountAllocations::stop() { counting = false; }
u64 CountAllocations::count() const { return allocations; }

std::string CountAllocations::who() const {
  std::string text;
  for (u64 i = 0; i < std::min<u64>(allocations, first.size()); ++i) {
    const Allocation& a = first[i];
    text += fmt::format("{}: {} bytes\n", a.thread, a.bytes);
    char** symbols = backtrace_symbols(a.frames, a.frame_count);
    for (int f = skipped_frames; symbols != nullptr && f < a.frame_count; ++f)
      text += fmt::format("  {}\n", symbols[f]);
    std::free(symbols);
  }
  return text;
}

}  // namespace tidepool::test
