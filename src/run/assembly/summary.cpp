#include "run/assembly/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/text/units.h"
#include "checkpoint/checkpoint.h"
#include "fit/memory_need.h"
#include "fit/versions_shortage.h"
#include "kernels/attention/cudnn_attention_slices.h"
#include "machine/roofline.h"
#include "model/attention.h"
#include "model/rope.h"
#include "optimizers/optimizer.h"
#include "planner/bound/lower_bound.h"
#include "tidepool/slot_range.h"
#include "tidepool/tensor_matrices.h"

namespace tidepool {
namespace {

std::vector<KindUse> to_uses(const std::map<Kind, Bytes>& sums) {
  std::vector<KindUse> uses;
  for (const auto& [kind, bytes] : sums) uses.push_back({kind, bytes});
  return uses;
}

// RETURNS: with layers over devices the device whose frames end highest; else 0, as all devices are alike.
u32 fullest_device(const Plan& plan) {
  if (plan.parallel == Parallel::data) return 0;
  std::vector<u64> ends(plan.devices, 0);
  for (const Segment& segment : plan.segments)
    for (const Operand& o : segment.operands)
      if (o.frame.tier == Tier::device) ends[o.frame.device] = std::max(ends[o.frame.device], o.frame.end());
  return static_cast<u32>(std::ranges::max_element(ends) - ends.begin());
}

// The peak of each kind is unknown without replaying the plan. This is the union of the frames that a body
// names: the part of the arena set aside for the kind.
std::vector<KindUse> streaming_uses(const Plan& plan, Tier tier) {
  const u32 device = tier == Tier::device ? fullest_device(plan) : 0;
  std::map<Kind, std::vector<std::pair<u64, u64>>> ranges;
  const Segment& segment = plan.segment(SegmentKind::body);
  for (const Operand& o : segment.operands) {
    const Kind kind = plan.chunk(o.first).kind;
    const Frame& home = plan.homes[index(o.first)];
    const bool at_home = home.bytes.value > 0 && home.tier == tier;
    if (o.frame.tier == tier && o.frame.device == device && !at_home)
      ranges[kind].push_back({o.frame.offset, o.frame.end()});
  }
  std::map<Kind, Bytes> sums;
  for (auto& [kind, list] : ranges) {
    std::sort(list.begin(), list.end());
    u64 end = 0;
    for (const auto& [begin, stop] : list) {
      if (stop <= end) continue;
      sums[kind] += Bytes{stop - std::max(begin, end)};
      end = stop;
    }
  }
  return to_uses(sums);
}

std::vector<KindUse> resting_uses(const Plan& plan, Tier tier) {
  const u32 device = tier == Tier::device ? fullest_device(plan) : 0;
  std::map<Kind, Bytes> sums;
  for (u32 id = 0; id < plan.homes.size(); ++id)
    if (plan.homes[id].bytes.value > 0 && plan.homes[id].tier == tier && plan.homes[id].device == device)
      sums[plan.chunks[id].kind] += plan.homes[id].bytes;
  return to_uses(sums);
}

void add_prediction(PlanSummary& s, const Prediction& p) {
  s.predicted_step_seconds = p.forecast.step_seconds;
  s.predicted_step_range = p.step_seconds;
  s.binds = p.forecast.binds;
  const Machine& m = p.machine;
  const std::array<double, link_count> rates = {m.copies.h2d_bytes_per_s, m.copies.d2h_bytes_per_s,
                                                m.disk.read_bytes_per_s, m.disk.write_bytes_per_s};
  // Each device has its own link to the host; there is one disk.
  for (u32 l = 0; l < link_count; ++l) {
    const bool of_device = l == static_cast<u32>(LinkKind::h2d) || l == static_cast<u32>(LinkKind::d2h);
    s.links[l].seconds =
        static_cast<double>(s.links[l].per_step.value) / rates[l] / (of_device ? s.devices : 1);
  }
  for (LinkSummary& way : s.network)
    if (m.network.bytes_per_s > 0)
      way.seconds = static_cast<double>(way.per_step.value) / m.network.bytes_per_s;
  s.notes.push_back(fmt::format("measured now: {:.0f} GFLOP/s, copies {:.1f} GB/s, updates {:.1f} GB/s",
                                m.device.flops_per_s[0] * 1e-9, m.copies.h2d_bytes_per_s * 1e-9,
                                m.host.update_bytes_per_s * 1e-9));
  if (m.network.bytes_per_s > 0)
    s.notes.push_back(fmt::format("network: {:.2f} GB/s each way, {:.0f} us for a message",
                                  m.network.bytes_per_s * 1e-9,
                                  static_cast<double>(m.network.latency.value) * 1e-3));
  if (s.links[2].per_step.value > 0)
    s.notes.push_back(fmt::format("disk: {:.2f} GB/s read, {:.2f} GB/s written",
                                  m.disk.read_bytes_per_s * 1e-9, m.disk.write_bytes_per_s * 1e-9));
}

}  // namespace

// RETURNS: bytes of a kind for each parameter that the rule trains.
double bytes_of_one(const ModelGraph& graph, u32 rule, Kind kind) {
  const StateSlots& slots = graph.state_slots;
  if (slots.axis(kind) == SlotAxis::elements)
    return static_cast<double>(slots.bytes(kind, slot_block_elements)) / slot_block_elements;
  u64 elements = 0;
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors)
      if (window.trainable && tensor.rule == rule) elements += slot_elements(slots.axis(kind), tensor);
  const u64 parameters = std::max<u64>(1, parameters_of(graph, rule));
  return static_cast<double>(slots.bytes(kind, elements)) / static_cast<double>(parameters);
}

