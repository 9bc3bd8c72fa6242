// BadRecords counts lines of JSONL that cannot be learned from. data.on_bad_record decides whether they end
// the run or are skipped.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

enum class OnBadRecord : u8 { error, skip };

struct BadRecords {
  static constexpr size_t named_max = 3;

  u64 count = 0;
  std::vector<std::string> first;  // "FILE:LINE: reason" of the first named_max, in the order of the files

  void add(std::string message) {
    ++count;
    if (first.size() < named_max) first.push_back(std::move(message));
  }
  // Appends the records of `later`, which come behind these.
  void add(const BadRecords& later) {
    for (const std::string& message : later.first) {
      if (first.size() < named_max) first.push_back(message);
    }
    count += later.count;
  }
  bool operator==(const BadRecords&) const = default;
};

}  // namespace tidepool
