#include "io/sudden_end.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tidepool {
namespace {

// A run has four: the lock of its directory, the directory, the lock of the swap directory, and the swap
// file.
constexpr int slots_max = 16;

struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<char*> path{nullptr};  // null: nothing to remove (yet)
  std::atomic<Leftover> kind{};
};
// Global, because a signal handler can reach only globals.
std::array<Slot, slots_max> slots;
static_assert(std::atomic<char*>::is_always_lock_free);

std::atomic<int> held{0};               // number of live NoSuddenEnd objects
constexpr int held_milliseconds = 500;  // file creation may hang; the next job then clears its leftovers

void wait_for_held() {
  for (int i = 0; i < held_milliseconds && held > 0; ++i) ::poll(nullptr, 0, 1);
}

}  // namespace

RemovedAtSuddenEnd::RemovedAtSuddenEnd(const std::string& path, Leftover kind) {
  for (int i = 0; i < slots_max; ++i) {
    if (slots[i].taken.exchange(true)) continue;
    slots[i].kind = kind;
    slots[i].path = ::strdup(path.c_str());
    slot_ = i;
    return;
  }
}

RemovedAtSuddenEnd::RemovedAtSuddenEnd(RemovedAtSuddenEnd&& o) noexcept : slot_(std::exchange(o.slot_, -1)) {}

RemovedAtSuddenEnd& RemovedAtSuddenEnd::operator=(RemovedAtSuddenEnd&& o) noexcept {
  std::swap(slot_, o.slot_);
  return *this;
}

RemovedAtSuddenEnd::~RemovedAtSuddenEnd() {
  if (slot_ < 0) return;
  std::free(slots[slot_].path.exchange(nullptr));
  slots[slot_].taken = false;
}

NoSuddenEnd::NoSuddenEnd() {
  sigset_t all;
  sigfillset(&all);
  // otherwise the handler could wait for the very thread that it interrupts
  pthread_sigmask(SIG_BLOCK, &all, &mask_);
  ++held;
}

NoSuddenEnd::~NoSuddenEnd() {
  --held;
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

void remove_leftovers() {
  wait_for_held();
  for (const Leftover kind : {Leftover::file, Leftover::directory}) {
    for (Slot& slot : slots) {
      const char* path = slot.path;
      if (path == nullptr || slot.kind != kind) continue;
      kind == Leftover::file ? ::unlink(path) : ::rmdir(path);
    }
  }
}

}  // namespace tidepool
