#include "trainer/budget_room.h"

#include <algorithm>

#include "planner/advice.h"
#include "text/budget_text.h"

namespace tidepool {
namespace {

std::optional<Bytes> known(Bytes bytes) { return bytes.value == 0 ? std::nullopt : std::optional(bytes); }

Bytes less(Bytes from, Bytes taken) { return from > taken ? from - taken : Bytes{0}; }

// Devices made of cores lie in the host's memory.
std::optional<Bytes> device_most(const Machine& machine, const PlanOptions& options) {
  const std::optional<Bytes> own = known(machine.device.memory), host = known(machine.host.memory);
  if (machine.device.kind != DeviceKind::cpu || !host) return own;
  const Bytes left{less(*host, options.budgets.host).value / options.devices};
  return own ? std::min(*own, left) : left;
}

std::optional<Bytes> host_most(const Machine& machine, const PlanOptions& options) {
  const std::optional<Bytes> has = known(machine.host.memory);
  if (machine.device.kind != DeviceKind::cpu || !has) return has;
  return less(*has, options.budgets.device * options.devices);
}

// One that is used although the file tells of none is this computer's.
std::optional<Bytes> disk_most(const Machine& machine, const PlanOptions& options) {
  if (machine.disk != DiskRates{}) return known(machine.disk.capacity);
  return options.budgets.disk.value == 0 ? std::optional(Bytes{0}) : std::nullopt;
}

}  // namespace

std::optional<Bytes> budget_most(const Machine& machine, const PlanOptions& options, Tier tier) {
  const std::optional<Bytes> has = tier == Tier::device ? device_most(machine, options)
                                   : tier == Tier::host ? host_most(machine, options)
                                                        : disk_most(machine, options);
  if (!has) return has;
  return std::max(options.budgets.of(tier), written_below(*has));
}

bool takes_budgets(const Machine& machine, const PlanOptions& options, const Budgets& budgets) {
  for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
    if (budgets.of(tier) <= options.budgets.of(tier)) continue;
    PlanOptions others = options;
    others.budgets = budgets;
    budget_of(others.budgets, tier) = options.budgets.of(tier);
    const std::optional<Bytes> most = budget_most(machine, others, tier);
    if (most && budgets.of(tier) > *most) return false;
  }
  return true;
}

}  // namespace tidepool
