#include "advisor/what_if.h"

namespace tidepool {
namespace {

constexpr double more = 1.25;

Bytes larger(Bytes budget) { return Bytes{static_cast<u64>(static_cast<double>(budget.value) * more)}; }

struct Change {
  const char* name;
  void (*apply)(PlanOptions&, Machine&);
  bool plans_anew = false;  // rates are no part of a plan
};

constexpr Change changes[] = {
    {"device budget +25%", [](PlanOptions& o, Machine&) { o.budgets.device = larger(o.budgets.device); }, true},
    {"host budget +25%", [](PlanOptions& o, Machine&) { o.budgets.host = larger(o.budgets.host); }, true},
    {"compute +25%",
     [](PlanOptions&, Machine& m) {
       for (double& rate : m.device.flops_per_s) rate *= more;
     }},
    {"device links +25%",
     [](PlanOptions&, Machine& m) {
       m.copies.h2d_bytes_per_s *= more, m.copies.d2h_bytes_per_s *= more;
       m.copies.both_bytes_per_s *= more, m.copies.switch_bytes_per_s *= more;
     }},
    {"CPU Adam +25%",
     [](PlanOptions&, Machine& m) { m.host.adam_bytes_per_s *= more, m.host.memory_bytes_per_s *= more; }},
    {"disk +25%",
     [](PlanOptions&, Machine& m) {
       m.disk.read_bytes_per_s *= more, m.disk.write_bytes_per_s *= more, m.disk.mixed_bytes_per_s *= more;
       for (DiskPoint& p : m.disk.points) p.read_bytes_per_s *= more, p.write_bytes_per_s *= more;
     }},
    {"clipping off", [](PlanOptions& o, Machine&) { o.clipping = false; }, true},
};

}  // namespace

Result<std::vector<WhatIf>> what_if(const Plan& base, const ModelGraph& graph, const PlanOptions& options,
                                    const Machine& machine, const WhatIfTried& tried) {
  std::vector<WhatIf> out;
  u32 number = 0;
  for (const Change& change : changes) {
    if (tried) tried(++number, std::size(changes), change.name);
    PlanOptions changed = options;
    Machine faster = machine;
    change.apply(changed, faster);
    if (changed.clipping != options.clipping && updates_wait(graph, changed)) continue;  // fp16: nothing changes
    changed.advise = false;
    Result<Plan> anew{Plan{}};
    if (change.plans_anew) anew = draft_plan(graph, changed);
    if (!anew) {
      if (anew.error().kind == ErrorKind::does_not_fit) continue;  // another order of updates may need more
      return anew.error();
    }
    TRY_ASSIGN(const Forecast found, forecast(change.plans_anew ? *anew : base, graph, faster, {.check_tags = false}));
    out.push_back({change.name, found.step_seconds, found.binds});
  }
  return out;
}

}  // namespace tidepool
