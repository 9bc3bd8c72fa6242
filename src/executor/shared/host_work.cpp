#include "executor/shared/host_work.h"

#include "base/check.h"

namespace tidepool {

Result<void> HostWork::run(const Issue& issue) {
  const Plan& plan = common_.plan;
  StepSource& source = common_.request.source;
  const OpKind kind = issue.get().kind;
  if (kind == OpKind::load_batch)
    return run_load_batch(plan, common_.graph, common_.memory, source, common_.evaluation, issue);
  CHECK(kind == OpKind::update, name(kind));
  const StepResult result = plan.clipping ? lanes_.result(issue.step) : StepResult{};
  update_.run(issue, update_scalars(plan, source, issue.step, result));
  return {};
}

}  // namespace tidepool
