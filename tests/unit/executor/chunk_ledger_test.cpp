// ChunkLedger chooses slots so that a write spares what the last commit and a save in the background need:
// all orders of writes, commits, holds and rollbacks, up to a length.
#include "executor/shared/chunk_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace tidepool::chunk_ledger_test {

constexpr ChunkId chunk{0};

Plan plan_with(u32 versions) {
  Plan plan;
  plan.versions = versions;
  plan.chunks = {{.kind = Kind::param, .bytes = Bytes{4096}}};
  return plan;
}

// Disk models the slots of one chunk beside its ledger: which write each slot holds, and which writes are
// needed.
struct Disk {
  explicit Disk(const Plan& plan) : ledger(plan) {}

  ChunkLedger ledger;
  std::array<u32, versions_max> slots{};  // number of the write in each; 0: nothing
  u32 writes = 0, newest = 0;
  u32 committed = 0, held = 0;  // 0: none
  bool writing = false;

  bool has(u32 write) const { return write == 0 || std::ranges::find(slots, write) != slots.end(); }
};

enum Event : u32 { begin_write, end_write, clear, commit, hold, release, roll_back, event_count };

bool may_happen(const Disk& d, Event event, u32 versions) {
  switch (event) {
    case begin_write:
    case clear:
      return !d.writing;
    case end_write:
      return d.writing;
    case commit:  // the plan orders writes and commits of a chunk; with two versions commits wait for a save
      return !d.writing && d.newest != 0 && (versions > 2 || d.held == 0);
    case hold:
      return d.committed != 0 && d.held == 0;
    case release:
      return d.held != 0;
    case roll_back:
      return !d.writing && d.committed != 0;
    default:
      return false;
  }
}

// A write changes its slot from its beginning on.
void begin(Disk& d) {
  d.ledger.begin_write(chunk);
  d.slots[d.ledger.slot_to_write(chunk)] = ++d.writes;
}

void happen(Disk& d, Event event) {
  switch (event) {
    case begin_write:
      d.ledger.prepare(chunk, d.writes + 1);
      begin(d);
      d.writing = true;
      return;
    case end_write:
      d.ledger.end_write(chunk);
      d.newest = d.writes;
      d.writing = false;
      return;
    case clear:
      begin(d);
      d.ledger.cleared(chunk);
      d.newest = d.writes;
      return;
    case commit:
      d.ledger.committed(chunk);
      d.committed = d.newest;
      return;
    case hold:
      d.ledger.hold(chunk);
      d.held = d.committed;
      return;
    case release:
      d.ledger.release(chunk);
      d.held = 0;
      return;
    default:
      d.ledger.roll_back(chunk);
      d.newest = d.committed;
  }
}

bool is_right(const Disk& d) {
  const bool finds_newest = d.writing || d.newest == 0 || d.slots[d.ledger.slot(chunk)] == d.newest;
  const bool finds_committed =
      d.committed == 0 || d.slots[d.ledger.committed_mark(chunk).slot] == d.committed;
  return finds_newest && finds_committed && d.has(d.held);
}

// RETURNS: number of orders; the first that is wrong is a failure.
u64 all_orders(const Disk& from, u32 versions, u32 length, std::string path) {
  u64 orders = 1;
  if (length == 0) return orders;
  for (u32 e = 0; e < event_count; ++e) {
    const Event event = static_cast<Event>(e);
    if (!may_happen(from, event, versions)) continue;
    Disk next = from;
    happen(next, event);
    const std::string now = path + static_cast<char>('0' + e);
    EXPECT_TRUE(is_right(next)) << versions << " versions, events " << now;
    if (testing::Test::HasFailure()) return orders;
    orders += all_orders(next, versions, length - 1, now);
  }
  return orders;
}

TEST(ChunkLedger, SparesWhatIsCommittedOrHeldInAllOrders) {
  for (const u32 versions : {2u, 3u}) {
    const Plan plan = plan_with(versions);
    EXPECT_GT(all_orders(Disk(plan), versions, 9, ""), 10'000u);
  }
}

TEST(ChunkLedger, ResumesFromAnySlotInAllOrders) {
  for (const u32 versions : {2u, 3u})
    for (u32 slot = 0; slot < versions; ++slot) {
      const Plan plan = plan_with(versions);
      Disk disk(plan);
      disk.ledger.take_over(chunk, {.version = 7, .sum = 1, .slot = slot});
      disk.slots[slot] = disk.newest = disk.committed = disk.writes = 1;
      ASSERT_TRUE(is_right(disk));
      EXPECT_GT(all_orders(disk, versions, 8, ""), 1000u);
    }
}

TEST(ChunkLedger, KeepsWhatASaveHasReadOfOverSeveralCommits) {
  const Plan plan = plan_with(3);
  Disk disk(plan);
  for (const Event event : {begin_write, end_write, commit, hold}) happen(disk, event);
  const u32 held = disk.ledger.slot(chunk);
  for (u32 step = 0; step < 5; ++step) {
    for (const Event event : {begin_write, end_write, commit}) happen(disk, event);
    EXPECT_NE(disk.ledger.slot(chunk), held);
    EXPECT_TRUE(is_right(disk));
  }
  happen(disk, release);
  happen(disk, begin_write);
  EXPECT_EQ(disk.ledger.slot_to_write(chunk), held);
}

// A commit's marks stay as they were, whatever is written later.
TEST(ChunkLedger, TellsOfTheCommitNotOfTheNewestContent) {
  const Plan plan = plan_with(3);
  Disk disk(plan);
  for (const Event event : {begin_write, end_write, commit}) happen(disk, event);
  const ChunkMark mark = disk.ledger.mark(chunk);
  EXPECT_EQ(disk.ledger.committed_mark(chunk), mark);
  happen(disk, clear);
  EXPECT_EQ(disk.ledger.committed_mark(chunk), mark);
  EXPECT_NE(disk.ledger.mark(chunk), mark);
  happen(disk, roll_back);
  EXPECT_EQ(disk.ledger.mark(chunk), mark);
}

TEST(ChunkLedger, HasNoSlotForAWriteAfterACommitThatTwoVersionsForbid) {
  const Plan plan = plan_with(2);
  Disk disk(plan);
  for (const Event event : {begin_write, end_write, commit, hold, begin_write, end_write, commit})
    happen(disk, event);
  EXPECT_DEATH(disk.ledger.begin_write(chunk), "CHECK");
}

}  // namespace tidepool::chunk_ledger_test