// RETURNS: what a parameter costs under the rules of other optimizers.
std::vector<RuleCost> rules_beside(const ModelGraph& graph, u32 first) {
  std::vector<RuleCost> out;
  for (u32 rule = 0; rule < graph.rules.size(); ++rule) {
    if (graph.rules[rule].optim == graph.rules[first].optim) continue;
    const auto known = std::ranges::find(out, name(graph.rules[rule].optim), &RuleCost::optim);
    if (known != out.end()) {
      known->parameters += parameters_of(graph, rule);
      continue;
    }
    RuleCost cost{.optim = std::string(name(graph.rules[rule].optim)),
                  .parameters = parameters_of(graph, rule),
                  .bytes_per_parameter = bytes_of_one(graph, rule, Kind::param)};
    graph.state_slots.each_of_rule(
        rule, [&](Kind slot) { cost.bytes_per_parameter += bytes_of_one(graph, rule, slot); });
    if (cost.parameters > 0) out.push_back(std::move(cost));
  }
  return out;
}

OrthogonalizedSummary orthogonalized(const ModelGraph& graph, u64 tokens) {
  OrthogonalizedSummary out;
  u64 flops = 0;
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors) {
      if (!window.trainable || graph.rules[tensor.rule].place != UpdatePlace::streamed) continue;
      for (const MatrixPlace& matrix : matrices_of(tensor)) {
        ++out.matrices;
        for (const KernelCost& kernel : graph.matrix_costs[shape_of(graph, matrix)].kernels)
          flops += kernel.product_flops;
      }
    }
  const double others = static_cast<double>(graph.flops_per_token) * static_cast<double>(tokens);
  if (flops > 0) out.share = static_cast<double>(flops) / (static_cast<double>(flops) + others);
  return out;
}

Bytes state_bytes(const Plan& plan) {
  Bytes sum{};
  for (const Frame& home : plan.homes) sum += home.bytes;
  return sum;
}

namespace {

std::string executor_text(const Config& config, const Plan& plan, const Machine* machine) {
  if (machine != nullptr)
    return fmt::format(
        "{}, {}", machine->name,
        shared_by(plan, fmt::format("{} device{}", plan.devices, plan.devices == 1 ? "" : "s")));
  const u32 threads =
      config.machine.threads != 0 ? config.machine.threads : std::thread::hardware_concurrency();
  return fmt::format("{}, {} thread{}", shared_by(plan, config.machine.executor), threads,
                     threads == 1 ? "" : "s");
}

}  // namespace

