#include "fit/what_if.h"

#include <optional>
#include <utility>

#include "model/blocks.h"
#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

constexpr double more = 1.25;
constexpr double usual_network_bytes_per_s = 12.5e9;  // 100 Gb/s
constexpr Nanos usual_network_latency{20'000};

Bytes larger(Bytes budget) { return Bytes{static_cast<u64>(static_cast<double>(budget.value) * more)}; }

struct Variation {
  const char* name;
  void (*apply)(PlanOptions&, Machine&);
  bool plans_anew = false;                                        // rates do not change the plan
  bool (*applies)(const PlanOptions&, const Machine&) = nullptr;  // null: always
  SlotFormat state = SlotFormat::f32;  // of the optimizer's first slot, if that changes
};

bool has_disk_budget(const PlanOptions& o, const Machine& m) {
  return o.budgets.disk.value > 0 && o.budgets.disk < m.disk.capacity;  // a larger budget limits nothing
}
bool uses_disk(const PlanOptions& o, const Machine&) { return o.budgets.disk.value > 0; }
bool has_interconnect(const PlanOptions& o, const Machine& m) {
  return o.devices > 1 && m.copies.interconnect_bytes_per_s > 0;
}
bool has_nodes(const PlanOptions& o, const Machine&) { return o.nodes > 1; }
bool may_have_one_more(const PlanOptions& o, const Machine&) { return o.nodes < nodes_max; }
bool has_data_over_devices(const PlanOptions& o, const Machine&) {
  return o.devices > 1 && o.parallel == Parallel::data;
}
bool has_layers_over_devices(const PlanOptions& o, const Machine&) { return o.parallel == Parallel::layers; }
bool clips(const PlanOptions& o, const Machine&) { return o.clipping; }
bool may_speculate(const PlanOptions& o, const Machine&) {
  return o.clipping && !o.speculates && o.nodes == 1 && o.versions != 1;
}

void add_node(PlanOptions& o, Machine& m) {
  o.micro_batches = o.micro_batches / o.nodes * (o.nodes + 1);
  ++o.nodes;
  o.speculates = false;                                              // not possible with several nodes
  if (o.home == HomePolicy::device) o.home = HomePolicy::automatic;  // not possible with several nodes
  if (m.network.bytes_per_s == 0)
    m.network = {.bytes_per_s = usual_network_bytes_per_s, .latency = usual_network_latency};
  m.network.nodes = o.nodes;
}

constexpr Variation variations[] = {
    {"device budget +25%", [](PlanOptions& o, Machine&) { o.budgets.device = larger(o.budgets.device); },
     true},
    {"host budget +25%", [](PlanOptions& o, Machine&) { o.budgets.host = larger(o.budgets.host); }, true},
    {"disk budget +25%", [](PlanOptions& o, Machine&) { o.budgets.disk = larger(o.budgets.disk); }, true,
     has_disk_budget},
    {"compute +25%",
     [](PlanOptions&, Machine& m) {
       for (double& rate : m.device.flops_per_s) rate *= more;
     }},
    {"device links +25%",
     [](PlanOptions&, Machine& m) {
       m.copies.h2d_bytes_per_s *= more, m.copies.d2h_bytes_per_s *= more;
       m.copies.both_bytes_per_s *= more, m.copies.switch_bytes_per_s *= more;
     }},
    {"device memory +25%", [](PlanOptions&, Machine& m) { m.device.memory_bytes_per_s *= more; }},
    {"interconnect +25%", [](PlanOptions&, Machine& m) { m.copies.interconnect_bytes_per_s *= more; }, false,
     has_interconnect},
    {"CPU updates +25%", [](PlanOptions&, Machine& m) { m.host.update_bytes_per_s *= more; }},
    {"host memory +25%", [](PlanOptions&, Machine& m) { m.host.memory_bytes_per_s *= more; }},
    {"disk +25%",
     [](PlanOptions&, Machine& m) {
       m.disk.read_bytes_per_s *= more, m.disk.write_bytes_per_s *= more, m.disk.mixed_bytes_per_s *= more;
       for (DiskPoint& p : m.disk.points) p.read_bytes_per_s *= more, p.write_bytes_per_s *= more;
     },
     false, uses_disk},
    {"network +25%", [](PlanOptions&, Machine& m) { m.network.bytes_per_s *= more; }, false, has_nodes},
    {"one more node", add_node, true, may_have_one_more},
    {"layers over devices", [](PlanOptions& o, Machine&) { o.parallel = Parallel::layers; }, true,
     has_data_over_devices},
    {"data over devices", [](PlanOptions& o, Machine&) { o.parallel = Parallel::data; }, true,
     has_layers_over_devices},
    {"speculation", [](PlanOptions& o, Machine&) { o.speculates = true, o.versions = 2; }, true,
     may_speculate},
    {"clipping off", [](PlanOptions& o, Machine&) { o.clipping = o.speculates = false; }, true, clips},
    {"8-bit moments", [](PlanOptions&, Machine&) {}, true, nullptr, SlotFormat::signed8},
};

// RETURNS: the same model, trained by the same rule with state in another format; none if it has that
// already, the rule has no such form, or no config describes the graph.
std::optional<ModelGraph> with_state(const ModelGraph& graph, SlotFormat format) {
  const auto format_of = [](Optim optim) { return optimizer(optim).slots[0].format; };
  const Optim base = optimizer(graph.optim()).base;
  const auto is_of_group = [](const UpdateRule& rule) { return rule.tensors != TensorSelection{}; };
  if (std::ranges::any_of(graph.rules, is_of_group)) return std::nullopt;
  for (u32 i = 0; i < optim_count; ++i) {
    const Optim optim = static_cast<Optim>(i);
    if (optimizer(optim).base != base || format_of(optim) != format || optim == graph.optim()) continue;
    Result<ModelGraph> other = build_model(graph.config, graph.precision, graph.batch, graph.activations,
                                           graph.lora, graph.experts_per_group, update_rules(optim));
    return other ? std::optional(std::move(*other)) : std::nullopt;
  }
  return std::nullopt;
}

// RETURNS: none if the change does not fit.
Result<std::optional<Plan>> plan_anew(const ModelGraph& graph, const PlanOptions& asked,
                                      const PlanOptions& chosen) {
  const Result<void> fits = check_fits(graph, asked);
  if (!fits && fits.error().kind == ErrorKind::does_not_fit) return std::optional<Plan>();
  if (!fits) return fits.error();
  std::optional<Plan> plan = draft_variation(graph, chosen);
  if (plan) return plan;
  TRY_ASSIGN(Plan other, draft_plan(graph, asked));
  return std::optional(std::move(other));
}

// Larger budgets have room for the plan at hand too, so the answer is never slower. More blocks' state on the
// device is what a chooser would try first.
Result<Forecast> best_of(const Plan& anew, const Plan& base, const ModelGraph& graph, const Machine& machine,
                         PlanOptions chosen) {
  TRY_ASSIGN(Forecast best, forecast(anew, graph, machine, {.check_tags = false}));
  TRY_ASSIGN(Forecast other, forecast(base, graph, machine, {.check_tags = false}));
  if (other.step_seconds < best.step_seconds) best = std::move(other);
  chosen.early_blocks *= 2;
  if (chosen.early_blocks == 0) return best;
  const std::optional<Plan> more_early = draft_variation(graph, chosen);
  if (!more_early) return best;
  TRY_ASSIGN(other, forecast(*more_early, graph, machine, {.check_tags = false}));
  if (other.step_seconds < best.step_seconds) best = std::move(other);
  return best;
}

}  // namespace

