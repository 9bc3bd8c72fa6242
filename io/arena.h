// Arena holds the memory of a tier, taken once before the first step. ArenaLedger counts that memory.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// ArenaLedger counts tier memory by name.
// THREADS: any thread may call.
class ArenaLedger {
 public:
  struct Entry {
    std::string name;
    Bytes now{}, high_water{};
  };

  void take(const std::string& name, Bytes);
  void give_back(const std::string& name, Bytes);

  Bytes now() const;
  Bytes high_water() const;            // high-water mark of the sum, not the sum of the entries' marks
  std::vector<Entry> entries() const;  // in order of first taking
  // All bytes ever taken, given back or not. A steady step takes none, which callers check: Bytes mark =
  // ledger.taken_ever(); ... CHECK(ledger.taken_since(mark) == Bytes{0}).
  Bytes taken_ever() const;
  Bytes taken_since(Bytes mark) const { return taken_ever() - mark; }

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  Bytes now_{}, high_water_{}, taken_ever_{};
};

struct ArenaOptions {
  std::string name;        // "host", "device 0": in messages and in the ledger
  Bytes bytes{};           // exact: a multiple of frame_alignment
  bool huge_pages = true;  // asks for 2 MiB pages
  bool numa_bind = true;   // binds to the node(s) of this process's CPUs; no-op on a single-node machine
  std::vector<std::string> near;  // PCI addresses of devices: binds to their nodes instead
  bool prefault = true;           // every page is mapped before create() returns
  bool lock = false;              // mlock; failing is a note, not an error
  bool poison = false;            // fills with arena_poison, so that tests see reads of unwritten frames
  CorePool* pool = nullptr;       // prefaults in parallel if given
  ArenaLedger* ledger = nullptr;  // must outlive the arena
};
inline constexpr std::byte arena_poison{0xA5};

class Arena {
 public:
  // Errors: ErrorKind::does_not_fit, naming the limit (cgroup, MemAvailable, RLIMIT_AS) and what to change.
  static Result<std::unique_ptr<Arena>> create(const ArenaOptions&);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::span<std::byte> memory() const { return memory_; }  // starts on a 2 MiB boundary
  std::byte* at(u64 offset) const { return memory_.data() + offset; }
  Bytes bytes() const { return Bytes{memory_.size()}; }
  // "host: 2.00 GiB, huge pages requested, bound to node 0": one line for people.
  const std::string& describe() const { return describe_; }

 private:
  Arena() = default;
  void prefault(const ArenaOptions&);

  std::span<std::byte> memory_;
  std::string name_, describe_;
  ArenaLedger* ledger_ = nullptr;
};

}  // namespace tidepool
