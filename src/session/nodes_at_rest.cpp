#include "session/nodes_at_rest.h"

#include <array>

#include "base/check.h"

namespace tidepool {
namespace {

enum Command : u64 { command_read, command_write, command_clear, command_end };
using CommandWords = std::array<u64, 2>;  // command, chunk

// A pair of nodes takes turns, so that one number at a time is enough; it only must not be that of a step's
// message.
constexpr u64 first_message = u64{1} << 62;

}  // namespace

LeadingHomes::LeadingHomes(const Plan& plan, StateAtRest& own, NetLanes& net)
    : plan_(plan), own_(own), net_(net), messages_(plan.nodes, first_message) {
  CHECK(plan.node == 0, plan.node);
}

bool LeadingHomes::is_on(ChunkId id, u32 node) const {
  const Chunk& chunk = plan_.chunk(id);
  return chunk.kind == Kind::param || chunk.owner == node;
}

Result<void> LeadingHomes::tell(u32 node, u64 what, ChunkId id) {
  const CommandWords words = {what, index(id)};
  return net_.send_at_rest(node, messages_[node]++, std::as_bytes(std::span(words)));
}

Result<void> LeadingHomes::read_home(ChunkId id, std::span<std::byte> out) {
  if (is_on(id, 0)) return own_.read_home(id, out);
  const u32 owner = plan_.chunk(id).owner;
  TRY(tell(owner, command_read, id));
  return net_.receive_at_rest(owner, messages_[owner]++, out);
}

Result<void> LeadingHomes::begin_write_home(ChunkId id, std::span<const std::byte> content) {
  if (is_on(id, 0)) TRY(own_.begin_write_home(id, content));
  Result<void> sent = send_to_others(id, content);
  // After an error the caller does not end the write, and may reuse `content`.
  if (!sent && is_on(id, 0)) static_cast<void>(own_.end_write_home(id));
  return sent;
}

Result<void> LeadingHomes::send_to_others(ChunkId id, std::span<const std::byte> content) {
  for (u32 node = 1; node < plan_.nodes; ++node) {
    if (!is_on(id, node)) continue;
    TRY(tell(node, command_write, id));
    TRY(net_.send_at_rest(node, messages_[node]++, content));
  }
  return {};
}

Result<void> LeadingHomes::end_write_home(ChunkId id) {
  if (is_on(id, 0)) return own_.end_write_home(id);
  return {};
}

Result<void> LeadingHomes::clear_home(ChunkId id) {
  if (is_on(id, 0)) TRY(own_.clear_home(id));
  for (u32 node = 1; node < plan_.nodes; ++node)
    if (is_on(id, node)) TRY(tell(node, command_clear, id));
  return {};
}

Result<void> LeadingHomes::end() {
  for (u32 node = 1; node < plan_.nodes; ++node) TRY(tell(node, command_end, ChunkId{0}));
  messages_.assign(plan_.nodes, first_message);
  return {};
}

Result<void> serve_at_rest(const Plan& plan, StateAtRest& own, NetLanes& net, std::span<std::byte> buffer) {
  for (u64 message = first_message;;) {
    CommandWords words{};
    TRY(net.receive_at_rest(0, message++, std::as_writable_bytes(std::span(words))));
    if (words[0] == command_end) return {};
    const ChunkId id{static_cast<u32>(words[1])};
    CHECK(index(id) < plan.chunks.size(), words[1], plan.chunks.size());
    const u64 bytes = plan.chunk(id).bytes.value;
    CHECK(bytes <= buffer.size(), bytes, buffer.size());
    const std::span<std::byte> content = buffer.first(bytes);
    switch (words[0]) {
      case command_read:
        TRY(own.read_home(id, content));
        TRY(net.send_at_rest(0, message++, content));
        break;
      case command_write:
        TRY(net.receive_at_rest(0, message++, content));
        TRY(own.write_home(id, content));
        break;
      default:
        TRY(own.clear_home(id));
    }
  }
}

}  // namespace tidepool
