#include "advisor/what_if.h"

namespace tidepool {
namespace {

constexpr double more = 1.25;

Bytes larger(Bytes budget) { return Bytes{static_cast<u64>(static_cast<double>(budget.value) * more)}; }

struct Change {
  const char* name;
  void (*apply)(PlanOptions&, Machine&);
};

constexpr Change changes[] = {
    {"device budget +25%", [](PlanOptions& o, Machine&) { o.budgets.device = larger(o.budgets.device); }},
    {"host budget +25%", [](PlanOptions& o, Machine&) { o.budgets.host = larger(o.budgets.host); }},
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
    {"clipping off", [](PlanOptions& o, Machine&) { o.clipping = false; }},
};

}  // namespace

Result<std::vector<WhatIf>> what_if(const ModelGraph& graph, const PlanOptions& options,
                                    const Machine& machine, const WhatIfTried& tried) {
  std::vector<WhatIf> out;
  u32 number = 0;
  for (const Change& change : changes) {
    if (tried) tried(++number, std::size(changes), change.name);
    PlanOptions changed = options;
    Machine faster = machine;
    change.apply(changed, faster);
    changed.advise = false;
    const auto plan = make_plan(graph, changed);
    if (!plan) {
      if (plan.error().kind == ErrorKind::does_not_fit) continue;  // another order of updates may need more
      return plan.error();
    }
    TRY_ASSIGN(const Forecast found, forecast(*plan, graph, faster));
    out.push_back({change.name, found.step_seconds, found.binds});
  }
  return out;
}

}  // namespace tidepool
