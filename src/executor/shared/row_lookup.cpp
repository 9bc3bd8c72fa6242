// Looks up rows: the distinct tokens of a micro-batch, sorted, and their rows from the host or, in blocks of
// 4 KiB that are verified one by one, from the disk.
#include "executor/shared/row_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/shared/operand_cursor.h"
#include "kernels/checksum/checksum.h"

namespace tidepool {
namespace {

constexpr u64 block_bytes = frame_alignment;
constexpr u32 rows_per_task = 64;

u64 seed_of(ChunkId chunk) { return checksum_seed(chunk, 0); }

}  // namespace

RowLookup::RowLookup(ExecutorCommon& common, DiskLanes& disk)
    : common_(common),
      disk_(disk),
      lookup_(common.plan.lookup),
      row_bytes_(values_bytes(lookup_.row_elements, common.plan.precision)) {
  const Plan& plan = common.plan;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    if (chunk.kind != Kind::param || chunk.window != lookup_.window) continue;
    Cut cut{.chunk = ChunkId{id},
            .begin = values_bytes(chunk.element_begin, plan.precision),
            .bytes = values_bytes(chunk.elements, plan.precision),
            .home = plan.homes[id]};
    on_disk_ |= cut.home.tier == Tier::disk;
    if (cut.home.tier == Tier::disk) cut.checksums.resize(chunk.bytes.value / block_bytes);
    cuts_.push_back(std::move(cut));
  }
  const u64 places = common.graph.batch.rows();
  for (std::vector<i32>* each : {&tokens_, &targets_, &starts_}) each->resize(places);
  distinct_.reserve(places);
  if (!on_disk_) return;
  const u64 blocks_most = common.request.staging.size() / block_bytes;
  runs_.reserve(blocks_most), reads_.reserve(blocks_most);
}

void RowLookup::find_distinct(std::span<const i32> tokens) {
  distinct_.assign(tokens.begin(), tokens.end());
  std::ranges::sort(distinct_);
  distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
}

void RowLookup::number(std::span<i32> tokens) {
  find_distinct(tokens);
  for (i32& token : tokens)
    token = static_cast<i32>(std::ranges::lower_bound(distinct_, token) - distinct_.begin());
}

// The batch has the places of tokens already, and not the tokens.
Result<void> RowLookup::load_tokens(const Issue& issue) {
  const std::span<i32> starts = common_.graph.batch.packed ? std::span<i32>(starts_) : std::span<i32>();
  TRY(common_.request.source.load_batch({.step = issue.step,
                                         .micro_batch = issue.get().micro_batch,
                                         .evaluation = issue.segment->kind == SegmentKind::evaluation},
                                        {.tokens = tokens_, .targets = targets_, .starts = starts}));
  find_distinct(tokens_);
  return {};
}

Result<void> RowLookup::run(const Issue& issue) {
  OperandCursor operands(common_.plan, common_.memory, issue);
  const std::span<std::byte> rows = operands.take(Kind::rows);
  TRY(load_tokens(issue));
  const u64 used = distinct_.size() * row_bytes_;
  CHECK(used + block_bytes <= rows.size(), used, rows.size());
  common_.moved.add_by_data(LinkKind::h2d, static_cast<i64>(used) - static_cast<i64>(rows.size()));
  if (on_disk_) {
    TRY(copy_from_disk(rows));
  } else {
    copy_from_host(rows);
  }
  const u32 count = static_cast<u32>(distinct_.size());
  std::memcpy(rows.data() + rows.size() - block_bytes, &count, sizeof count);
  return {};
}

template <class Fn>
void RowLookup::parts_of(i32 row, Fn&& fn) const {
  u64 begin = static_cast<u64>(row) * row_bytes_;
  const u64 end = begin + row_bytes_;
  auto cut = std::ranges::upper_bound(cuts_, begin, {}, &Cut::begin) - 1;
  for (; begin < end; ++cut) {
    const u64 stop = std::min(end, cut->begin + cut->bytes);
    fn(Part{
        .cut = static_cast<u64>(cut - cuts_.begin()), .begin = begin - cut->begin, .bytes = stop - begin});
    begin = stop;
  }
}

void RowLookup::copy_from_host(std::span<std::byte> rows) const {
  const u32 tasks = static_cast<u32>(div_up(distinct_.size(), rows_per_task));
  parallel_for(common_.pool, Priority::high, tasks, [&](u32 task, u32) {
    const u64 end = std::min<u64>(distinct_.size(), (task + 1) * rows_per_task);
    for (u64 i = task * rows_per_task; i < end; ++i) {
      std::byte* to = rows.data() + i * row_bytes_;
      parts_of(distinct_[i], [&](const Part& part) {
        std::memcpy(to, common_.memory.at(cuts_[part.cut].home).data() + part.begin, part.bytes);
        to += part.bytes;
      });
    }
  });
}

