// Heap allocations of all threads, counted and named. Linked into test_contract.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool::test {

// Counts while it lives. One at a time; nothing that may allocate should run beside what is measured.
class CountAllocations {
 public:
  CountAllocations();
  ~CountAllocations() { stop(); }
  CountAllocations(const CountAllocations&) = delete;

  void stop();
  u64 count() const;
  // The first few: thread, bytes, and where from (for addr2line). Empty if there are none.
  std::string who() const;
};

}  // namespace tidepool::test
