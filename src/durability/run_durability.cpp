#include "durability/run_durability.h"

#include "base/check.h"
#include "log/log.h"

namespace tidepool {

Action RunDurability::tell(const Happened& happened) {
  const Transition t = transition(state_, happened);
  CHECK(t.never.empty(), name(happened.event), happened.value, t.never, to_text(state_).view());
  state_ = t.next;
  if (!is_routine(happened.event) && takes_log(LogLevel::debug))
    log_debug("{}: {}", name(happened.event), to_text(state_).view());
  return t.action;
}

}  // namespace tidepool
