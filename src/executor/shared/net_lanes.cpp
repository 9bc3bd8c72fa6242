#include "executor/shared/net_lanes.h"

#include <map>
#include <tuple>

#include "base/check.h"

namespace tidepool {
namespace {

constexpr u64 at_rest_tag = u64{1} << 63;

}  // namespace

NetLanes::NetLanes(ExecutorCommon& common) : common_(common), slots_(2 * net_depth) {
  const Plan& plan = common.plan;
  for (u32 i = 0; i < slots_.size(); ++i) free_.push_back(i);
  std::map<std::tuple<u32, u32, u32>, u32> own;  // by window, cut and use
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    if (chunk.kind == Kind::grad_part && chunk.instance % plan.nodes == plan.node)
      own[{chunk.window, chunk.cut, chunk.instance / plan.nodes}] = id;
  }
  parts_.assign(plan.chunks.size(), none);
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    if (chunk.kind != Kind::grad_accum) continue;
    if (const auto part = own.find({chunk.window, chunk.cut, chunk.instance}); part != own.end())
      parts_[id] = part->second;
  }
  common.request.transport->deliver_to([this](const NetCompletion& completion) { done(completion); });
}

NetLanes::~NetLanes() { common_.request.transport->deliver_to({}); }

// Both nodes give a message the number of its step and of the chunk that the receiver makes.
u64 NetLanes::message_of(const Issue& issue) const {
  const u32 chunk = index(issue.segment->operands_of(issue.get())[0].first);
  const u32 made = parts_[chunk] == none ? chunk : parts_[chunk];
  return issue.step << 32 | made;
}

void NetLanes::submit(const Issue& issue) {
  const Op& op = issue.get();
  const std::span<std::byte> memory = common_.memory.at(issue.segment->operands_of(op)[0].frame);
  u32 number = 0;
  {
    const std::scoped_lock lock(mutex_);
    CHECK(!free_.empty(), issue.sequence);
    number = free_.back();
    free_.pop_back();
    slots_[number] = {.issue = issue, .bytes = memory.size(), .started = common_.clock.now()};
  }
  if (op.kind == OpKind::send)
    common_.request.transport->send(op.peer, message_of(issue), memory, number);
  else
    common_.request.transport->receive(op.peer, message_of(issue), memory, number);
}

// ---- at rest

void NetLanes::begin_at_rest(u32 transfers) {
  const std::scoped_lock lock(rest_mutex_);
  rest_open_ = transfers;
  rest_error_.reset();
}

void NetLanes::done_at_rest(const NetCompletion& completion) {
  const std::scoped_lock lock(rest_mutex_);
  if (!completion.ok) rest_error_ = completion.error;
  --rest_open_;
  rest_changed_.notify_all();
}

Result<void> NetLanes::end_at_rest() {
  std::unique_lock lock(rest_mutex_);
  rest_changed_.wait(lock, [&] { return rest_open_ == 0; });
  if (rest_error_) return *rest_error_;
  return {};
}

Result<void> NetLanes::send_at_rest(u32 peer, u64 message, std::span<const std::byte> bytes) {
  begin_at_rest(1);
  transport().send(peer, message, bytes, at_rest_tag);
  return end_at_rest();
}

Result<void> NetLanes::pass_at_rest(u32 to, std::span<const std::byte> sent, u32 from,
                                    std::span<std::byte> received, u64 message) {
  begin_at_rest(2);
  transport().receive(from, message, received, at_rest_tag);
  transport().send(to, message, sent, at_rest_tag);
  return end_at_rest();
}

Result<void> NetLanes::receive_at_rest(u32 peer, u64 message, std::span<std::byte> bytes) {
  begin_at_rest(1);
  transport().receive(peer, message, bytes, at_rest_tag);
  return end_at_rest();
}

// ---- steps

void NetLanes::done(const NetCompletion& completion) {
  if (completion.tag == at_rest_tag) return done_at_rest(completion);
  Slot slot;
  {
    const std::scoped_lock lock(mutex_);
    slot = slots_[completion.tag];
    free_.push_back(static_cast<u32>(completion.tag));
  }
  const Nanos now = common_.clock.now();
  if (!completion.ok)
    return common_.board.post_error(slot.issue.sequence, slot.started, now, completion.error);
  common_.moved.add_over_network(slot.issue.get().kind == OpKind::send, slot.bytes);
  common_.board.post(slot.issue.sequence, slot.started, now);
}

}  // namespace tidepool