namespace {

constexpr int hopper = 90;

// Says which implementation of attention GPUs use, and why.
std::string attention_note(const Job& job) {
  const ModelGraph& graph = job.graph;
  std::string why(why_own_attention(graph));
  if (graph.batch.packed && !job.config.data.rows_are_shared)
    why += "; data.train cannot be read from here, so set data.packing=false if it holds tokens";
  const std::optional<AttentionToCome> to_come = attention_to_come(graph);
  if (to_come && !cuda::cudnn_attention_pays(to_come->shape, to_come->precision, hopper))
    why = fmt::format("cuDNN's are used in 16 bits, for {} tokens and more, heads of up to {} in steps of 8",
                      cuda::cudnn_attention_tokens_min, cuda::cudnn_attention_head_size_max);
  if (!why.empty()) return "attention by our own kernels: " + why;
  if (trains(graph) && cuda::cudnn_backward_slice(to_come->shape, to_come->scratch).sequences == 0)
    return "attention by cuDNN forward, if the GPU is a Hopper (compute capability 9), and by our own "
           "kernels "
           "backward: a sequence is too long for cuDNN's";
  return "attention by cuDNN if the GPU is a Hopper (compute capability 9), else by our own kernels";
}

std::string quantization_of(const ModelGraph& graph) {
  const Packing packing = graph.config.quantization.packing;
  return packing == Packing::none ? "" : std::string(name(packing));
}

// RETURNS: which rows travel, or why none do although the config wants it; else empty.
std::string lookup_note(const Job& job, const Plan& plan) {
  const ModelGraph& graph = job.graph;
  if (plan.lookup.on())
    return fmt::format(
        "of {} only the rows of each micro-batch's tokens move, at most {} ({}): what a step moves is the "
        "most, "
        "and the least leaves them out; looking up takes {} beside the budgets",
        graph.windows[plan.lookup.window].name, plan.lookup.rows_most,
        bytes_text(lookup_bytes(plan.lookup, plan.precision)),
        bytes_text(lookup_memory(plan, graph.batch.rows())));
  if (job.config.memory.lookup != LookupPolicy::on) return "";
  return lookup_window(graph) == none
             ? "memory.lookup: on has no effect: the model has no embedding that is frozen and not the "
               "head's "
               "matrix"
             : "memory.lookup: on has no effect: the table rests on the device, or its rows are wider than "
               "1 MiB";
}

// RETURNS: how a killed run resumes, if trained state rests on disk or is committed there; else empty.
std::string versions_note(const Job& job, const Plan& plan) {
  const auto written = [&](SegmentKind kind) {
    return persisted_bytes(plan, kind)[static_cast<u32>(LinkKind::disk_write)];
  };
  if (plan.versions > 1) {
    std::string each = fmt::format(
        "the swap file keeps {} versions of the trained state, {} in all: a killed run resumes from the last "
        "committed step",
        plan.versions == 2 ? "two" : "three", bytes_text(plan.second_slot * plan.versions));
    if (plan.versions == 2) each += ". While a checkpoint is written, no step is committed";
    const Bytes resting = written(SegmentKind::body);
    return resting.value == 0
               ? each
               : fmt::format("{}. A step that is committed writes {} more", each, bytes_text(resting));
  }
  Bytes on_disk{};
  for (u32 id = 0; id < plan.chunks.size(); ++id)
    if (plan.homes[id].tier == Tier::disk && is_slot(plan.chunks[id].kind)) on_disk += plan.homes[id].bytes;
  const Config& config = job.config;
  if (on_disk.value == 0 || config.memory.versions != 0 || !config.output.save || plan.nodes > 1) return "";
  return fmt::format(
      "WARNING: a killed run resumes from its last checkpoint, not from its last step, because a "
      "second version of the state does not fit: {}",
      why_one_version(job, plan));
}

}  // namespace

std::string shared_by(const Plan& plan, std::string_view devices) {
  return fmt::format("{}{}{}", plan.nodes > 1 ? fmt::format("{} nodes of ", plan.nodes) : "",
                     plan.parallel == Parallel::layers ? "layers over " : "", devices);
}

