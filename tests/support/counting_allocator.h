// CountAllocations counts heap allocations of all threads and names their origin. Linked into test_contract.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool::test {

// Counts while the object lives. REQUIRES: one object at a time; no other allocating code runs meanwhile.
class CountAllocations {
 public:
  CountAllocations();
  ~CountAllocations() { stop(); }
  CountAllocations(const CountAllocations&) = delete;

  void stop();
  u64 count() const;
  // RETURNS: the first few allocations: thread, bytes, and address (for addr2line). Empty if there are none.
  std::string who() const;
};

}  // namespace tidepool::test
