// predict_step() times a few ops of the plan cold, derives the machine's rates, and replays the plan.
#include "probe/step/predict.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/spread.h"
#include "base/steady_seconds.h"
#include "machine/roofline.h"
#include "machine/topology.h"
#include "machine/wake_up.h"
#include "probe/copies.h"
#include "probe/step/measure_ops.h"
#include "probe/step/measure_peak.h"
#include "probe/step/round.h"
#include "probe/step/round_judge.h"
#include "tidepool/slot_range.h"

namespace tidepool {
namespace {

constexpr u64 disk_sample_bytes_max = 64 * mib;
constexpr u64 memory_sample_bytes_max = 32 * mib;
constexpr Bytes cache_least{64 * mib};  // some virtual machines show none
constexpr u32 samples_of_small_ops = 8;

// FLOP/s that a layer's forward reaches, over all of its kernels.
double block_flops(const ModelGraph& graph, const std::vector<BlockSeconds>& blocks) {
  for (u32 b = 0; b < blocks.size(); ++b)
    if (graph.blocks[b].layer != none && blocks[b].forward > 0)
      return static_cast<double>(graph.blocks[b].forward_flops) / blocks[b].forward;
  return DeviceRates{}.flops_per_s[0];
}

// Bytes per second of the largest window's gradient op: bytes of its operands, as CostModel counts them.
Result<double> measure_memory(Session& session, Round round) {
  const Segment& body = session.plan().segment(SegmentKind::body);
  u64 most = 0;
  std::optional<OpId> largest;
  for (u32 id = 0; id < body.ops.size(); ++id) {
    if (body.ops[id].kind != OpKind::gradient) continue;
    u64 bytes = 0;
    for (const Operand& o : body.operands_of(body.ops[id]))
      bytes += o.frame.bytes.value * (o.access == Access::read_write ? 2 : 1);
    if (bytes > most) most = bytes, largest = OpId{id};
  }
  if (!largest) return DeviceRates{}.memory_bytes_per_s;  // several nodes: the host finishes gradients
  TRY_ASSIGN(const double seconds, op_seconds(session, round, largest));
  return static_cast<double>(most) / seconds;
}

// Small ops reach lower rates than large ones, so the sample is as large as the plan's ops: the size such
// that half of the bytes move in ops up to that size. bytes_of returns 0 for ops of other kinds.
// RETURNS: 0 if there are no such ops.
template <class BytesOf>
u64 usual_bytes(const Segment& segment, BytesOf&& bytes_of) {
  std::vector<u64> sizes;
  u64 all = 0;
  for (const Op& op : segment.ops)
    if (const u64 bytes = bytes_of(op); bytes > 0) sizes.push_back(bytes), all += bytes;
  std::ranges::sort(sizes);
  u64 passed = 0;
  for (const u64 bytes : sizes)
    if (passed += bytes; 2 * passed >= all) return bytes;
  return 0;
}

// A CPU copies either way at the same rate; a GPU's link has one rate for each way, and one for both at once.
// Devices are alike, and so are their links.
Result<CopyRates> measure_copies(Session& session, Round round) {
  Device& device = session.devices().at(0);
  const bool gpu = device.facts().gpu;
  const Segment& body = session.plan().segment(SegmentKind::body);
  const u64 usual = usual_bytes(body, [&](const Op& op) {
    return op.kind == OpKind::copy ? body.operands_of(op)[0].frame.bytes.value : 0;
  });
  const Bytes bytes{
      std::min({device.host_memory().size() / 2, gpu ? device.memory().size() / 2 : device.memory().size(),
                usual > 0 ? usual : memory_sample_bytes_max})};
  const auto rate = [&](CopyDirection way) -> Result<double> {
    const auto copy = [&](u32 times) {
      for (u32 i = 0; i < times; ++i)
        issue_copies(device, device.memory(), {.bytes = bytes, .piece = bytes}, way);
      return device.wait();
    };
    TRY_ASSIGN(const double seconds,
               gpu ? seconds_on_gpu(round, copy)
                   : cold_seconds_of(session, round, samples_of_small_ops, [&] { return copy(1); }));
    return static_cast<double>(bytes.value) / seconds;
  };
  CopyRates rates;
  TRY_ASSIGN(rates.h2d_bytes_per_s, rate(CopyDirection::h2d));
  rates.d2h_bytes_per_s = rates.both_bytes_per_s = rates.h2d_bytes_per_s;
  if (!gpu) return rates;
  TRY_ASSIGN(rates.d2h_bytes_per_s, rate(CopyDirection::d2h));
  TRY_ASSIGN(const double each_way, rate(CopyDirection::both));
  rates.both_bytes_per_s = 2 * each_way;
  return rates;
}

// Bytes as CostModel counts them: an array that is only read or only written counts once, a rewritten one
// twice.
Result<double> measure_update(Session& session, Round round) {
  Device& device = session.devices().at(0);
  const auto host = device.host_memory(), on_device = device.memory();
  const auto memory = !device.facts().gpu && on_device.size() > host.size() ? on_device : host;
  const Precision precision = session.plan().precision;
  const u32 rule = main_rule(session.graph());
  const StateSlots slots = session.plan().state_slots.of_rule(rule);
  const Segment& body = session.plan().segment(SegmentKind::body);
  const u64 usual = usual_bytes(body, [&](const Op& op) {
    // The gradient, which stands first.
    return op.kind == OpKind::update ? body.operands_of(op)[0].frame.bytes.value : 0;
  });
  constexpr u64 block = checksum_block_elements;
  // As one matrix, for rules of whole tensors.
  constexpr u32 columns = 1024;
  const auto bytes_of = [&](Kind kind, u64 elements) {
    return slots.bytes(kind, slot_elements(slots.axis(kind), elements, elements / columns, columns));
  };
  u64 block_bytes = bytes_of(Kind::grad, block) + bytes_of(Kind::param, block);
  slots.each([&](Kind slot) { block_bytes += bytes_of(slot, block); });
  const u64 wanted =
      usual > 0 ? usual / value_bytes(precision) / block : memory_sample_bytes_max / block_bytes;
  const u64 elements = std::min<u64>(memory.size() / block_bytes, wanted) * block;
  if (elements == 0) return HostRates{}.update_bytes_per_s;
  const DecaySegment whole[] = {{0, elements, true}};
  const Optim optim = session.graph().rules[rule].optim;
  const UpdateTensor tensors[] = {{.rows = static_cast<u32>(elements / columns), .columns = columns}};
  std::vector<std::byte> scratch;
  if (const auto bytes = optimizer(optim).scratch) scratch.resize(bytes({tensors, 1}));
  UpdateChunk chunk{.elements = elements, .segments = whole, .tensors = tensors, .scratch = scratch};
  const bool streamed = optimizer(optim).place == UpdatePlace::streamed;
  u64 touched = 0;
  // Each call takes arrays that no call before has touched, as ops of a step do: a large cache would hold
  // some of the same arrays, whatever is read between two calls.
  u64 offset = 0;
  const u64 all = elements / block * block_bytes;
  const auto take_chunk = [&] {
    if (memory.size() - offset < all) offset = 0;
    touched = 0;
    const auto take = [&](Kind kind, u64 times) {
      std::byte* at = memory.data() + offset;
      const u64 bytes = bytes_of(kind, elements);
      offset += bytes;
      touched += times * bytes;
      return at;
    };
    // A direction replaces the gradient, and is read.
    chunk.grad = take(Kind::grad, streamed ? 3 : optimizer(optim).gradient_reads);
    chunk.arrays[0].data = take(Kind::param, made_by_update(Kind::param, precision) ? 1 : 2);
    u32 array = 1;
    slots.each([&](Kind slot) { chunk.arrays[array++].data = take(slot, 2); });
    offset = round_up(offset, frame_alignment);
  };
  const UpdateScalars scalars =
      update_scalars(update_step(optim, {.learning_rate = 1e-3}, 1, 1.0), {.grad_norm = 1.0});
  TRY_ASSIGN(const double seconds,
             cold_seconds_of(session, round, samples_of_small_ops, [&]() -> Result<void> {
               take_chunk();
               update(chunk, slots, optim, scalars, session.pool());
               return {};
             }));
  return static_cast<double>(touched) / seconds;
}

// Frames that rest on disk anyway, so that the sample needs no disk space of its own, with memory of the
// arena in turn.
std::vector<RawTransfer> sample_of_disk(Session& session) {
  std::vector<RawTransfer> sample;
  const std::span<std::byte> memory = session.host_memory();
  u64 bytes = 0, at = 0;
  for (u32 id = 0; id < session.plan().homes.size(); ++id) {
    const Frame& home = session.plan().homes[id];
    if (home.bytes.value == 0 || home.tier != Tier::disk || home.bytes.value > memory.size()) continue;
    if (bytes >= disk_sample_bytes_max) break;
    if (at + home.bytes.value > memory.size()) at = 0;
    sample.push_back({.chunk = ChunkId{id}, .memory = memory.subspan(at, home.bytes.value)});
    bytes += home.bytes.value, at += home.bytes.value;
  }
  return sample;
}

Result<void> measure_disk(Session& session, Round round, DiskRates& rates) {
  constexpr u32 samples = 3;
  std::vector<RawTransfer> sample = sample_of_disk(session);
  if (sample.empty()) return {};
  double bytes = 0;
  for (const RawTransfer& t : sample) bytes += static_cast<double>(t.memory.size());
  // The very first writes touch the file for the first time, which is slow.
  std::array<std::vector<double>, 3> rates_of;  // write, read, both
  for (u32 i = round.first ? 0 : 1; i <= samples; ++i)
    for (u32 how = 0; how < rates_of.size(); ++how) {
      for (u64 t = 0; t < sample.size(); ++t)
        sample[t].op = how == 0 || (how == 2 && t % 2 == 0) ? DiskOp::write : DiskOp::read;
      const double begin = steady_seconds();
      TRY(session.timed().transfer_raw(sample));
      if (i > 0) rates_of[how].push_back(bytes / (steady_seconds() - begin));
    }
  rates.write_bytes_per_s = median(std::move(rates_of[0]));
  rates.read_bytes_per_s = median(std::move(rates_of[1]));
  rates.mixed_bytes_per_s = median(std::move(rates_of[2]));
  return {};
}

Result<Prediction> measure_round(Session& session, Round round) {
  Prediction out;
  Machine& machine = out.machine;
  // A GPU's ops and copies take nothing of the cores; a device of the cores shares them with updates.
  machine.device.kind = session.devices().are_gpus() ? DeviceKind::cuda : DeviceKind::cpu;
  TRY_ASSIGN(out.seconds.blocks, measure_blocks(session, round));
  machine.device.flops_per_s.fill(block_flops(session.graph(), out.seconds.blocks));
  TRY_ASSIGN(out.seconds.matrices, measure_matrices(session, round, machine));
  TRY_ASSIGN(out.peak_flops_per_s, measure_peak(session, round.sampling));
  TRY_ASSIGN(machine.device.memory_bytes_per_s, measure_memory(session, round));
  TRY_ASSIGN(machine.copies, measure_copies(session, round));
  const double copy = machine.copies.h2d_bytes_per_s;
  TRY_ASSIGN(machine.host.update_bytes_per_s, measure_update(session, round));
  // Data that is small enough to stay in the cache is not limited by memory.
  machine.host.memory_bytes_per_s = std::max({machine.host.update_bytes_per_s, 2 * copy});
  machine.host.checksum_bytes_per_s = 2 * copy;
  TRY(measure_disk(session, round, machine.disk));
  return out;
}

// All figures that rounds measure, in a fixed order.
std::vector<double*> figures_of(Prediction& p) {
  Machine& m = p.machine;
  std::vector<double*> out = {
      &p.peak_flops_per_s,        &m.device.memory_bytes_per_s, &m.copies.h2d_bytes_per_s,
      &m.copies.d2h_bytes_per_s,  &m.copies.both_bytes_per_s,   &m.host.update_bytes_per_s,
      &m.host.memory_bytes_per_s, &m.host.checksum_bytes_per_s, &m.disk.read_bytes_per_s,
      &m.disk.write_bytes_per_s,  &m.disk.mixed_bytes_per_s};
  for (double& rate : m.device.flops_per_s) out.push_back(&rate);
  for (BlockSeconds& block : p.seconds.blocks)
    out.insert(out.end(), {&block.forward, &block.backward, &block.backward_recompute, &block.recall});
  for (double& matrix : p.seconds.matrices) out.push_back(&matrix);
  return out;
}

// The median of each figure.
Prediction merged(std::vector<Prediction>& rounds) {
  Prediction out = rounds.front();
  const std::vector<double*> figures = figures_of(out);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    std::vector<double> values;
    for (Prediction& round : rounds) values.push_back(*figures_of(round)[i]);
    *figures[i] = median(std::move(values));
  }
  for (const Prediction& round : rounds) {
    out.step_seconds.add(round.forecast.step_seconds);
    out.peak_range.add(round.peak_flops_per_s);
  }
  return out;
}

}  // namespace

