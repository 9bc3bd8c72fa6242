#include "tests/power/hashed_executor.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/mix_bits.h"
#include "io/disk_error.h"

namespace tidepool::test {
namespace {

// AtOnceDisk serves each request before submit() returns.
class AtOnceDisk final : public Disk {
 public:
  AtOnceDisk(SimulatedMedium& medium, DiskSink sink) : medium_(medium), sink_(std::move(sink)) {}

  void submit(const DiskRequest& r) override {
    DiskCompletion done{.tag = r.tag};
    done.ok = r.op == DiskOp::read ? medium_.read(r.offset, r.memory) : medium_.write(r.offset, r.memory);
    if (!done.ok) done.error = disk_error("the medium", r.op, r.offset, r.memory.size(), EIO);
    sink_(done);
  }
  Result<void> sync() override {
    if (medium_.flush()) return {};
    return file_error("cannot flush", "the medium", EIO);
  }
  Result<void> clear(u64 offset, Bytes bytes) override {
    if (medium_.clear(offset, bytes.value)) return {};
    return file_error("cannot clear a part of", "the medium", EIO);
  }
  std::string describe() const override { return "a disk that serves at once"; }

 private:
  SimulatedMedium& medium_;
  DiskSink sink_;
};

void fill(std::span<std::byte> out, u64 seed) {
  u64 word = mix_count(seed);
  for (u64 at = 0; at + sizeof word <= out.size(); at += sizeof word, word += golden_gamma)
    std::memcpy(out.data() + at, &word, sizeof word);
}

// Numbers of an op that do not depend on its segment.
u64 identity(const Issue& issue) {
  const Op& op = issue.get();
  u64 all = issue.step;
  for (const u64 number :
       {u64{static_cast<u32>(op.kind)}, u64{op.block}, u64{op.micro_batch}, u64{op.window}, u64{op.cut}})
    all = mix_count(all ^ number);
  return all;
}

}  // namespace

void HashedMemory::forget() {
  for (const PageBuffer* memory : {&device, &host})
    std::memset(memory->span().data(), 0xA5, memory->span().size());
}

HashedExecutor::HashedExecutor(const Request& r)
    : common_(r.plan, r.graph, pool_, {r.memory.device.span()},
              {.source = r.source,
               .host_arena = r.memory.host.span(),
               .staging = r.memory.staging.span(),
               .open_disk = [&medium = r.medium](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
                 return std::unique_ptr<Disk>(std::make_unique<AtOnceDisk>(medium, std::move(sink)));
               },
               .disk_depth = 8,
               .commits = &r.commits}),
      random_(r.seed) {
  CHECK(r.plan.devices == 1 && r.plan.nodes == 1, r.plan.devices);
  hashes_.resize(common_.ledger.blocks_max());
}

Result<std::unique_ptr<HashedExecutor>> HashedExecutor::create(const Request& request) {
  request.memory.forget();
  std::unique_ptr<HashedExecutor> executor(new HashedExecutor(request));
  TRY_ASSIGN(executor->disk_lanes_, DiskLanes::create(executor->common_));
  return executor;
}

// ---- steps

void HashedExecutor::submit(const Issue& issue, std::span<const u64> in_flight) {
  common_.book.submitted(issue);
  queue_.push_back({issue, {in_flight.begin(), in_flight.end()}});
}

std::span<const Completion> HashedExecutor::wait() {
  may_run_.clear();
  for (u64 i = 0; i < queue_.size(); ++i)
    if (may_run(i)) may_run_.push_back(i);
  CHECK(!may_run_.empty(), queue_.size());
  const u64 place = may_run_[random_() % may_run_.size()];
  const Issue issue = queue_[place].issue;
  run(issue);
  queue_.erase(queue_.begin() + static_cast<i64>(place));
  const std::span<const Completion> completions = common_.board.take(common_.request.rest_patience);
  common_.book.completed(completions);
  return completions;
}

bool HashedExecutor::may_run(u64 place) const {
  const Queued& queued = queue_[place];
  const LaneId lane = queued.issue.get().lane;
  if (is_ordered(lane.kind))
    for (u64 i = 0; i < place; ++i)
      if (queue_[i].issue.get().lane == lane) return false;
  return std::ranges::none_of(queued.in_flight, [&](u64 sequence) { return is_waiting(sequence); });
}

bool HashedExecutor::is_waiting(u64 sequence) const {
  return std::ranges::any_of(queue_, [&](const Queued& q) { return q.issue.sequence == sequence; });
}

void HashedExecutor::run(const Issue& issue) {
  const OpKind kind = issue.get().kind;
  if (is_disk(issue.get().lane.kind)) return disk_lanes_->submit(issue);
  kind == OpKind::copy ? copy(issue) : hash(issue);
  common_.board.post(issue.sequence, now(), now());
}

void HashedExecutor::copy(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const std::span<const std::byte> from = common_.memory.at(operands[0].frame);
  std::memcpy(common_.memory.at(operands[1].frame).data(), from.data(), from.size());
}

// A chunk by itself may end with zeros that fill its last page, which nobody reads or checks.
std::span<std::byte> HashedExecutor::content_of(const Operand& o) const {
  const std::span<std::byte> frame = common_.memory.at(o.frame);
  return o.count > 1 ? frame : frame.first(common_.ledger.content_bytes(common_.plan.chunk(o.first)));
}

void HashedExecutor::hash(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  u64 all = identity(issue);
  for (const Operand& o : operands) {
    if (!reads(o.access) || common_.plan.chunk(o.first).kind == Kind::workspace) continue;
    const std::span<const std::byte> content = content_of(o);
    all = XXH3_64bits_withSeed(content.data(), content.size(), all);
  }
  for (const Operand& o : operands) {
    if (!writes(o.access)) continue;
    const std::span<std::byte> content = content_of(o);
    fill(content, all = mix_count(all));
    // As Adam does for what is written next.
    if (is_update(issue.get().kind) && common_.plan.homes[index(o.first)].tier == Tier::disk)
      common_.ledger.prepare(
          o.first,
          common_.ledger.make_sum(o.first, content, common_.ledger.next_seed(o.first), hashes_, pool_));
  }
}

// ---- at rest

Result<void> HashedExecutor::write_first_state() {
  for (u32 id = 0; id < common_.plan.chunks.size(); ++id) {
    const Frame& home = common_.plan.homes[id];
    if (home.bytes.value == 0) continue;
    const Kind kind = common_.plan.chunks[id].kind;
    const bool zeros = common_.plan.state_slots.is_optimizer_slot(kind);
    if (home.tier == Tier::disk && zeros) {
      TRY(disk_lanes_->clear(ChunkId{id}, home));
      continue;
    }
    buffer_.assign(home.bytes.value, std::byte{0});
    if (!zeros) fill(buffer_, id);
    if (home.tier != Tier::disk) {
      std::ranges::copy(buffer_, common_.memory.at(home).data());
      continue;
    }
    TRY(disk_lanes_->begin_write(ChunkId{id}, home, buffer_));
    TRY(disk_lanes_->end_write(ChunkId{id}));
  }
  return {};
}

Result<void> HashedExecutor::take_over() {
  for (const ChunkId id : disk_lanes_->commits()->chunks()) {
    const Frame& home = common_.plan.homes[index(id)];
    if (home.tier == Tier::disk) continue;
    TRY(disk_lanes_->read(id, common_.plan.slots[index(id)], common_.memory.at(home)));
  }
  return {};
}

Result<std::span<const std::byte>> HashedExecutor::content(ChunkId id) {
  const Frame& home = common_.plan.homes[index(id)];
  if (home.tier != Tier::disk) return std::span<const std::byte>(common_.memory.at(home));
  buffer_.resize(home.bytes.value);
  TRY(disk_lanes_->read(id, home, buffer_));
  return std::span<const std::byte>(buffer_);
}

Result<u64> HashedExecutor::hash_state() {
  u64 all = 0;
  for (u32 id = 0; id < common_.plan.chunks.size(); ++id) {
    if (common_.plan.homes[id].bytes.value == 0) continue;
    TRY_ASSIGN(const std::span<const std::byte> bytes, content(ChunkId{id}));
    const u64 count = common_.ledger.content_bytes(common_.plan.chunks[id]);
    all = XXH3_64bits_withSeed(bytes.data(), count, all);
  }
  return all;
}

// ---- a save in the background

void HashedExecutor::begin_save() {
  hold_.emplace(disk_lanes_->commits()->hold_last_commit());
  saved_ = disk_lanes_->commits()->last_commit();
}

bool HashedExecutor::end_save(const SimulatedMedium& medium) {
  const std::vector<ChunkId>& chunks = disk_lanes_->commits()->chunks();
  bool whole = true;
  for (u64 i = 0; i < chunks.size(); ++i) {
    const ChunkMark& mark = saved_.chunks[i];
    const Frame& slot = common_.plan.slots[index(chunks[i])];
    const u64 offset = common_.request.commits->head.frames_begin() + slot.offset +
                       mark.slot * common_.plan.second_slot.value;
    const std::span<const std::byte> content = medium.bytes().subspan(offset, slot.bytes.value);
    const u64 seed = checksum_seed(chunks[i], mark.version);
    whole &= mark.zeros ? all_zeros(content, pool_)
                        : common_.ledger.make_sum(chunks[i], content, seed, hashes_, pool_) == mark.sum;
  }
  hold_.reset();
  return whole;
}

}  // namespace tidepool::test
