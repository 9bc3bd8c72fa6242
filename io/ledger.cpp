#include "base/check.h"
#include "io/arena.h"

namespace tidepool {

void ArenaLedger::take(const std::string& name, Bytes bytes) {
  std::scoped_lock lock(mutex_);
  now_ += bytes;
  taken_ever_ += bytes;
  high_water_ = std::max(high_water_, now_);
  for (Entry& entry : entries_) {
    if (entry.name != name) continue;
    entry.now += bytes;
    entry.high_water = std::max(entry.high_water, entry.now);
    return;
  }
  entries_.push_back({name, bytes, bytes});
}

void ArenaLedger::give_back(const std::string& name, Bytes bytes) {
  std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.name != name) continue;
    CHECK(entry.now >= bytes, name, entry.now.value, bytes.value);
    entry.now -= bytes;
    now_ -= bytes;
    return;
  }
  CHECK(false, name);
}

Bytes ArenaLedger::now() const {
  std::scoped_lock lock(mutex_);
  return now_;
}

Bytes ArenaLedger::high_water() const {
  std::scoped_lock lock(mutex_);
  return high_water_;
}

std::vector<ArenaLedger::Entry> ArenaLedger::entries() const {
  std::scoped_lock lock(mutex_);
  return entries_;
}

Bytes ArenaLedger::taken_ever() const {
  std::scoped_lock lock(mutex_);
  return taken_ever_;
}

}  // namespace tidepool