Result<Prediction> predict_step(Session& session, const NetworkRates& network, const Sampling& sampling) {
  TRY_ASSIGN(const double wake_up, wake_up_seconds());
  TRY_ASSIGN(const auto topology, create_topology());
  const Bytes cache = std::max(topology->cache(), cache_least);
  std::vector<Prediction> rounds;
  const auto forecast_of = [&](const Prediction& p, bool keep_ops) {
    return forecast(session.plan(), session.graph(), p.machine, {.seconds = p.seconds, .keep_ops = keep_ops});
  };
  RoundJudge judge(steady_seconds());
  for (bool more = true; more;) {
    TRY_ASSIGN(Prediction round,
               measure_round(session, {.first = rounds.empty(), .cache = cache, .sampling = sampling}));
    round.machine.network = network;
    // The thread of a lane is woken for every op.
    round.machine.device.op_overhead = Nanos{static_cast<u64>(wake_up * 1e9)};
    TRY_ASSIGN(round.forecast, forecast_of(round, false));
    more = sampling.repeats && judge.needs_another(round.forecast.step_seconds, steady_seconds());
    rounds.push_back(std::move(round));
  }
  if (sampling.repeats) rounds.erase(rounds.begin(), rounds.end() - judge.counting());
  Prediction out = merged(rounds);
  TRY_ASSIGN(out.forecast, forecast_of(out, true));
  return out;
}

Nanos watchdog(const Prediction& prediction, Nanos least) {
  constexpr double steps = 20;
  constexpr double seconds_max = 1e6;  // 11.6 days: longer predictions are ignored
  const double predicted = steps * prediction.forecast.step_seconds;
  const double seconds = predicted > 0 && predicted < seconds_max ? predicted : 0;
  return std::max(least, Nanos{static_cast<u64>(seconds * 1e9)});
}

}  // namespace tidepool