PlanSummary summarize(const SummaryInput& in) {
  const auto& [job, plan, prediction, machine] = in;
  const auto& [config, graph, options] = job;
  PlanSummary s{.model = std::string(name(graph.config.family)),
                .executor = executor_text(config, plan, machine),
                .devices = plan.devices,
                .layers_over_devices = plan.parallel == Parallel::layers,
                .nodes = plan.nodes,
                .precision = plan.precision,
                .state_slots = plan.state_slots,
                .parameters = graph.parameters,
                .active_parameters = graph.active_parameters < graph.parameters ? graph.active_parameters : 0,
                .trained_parameters = trained_parameters(graph),
                .quantization = quantization_of(graph),
                .layers = graph.config.layers,
                .width = graph.config.width,
                .heads = graph.config.attention.heads,
                .vocabulary = graph.config.vocab_size,
                .labels = graph.config.score.labels,
                .sequences = graph.batch.sequences,
                .tokens_per_sequence = graph.batch.tokens,
                .experts = graph.config.experts.count,
                .experts_per_group = graph.experts_per_group,
                .tile_tokens = graph.batch.tiled() ? graph.batch.tile_tokens : 0,
                .tiles = graph.batch.tiles(),
                .pieces = graph.batch.pieces(),
                .micro_batches = plan.micro_batches,
                .sweeps = plan.sweeps,
                .clipping = config.train.max_grad_norm > 0 && (plan.clipping || plan.speculates),
                .speculates = plan.speculates,
                .state = state_bytes(plan)};
  const u32 rule = main_rule(graph);
  const auto cost = [&](Kind kind) { return KindCost{kind, bytes_of_one(graph, rule, kind)}; };
  s.kept.push_back(cost(Kind::param));
  plan.state_slots.each_of_rule(rule, [&](Kind slot) { s.kept.push_back(cost(slot)); });
  s.other_rules = rules_beside(graph, rule);
  s.orthogonalized = orthogonalized(graph, graph.batch.rows() * plan.micro_batches);
  if (!made_by_update(Kind::param, plan.precision))  // else in bytes of dead parameters
    s.waiting.push_back(cost(plan.state_slots.gradient()));
  for (u32 t = 0; t < tier_count; ++t) {
    const Tier tier = static_cast<Tier>(t);
    s.tiers[t] = {.budget = plan.tiers[t].budget,
                  .planned_peak = plan.tiers[t].planned_peak,
                  .resting = resting_uses(plan, tier),
                  .streaming = streaming_uses(plan, tier),
                  .reserved = tier == Tier::device ? options.device_reserved
                              : tier == Tier::host ? host_reserved()
                                                   : Bytes{0}};
  }
  const auto moved = link_bytes(plan, SegmentKind::body);
  const auto bound = lower_bound(plan, graph);
  for (u32 l = 0; l < link_count; ++l) s.links[l] = {.per_step = moved[l], .lower_bound = bound[l]};
  if (const std::optional<u64> least = weighed_lower_bound(plan, graph)) {
    s.together = {.per_step = Bytes{weighed(moved)}, .lower_bound = Bytes{*least}};
    s.disk_weight = disk_weight;
  }
  if (plan.nodes > 1) {
    const NetBytes net = net_bytes(plan, SegmentKind::body);
    const Bytes least = net_lower_bound(plan, graph);
    s.network = {LinkSummary{.per_step = net.sent, .lower_bound = least},
                 LinkSummary{.per_step = net.received, .lower_bound = least}};
  }
  if (prediction != nullptr) add_prediction(s, *prediction);
  const u64 kept = std::max<u64>(config.output.save_total_limit, 2) + 1;  // limit 1: the best may stay, too
  if (config.output.save)
    s.notes.push_back(fmt::format("checkpoints: {} each, up to {} at once in {}",
                                  bytes_text(checkpoint_bytes(graph)), kept, config.output.dir));
  if (optimizer(config.train.optim).place == UpdatePlace::streamed && s.orthogonalized.matrices == 0)
    s.notes.push_back(fmt::format("adapters train with {}: {} is for whole matrices of layers",
                                  name(graph.rules[rule].optim), name(config.train.optim)));
  if (const std::string angles = angles_by_length(graph.config, graph.batch.tokens); !angles.empty())
    s.notes.push_back(angles);
  if (const Bytes scratch = update_scratch_of_host(graph, plan, device_memory_of(config)); scratch.value > 0)
    s.notes.push_back(
        fmt::format("updates of whole tensors take {} of the host, beside the budgets", bytes_text(scratch)));
  if (const std::string note = lookup_note(job, plan); !note.empty()) s.notes.push_back(note);
  if (const std::string note = versions_note(job, plan); !note.empty()) s.notes.push_back(note);
  if (plan.speculates)
    s.notes.push_back(
        "updates do not wait for the gradient norm: a step whose norm changes them is trained again from the "
        "last committed step");
  s.notes.push_back(
      fmt::format("host holds {} for disk transfers at rest and checkpoints, beside streamed content",
                  bytes_text(host_reserved())));
  if (const Bytes reserved = options.device_reserved; reserved.value > 0)
    s.notes.push_back(
        fmt::format("the device holds {} for workspaces and a step's numbers", bytes_text(reserved)));
  if (!config.machine.gpus().empty()) s.notes.push_back(attention_note(job));
  if (machine != nullptr && plan.precision == Precision::bf16 && lacks_bf16(*machine))
    s.notes.push_back(
        fmt::format("the GPU of {} has no bf16 (its device.bf16 is no faster than device.fp32), so training "
                    "on it fails: set train.precision=fp16",
                    machine->name));
  const u64 blocks = graph.blocks.size();
  if (plan.parallel == Parallel::layers && plan.devices > blocks)
    s.notes.push_back(
        fmt::format("{} devices have no layers: the model has {} blocks", plan.devices - blocks, blocks));
  const Bytes beside = staging_beside_budgets(plan, device_memory_of(config));
  if (beside.value > 0)
    s.notes.push_back(
        fmt::format("checkpoints take {} beside the budgets: at rest no arena has a free piece this large",
                    bytes_text(beside)));
  return s;
}

}  // namespace tidepool
