#include "planner/verify/verify_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tidepool {
namespace {

// Left is what a chunk of a stream holds after the last op that wrote to it.
struct Left {
  u32 version = 0;
  u32 block = none;  // that wrote it; none: nothing in this segment
  u32 micro_batch = none;
};

class StreamReplay {
 public:
  StreamReplay(const Plan& plan, const ModelGraph& graph, const Segment& segment)
      : plan_(plan), graph_(graph), segment_(segment), left_(plan.chunks.size()) {
    find_writers();
  }

  StreamFault replay() {
    for (u32 i = 0; i < segment_.ops.size(); ++i) {
      const Op& op = segment_.ops[i];
      if (op.kind != OpKind::forward && op.kind != OpKind::backward && op.kind != OpKind::recall) continue;
      if (std::string text = check(op); !text.empty()) return {std::move(text), i};
    }
    return {};
  }

 private:
  using Uses = std::vector<StreamUse>;
  static constexpr u32 forward = 0, backward = 1;

  static u32 way(const Op& op) { return op.kind == OpKind::forward ? forward : backward; }
  const Uses& uses_of(u32 way, u32 block) const {
    const Block& b = graph_.blocks[block];
    return way == forward ? b.forward_streams : b.backward_streams;
  }

  // Finds, for each use that reads, the block whose content it must find: the last that wrote the stream
  // before, in the order in which a step's blocks run.
  void find_writers() {
    std::vector<u32> last(graph_.streams.size(), none);
    const u32 blocks = static_cast<u32>(graph_.blocks.size());
    for (std::vector<std::vector<u32>>& of : writer_) of.resize(blocks);
    const auto pass = [&](u32 way, u32 block) {
      for (const StreamUse& use : uses_of(way, block)) {
        writer_[way][block].push_back(last[use.stream]);
        if (writes(use.access)) last[use.stream] = block;
      }
    };
    for (u32 b = 0; b < blocks; ++b) pass(forward, b);
    for (u32 b = blocks; b-- > 0;) pass(backward, b);
  }

  std::string check(const Op& op) {
    const Uses& uses = uses_of(way(op), op.block);
    u32 at = 0;
    for (const Operand& o : segment_.operands_of(op)) {
      const Chunk& chunk = plan_.chunk(o.first);
      if (!is_stream(chunk.kind)) continue;
      if (at == uses.size()) return fmt::format("takes {}, which its block does not use", name(chunk.kind));
      const StreamUse& use = uses[at];
      const Stream& stream = graph_.streams[use.stream];
      const bool goes_on = stream.whole && op.piece != 0 && writes(use.access);
      const Access access = goes_on ? Access::read_write : use.access;
      if (chunk.stream != use.stream || chunk.kind != stream.kind || o.access != access || o.count != 1)
        return fmt::format("takes {} where its block uses {}", name(chunk.kind), name(stream.kind));
      if (chunk.bytes < stream.bytes) return fmt::format("has too little room for {}", name(stream.kind));
      if (chunk.instance != instance_of(op, stream))
        return fmt::format("takes {} of another micro-batch", name(stream.kind));
      const u32 writer = goes_on ? op.block : writer_[way(op)][op.block][at];
      if (std::string text = visit(op, o, writer); !text.empty()) return text;
      ++at;
    }
    // Recall reads what backward reads, without gradients, which come last.
    u64 wanted = uses.size();
    if (op.kind == OpKind::recall)
      wanted = static_cast<u64>(std::ranges::count_if(
          uses, [&](const StreamUse& use) { return !is_gradient_stream(graph_.streams[use.stream].kind); }));
    return at == wanted ? "" : fmt::format("takes {} of its block's {} streams", at, wanted);
  }

  u32 instance_of(const Op& op, const Stream& stream) const {
    const u32 of_sweep = plan_.micro_batches_per_replica() / plan_.sweeps;
    const u32 of_replica = op.micro_batch / (plan_.replicas() * plan_.nodes);
    return (of_replica % of_sweep * plan_.pieces + (stream.whole ? 0 : op.piece)) * plan_.replicas() +
           plan_.replica_of(op.micro_batch);
  }

  std::string visit(const Op& op, const Operand& o, u32 writer) {
    Left& left = left_[index(o.first)];
    const std::string_view kind = name(plan_.chunk(o.first).kind);
    if (reads(o.access)) {
      if (left.block == none || left.block != writer || left.micro_batch != op.micro_batch)
        return fmt::format("finds no {} of its micro-batch from block {}", kind, writer);
      if (o.version != left.version)
        return fmt::format("reads {} at version {}, not {}", kind, o.version, left.version);
    }
    if (!writes(o.access)) return "";
    ++left.version;
    left.block = op.block;
    left.micro_batch = op.micro_batch;
    if (o.access == Access::write && o.version != left.version)
      return fmt::format("leaves {} at version {}, not {}", kind, o.version, left.version);
    return "";
  }

  const Plan& plan_;
  const ModelGraph& graph_;
  const Segment& segment_;
  std::array<std::vector<std::vector<u32>>, 2> writer_;  // [way][block][use]
  std::vector<Left> left_;                               // by chunk
};

}  // namespace

StreamFault check_streams(const Plan& plan, const ModelGraph& graph, const Segment& segment) {
  return StreamReplay(plan, graph, segment).replay();
}

}  // namespace tidepool
