#include "executor/shared/host_work.h"

#include "base/check.h"

namespace tidepool {

HostWork::HostWork(const HostWorkParts& parts)
    : parts_(parts), decay_(parts.update.plan, parts.update.graph), update_(parts.update, decay_) {}

Result<void> HostWork::run(const Issue& issue) {
  const UpdateOpParts& p = parts_.update;
  const OpKind kind = issue.get().kind;
  if (kind == OpKind::load_batch)
    return run_load_batch(p.plan, p.graph, p.memory, parts_.source, parts_.evaluation, issue);
  CHECK(kind == OpKind::update, name(kind));
  const StepResult result = p.plan.clipping ? parts_.result(issue.step) : StepResult{};
  update_.run(issue, update_scalars(p.plan, parts_.source, issue.step, result));
  return {};
}

}  // namespace tidepool
