#include "trainer/predict.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/engine.h"
#include "model/blocks.h"

namespace tidepool {
namespace {

constexpr u64 disk_sample_bytes_max = 64 * mib;
constexpr u64 memory_sample_bytes_max = 32 * mib;
constexpr double sample_seconds = 0.05;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Best time of a call, over about sample_seconds.
template <class Fn>
double seconds_of(Fn&& fn) {
  fn();
  double best = 1e30;
  for (const double begin = now(); now() - begin < sample_seconds;) {
    const double at = now();
    fn();
    best = std::min(best, now() - at);
  }
  return best;
}

// One layer's forward, at its real shape, in the frames that the plan gives it.
double measure_flops(Session& session) {
  const Segment& segment = session.plan().segment(SegmentKind::evaluation);
  for (const Op& op : segment.ops) {
    if (op.kind != OpKind::forward || session.graph().blocks[op.block].kind != BlockKind::gpt2_layer) continue;
    const auto operands = segment.operands_of(op);  // params, input, output, workspace
    const auto at = [&](u64 i) { return session.device_memory().data() + operands[i].frame.offset; };
    const std::byte* windows[] = {at(0)};
    const BlockContext context{session.kernels(), session.graph(), op.block};
    const BlockForward call{.windows = windows,
                            .input = reinterpret_cast<const float*>(at(1)),
                            .output = reinterpret_cast<float*>(at(2)),
                            .workspace = at(3)};
    const double seconds = seconds_of([&] { block_forward(context, call); });
    return static_cast<double>(session.graph().blocks[op.block].forward_flops) / seconds;
  }
  return SimRates{}.flops_per_s;
}

double measure_copy(Session& session) {
  const auto host = session.host_memory(), device = session.device_memory();
  const u64 bytes = std::min({host.size() / 2, device.size(), memory_sample_bytes_max});
  const u32 pieces = session.pool().workers();
  const u64 piece = bytes / pieces;
  const double seconds = seconds_of([&] {
    parallel_for(session.pool(), Priority::high, pieces,
                 [&](u32 i, u32) { std::memcpy(device.data() + i * piece, host.data() + i * piece, piece); });
  });
  return static_cast<double>(piece * pieces) / seconds;
}

// Bytes as SimExecutor counts them: read once, rewritten twice.
double measure_adam(Session& session) {
  const auto memory = session.host_memory().size() > session.device_memory().size() ? session.host_memory()
                                                                                      : session.device_memory();
  const Precision precision = session.plan().precision;
  const u64 elements =
      std::min<u64>(memory.size() / 16, memory_sample_bytes_max / 16) / checksum_block_elements * checksum_block_elements;
  if (elements == 0) return SimRates{}.adam_bytes_per_s;
  u64 offset = 0, touched = 0;
  const auto take = [&](Kind kind, u64 times) {
    std::byte* at = memory.data() + offset;
    const u64 bytes = elements * element_bytes(kind, precision);
    offset += bytes;
    touched += times * bytes;
    return at;
  };
  const DecaySegment whole[] = {{0, elements, true}};
  AdamWChunk chunk{.elements = elements, .segments = whole};
  chunk.grad = take(Kind::grad, 1);
  chunk.param = take(Kind::param, 2);
  if (precision == Precision::bf16) chunk.master_low = take(Kind::master_low, 2);
  chunk.momentum = reinterpret_cast<float*>(take(Kind::momentum, 2));
  chunk.variance = reinterpret_cast<float*>(take(Kind::variance, 2));
  const AdamWScalars scalars = adamw_scalars({.learning_rate = 1e-3}, 1, 1.0, 1.0);
  return static_cast<double>(touched) / seconds_of([&] { adamw(chunk, precision, scalars, session.pool()); });
}

// Through chunks that rest on disk anyway, so that it takes no space of its own.
Result<void> measure_disk(Session& session, SimRates& rates) {
  std::vector<ChunkId> sample;
  u64 bytes = 0, largest = 0;
  for (u32 id = 0; id < session.plan().homes.size() && bytes < disk_sample_bytes_max; ++id) {
    const Frame& home = session.plan().homes[id];
    if (home.bytes.value == 0 || home.tier != Tier::disk) continue;
    sample.push_back(ChunkId{id});
    bytes += home.bytes.value;
    largest = std::max(largest, home.bytes.value);
  }
  if (sample.empty()) return {};
  std::vector<std::byte> buffer(largest);
  const auto part = [&](ChunkId id) { return std::span(buffer).first(session.plan().chunk(id).bytes.value); };
  for (ChunkId id : sample) TRY(session.executor().write_home(id, part(id)));  // the first touch is slow
  const double begin = now();
  for (ChunkId id : sample) TRY(session.executor().write_home(id, part(id)));
  const double written = now();
  for (ChunkId id : sample) TRY(session.executor().read_home(id, part(id)));
  rates.disk_write_bytes_per_s = static_cast<double>(bytes) / (written - begin);
  rates.disk_read_bytes_per_s = static_cast<double>(bytes) / (now() - written);
  return {};
}

// Several bodies from rest; the time between the last two norms is a steady step.
class Steps final : public NextSegment, public EngineObserver {
 public:
  std::optional<SegmentRun> next() override {
    if (step_ == steps) return std::nullopt;
    return SegmentRun{step_++ == 0 ? SegmentKind::forward_backward : SegmentKind::body, step_};
  }
  void completed(const Issue& issue, const Completion& completion) override {
    const Op& op = issue.get();
    if (issue.step == steps) busy[static_cast<u32>(op.lane.kind)] += (completion.finished - completion.started).value;
    if (op.kind != OpKind::norm) return;
    before_ = last_;
    last_ = completion.finished;
  }
  double seconds() const { return static_cast<double>((last_ - before_).value) * 1e-9; }

  std::array<u64, lane_kind_count> busy{};

 private:
  static constexpr u64 steps = 4;
  u64 step_ = 0;
  Nanos before_{}, last_{};
};

}  // namespace

Result<Prediction> predict_step(Session& session) {
  Prediction out;
  out.rates.flops_per_s = measure_flops(session);
  out.rates.h2d_bytes_per_s = out.rates.d2h_bytes_per_s = out.rates.memory_bytes_per_s = measure_copy(session);
  out.rates.adam_bytes_per_s = measure_adam(session);
  TRY(measure_disk(session, out.rates));
  const auto sim = SimExecutor::create(session.plan(), session.graph(), {.rates = out.rates});
  const auto engine = Engine::create(session.plan(), *sim, {});
  Steps steps;
  TRY(engine->run(steps, steps));
  out.step_seconds = steps.seconds();
  const auto longest = std::max_element(steps.busy.begin(), steps.busy.end());
  out.binds = name(static_cast<LaneKind>(longest - steps.busy.begin()));
  return out;
}

}  // namespace tidepool