Result<std::vector<WhatIf>> what_if(const ModelGraph& given, const RunPlan& run, const WhatIfTried& tried) {
  const Plan& base = run.plan;
  const Machine& machine = *run.machine;
  std::vector<WhatIf> out;
  u32 number = 0;
  for (const Variation& change : variations) {
    if (tried) tried(++number, std::size(variations), change.name);
    if (change.applies != nullptr && !change.applies(run.asked, machine)) continue;
    std::optional<ModelGraph> other;
    if (change.state != SlotFormat::f32) {
      other = with_state(given, change.state);
      if (!other) continue;
    }
    const ModelGraph& graph = other ? *other : given;
    PlanOptions asked = run.asked, chosen = run.options;
    Machine faster = machine, same = machine;
    change.apply(asked, faster);
    change.apply(chosen, same);
    if (asked.clipping != run.asked.clipping && updates_wait(graph, asked)) continue;  // fp16: no change
    asked.advise = chosen.advise = false;
    std::optional<Plan> anew;
    if (change.plans_anew) {
      TRY_ASSIGN(anew, plan_anew(graph, asked, chosen));
      if (!anew) {
        out.push_back({change.name});  // another order of updates may need more memory
        continue;
      }
    }
    const bool alike = !other && asked.clipping == run.asked.clipping && asked.nodes == run.asked.nodes &&
                       asked.parallel == run.asked.parallel && asked.speculates == run.asked.speculates;
    Result<Forecast> found = anew && alike
                                 ? best_of(*anew, base, graph, faster, chosen)
                                 : forecast(anew ? *anew : base, graph, faster, {.check_tags = false});
    if (!found) return found.error();
    const double tokens = static_cast<double>(asked.micro_batches) / run.asked.micro_batches;
    out.push_back({change.name, found->step_seconds, tokens, found->binds});
  }
  return out;
}

}  // namespace tidepool
