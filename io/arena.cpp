#include "io/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/errno_text.h"
#include "base/process/limits.h"
#include "io/disk_error.h"
#include "io/memory_limits.h"
#include "io/numa.h"

namespace tidepool {
namespace {

constexpr u64 huge_page_bytes = 2 * mib;
constexpr u64 prefault_slice_bytes = 32 * mib;  // one task: a few ms of zeroing

// Maps one huge page more than asked and unmaps the edges, so that the range starts on a huge page and has
// exactly the size that was asked for.
std::byte* map_aligned(u64 bytes) {
  u64 span = bytes + huge_page_bytes;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto begin = reinterpret_cast<u64>(raw);
  u64 start = round_up(begin, huge_page_bytes);
  if (start > begin) munmap(raw, start - begin);
  if (begin + span > start + bytes)
    munmap(reinterpret_cast<void*>(start + bytes), begin + span - start - bytes);
  return reinterpret_cast<std::byte*>(start);
}

// Faults pages in with one write per page where the kernel lacks MADV_POPULATE_WRITE (before 5.14).
void touch(std::span<std::byte> slice) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(slice.data(), slice.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
  for (u64 at = 0; at < slice.size(); at += frame_alignment) {
    auto* byte = const_cast<volatile std::byte*>(slice.data() + at);
    *byte = std::byte{0};
  }
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(const ArenaOptions& options) {
  CHECK(options.bytes.value % frame_alignment == 0, options.name, options.bytes.value);
  MemoryLimits limits = read_memory_limits();
  TRY(check_memory(limits, options.bytes));
  std::unique_ptr<Arena> arena(new Arena);
  arena->name_ = options.name;
  arena->describe_ = fmt::format("{}: {}", options.name, format_bytes(options.bytes));
  if (options.bytes.value == 0) return arena;

  std::byte* memory = map_aligned(options.bytes.value);
  if (memory == nullptr) {
    const int error_number = errno;
    return no_memory(fmt::format("the {} arena", options.name), options.bytes, error_number,
                     options.name.starts_with("device") ? "lower memory.device" : "lower memory.host");
  }
  arena->memory_ = {memory, options.bytes.value};
  auto say = [&](const std::string& text) { arena->describe_ += ", " + text; };
  // The kernel may accept the advice and still give small pages. An arena smaller than a huge page gets none.
  if (options.huge_pages && options.bytes.value >= huge_page_bytes) {
    bool accepted = madvise(memory, options.bytes.value, MADV_HUGEPAGE) == 0;
    say(accepted ? "huge pages requested" : "no huge pages (kernel without transparent ones)");
  }
  if (options.numa_bind) {
    if (std::string text = bind_to_local_nodes(arena->memory_, options.near); !text.empty()) say(text);
  }
  if (options.prefault || options.poison) arena->prefault(options);
  if (options.lock && mlock(memory, options.bytes.value) != 0) {
    std::string why = explain_memlock(limits, options.bytes);
    say(fmt::format("not locked: the kernel may swap the arena out ({})",
                    why.empty() ? errno_text(errno) : why));
  }
  if (options.ledger != nullptr) options.ledger->take(options.name, options.bytes);
  arena->ledger_ = options.ledger;
  return arena;
}

Arena::~Arena() {
  if (memory_.empty()) return;
  if (ledger_ != nullptr) ledger_->give_back(name_, bytes());
  munmap(memory_.data(), memory_.size());
}

void Arena::prefault(const ArenaOptions& options) {
  auto slice = [&](u32 task, u32) {
    u64 begin = task * prefault_slice_bytes;
    auto part = memory_.subspan(begin, std::min(prefault_slice_bytes, memory_.size() - begin));
    if (options.prefault) touch(part);
    if (options.poison) std::memset(part.data(), static_cast<int>(arena_poison), part.size());
  };
  u32 slices = static_cast<u32>(div_up(memory_.size(), prefault_slice_bytes));
  if (options.pool != nullptr) return parallel_for(*options.pool, Priority::high, slices, slice);
  for (u32 i = 0; i < slices; ++i) slice(i, 0);
}

}  // namespace tidepool
