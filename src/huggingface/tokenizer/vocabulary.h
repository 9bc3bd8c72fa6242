// Vocabulary maps spellings to ids and back.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

// Hash table from strings to ids. All strings lie in one block of memory.
class StringIds {
 public:
  // REQUIRES: the spelling is new.
  void add(std::string_view spelling, u32 id);
  u32 find(std::string_view spelling) const;  // `none` if not found
  size_t size() const { return count_; }

 private:
  struct Slot {
    u32 hash = 0;
    u32 bytes = 0;
    u64 begin = 0;
    u32 id = none;
  };
  void grow();

  std::string text_;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

class Vocabulary {
 public:
  // RETURNS: false if the id already has another spelling.
  bool add(std::string_view spelling, u32 id);
  u32 find(std::string_view spelling) const { return ids_.find(spelling); }
  std::string_view spelling(u32 id) const;  // empty: no such id
  bool has(u32 id) const { return id < begin_.size() && begin_[id].used; }
  u32 end_id() const { return static_cast<u32>(begin_.size()); }  // highest id + 1
  u32 size() const { return static_cast<u32>(ids_.size()); }

 private:
  struct Place {
    u64 begin = 0;
    u32 bytes = 0;
    bool used = false;
  };
  StringIds ids_;
  std::string text_;
  std::vector<Place> begin_;
};

}  // namespace tidepool