// ---- from the disk

void RowLookup::add_blocks(const Part& part) {
  const u64 first = part.begin / block_bytes, end = div_up(part.begin + part.bytes, block_bytes);
  if (!runs_.empty()) {
    Run& last = runs_.back();
    const u64 last_end = last.first + last.blocks;
    if (last.cut == part.cut && first <= last_end) {  // rows ascend, and so do blocks
      blocks_ += std::max(end, last_end) - last_end;
      last.blocks = std::max(end, last_end) - last.first;
      return;
    }
  }
  runs_.push_back({.cut = part.cut, .first = first, .blocks = end - first, .at = blocks_});
  blocks_ += end - first;
}

Result<u64> RowLookup::read_rows(u64 first) {
  const u64 most = common_.request.staging.size() / block_bytes;
  const u64 of_row = div_up(row_bytes_, block_bytes) + 2;  // it may begin in one cut and end in the next
  CHECK(of_row <= most, row_bytes_, most);
  runs_.clear(), reads_.clear();
  blocks_ = 0;
  u64 next = first;
  for (; next < distinct_.size() && blocks_ + of_row <= most; ++next)
    parts_of(distinct_[next], [&](const Part& part) { add_blocks(part); });
  for (const Run& run : runs_)
    reads_.push_back(
        {.chunk = cuts_[run.cut].chunk,
         .offset = run.first * block_bytes,
         .memory = common_.request.staging.subspan(run.at * block_bytes, run.blocks * block_bytes)});
  common_.moved.add_by_data(LinkKind::disk_read, static_cast<i64>(blocks_ * block_bytes));
  TRY(disk_.read_blocks(reads_));
  for (const Run& run : runs_)
    for (u64 block = 0; block < run.blocks; ++block) {
      const auto bytes = common_.request.staging.subspan((run.at + block) * block_bytes, block_bytes);
      const u64 number = run.first + block;
      if (block_checksum(bytes, seed_of(cuts_[run.cut].chunk), number) != cuts_[run.cut].checksums[number])
        return damaged(run, number);
    }
  return next;
}

Result<void> RowLookup::copy_from_disk(std::span<std::byte> rows) {
  common_.moved.add_by_data(LinkKind::disk_read, -static_cast<i64>(lookup_disk_bytes(common_.plan).value));
  for (u64 first = 0; first < distinct_.size();) {
    TRY_ASSIGN(const u64 next, read_rows(first));
    u64 run = 0;
    for (u64 i = first; i < next; ++i) {
      std::byte* to = rows.data() + i * row_bytes_;
      parts_of(distinct_[i], [&](const Part& part) {
        const auto holds = [&](const Run& r) {
          return r.cut == part.cut && part.begin / block_bytes < r.first + r.blocks;
        };
        while (!holds(runs_[run])) ++run;
        const u64 at = runs_[run].at * block_bytes + part.begin - runs_[run].first * block_bytes;
        std::memcpy(to, common_.request.staging.data() + at, part.bytes);
        to += part.bytes;
      });
    }
    first = next;
  }
  return {};
}

void RowLookup::keep_checksums(ChunkId chunk, std::span<const std::byte> content) {
  const auto cut = std::ranges::find(cuts_, chunk, &Cut::chunk);
  CHECK(cut != cuts_.end() && content.size() == cut->checksums.size() * block_bytes, content.size());
  constexpr u64 blocks_per_task = 64;
  const u64 blocks = cut->checksums.size();
  parallel_for(
      common_.pool, Priority::normal, static_cast<u32>(div_up(blocks, blocks_per_task)), [&](u32 task, u32) {
        const u64 end = std::min(blocks, (task + 1) * blocks_per_task);
        for (u64 block = task * blocks_per_task; block < end; ++block)
          cut->checksums[block] =
              block_checksum(content.subspan(block * block_bytes, block_bytes), seed_of(chunk), block);
      });
}

Error RowLookup::damaged(const Run& run, u64 block) const {
  return {ErrorKind::io,
          fmt::format("checksum mismatch reading rows of {} (cut {}, {}): the disk returned damaged data. "
                      "Checkpoints are not touched: check the disk (dmesg, smartctl), then resume, with "
                      "memory.swap_dir on another disk if it happens again",
                      common_.graph.windows[lookup_.window].name, run.cut,
                      disk_.place_of_block(cuts_[run.cut].chunk, block * block_bytes))};
}

Bytes lookup_memory(const Plan& plan, u64 places) {
  if (!plan.lookup.on()) return {};
  Bytes sum{4 * places * sizeof(i32)};
  for (u32 id = 0; id < plan.homes.size(); ++id)
    if (plan.chunks[id].window == plan.lookup.window && plan.homes[id].tier == Tier::disk)
      sum += Bytes{plan.homes[id].bytes.value / block_bytes * sizeof(u64)};
  return sum;
}

}  // namespace tidepool
