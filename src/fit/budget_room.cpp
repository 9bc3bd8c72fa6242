#include "fit/budget_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text/budget_text.h"
#include "base/text/units.h"
#include "machine/gpu_headroom.h"

namespace tidepool {
namespace {

std::optional<Bytes> known(Bytes bytes) { return bytes.value == 0 ? std::nullopt : std::optional(bytes); }

Bytes less(Bytes from, Bytes taken) { return from > taken ? from - taken : Bytes{0}; }

}  // namespace

std::optional<Bytes> BudgetRoom::of(Tier tier) const {
  if (tier == Tier::device && device) return less(*device, beside({}));
  return tier == Tier::device ? device : tier == Tier::host ? host : disk;
}

std::optional<Bytes> BudgetRoom::most(const Budgets& budgets, Tier tier) const {
  std::optional<Bytes> has = of(tier);
  if (is_shared && host && tier != Tier::disk) {
    const Bytes left =
        tier == Tier::device ? less(*host, budgets.host) / devices : less(*host, budgets.device * devices);
    has = has ? std::min(*has, left) : left;
  }
  if (is_gpu && device && has && tier == Tier::host) has = std::min(*has, host_beside(budgets.device));
  if (!has) return has;
  if (is_gpu && tier == Tier::device) has = less(*device, beside(budgets.host));
  return std::max(budgets.of(tier), written_below(*has));
}

bool BudgetRoom::takes(const Budgets& budgets) const {
  const auto fits = [&](Tier tier) { return !of(tier) || budgets.of(tier) <= *of(tier); };
  return std::ranges::all_of(all_tiers, fits) && takes_together(budgets);
}

Bytes BudgetRoom::beside(Bytes host_budget) const {
  return is_gpu ? gpu_context + gpu_headroom(host_budget, devices).total() : Bytes{0};
}

Bytes BudgetRoom::host_beside(Bytes device_budget) const {
  return pinned_within(less(*device, beside({}) + device_budget));
}

bool BudgetRoom::takes_together(const Budgets& budgets) const {
  if (is_gpu && device && budgets.device > less(*device, beside(budgets.host))) return false;
  return !is_shared || !host || budgets.device <= less(*host, budgets.host) / devices;
}

BudgetRoom room_of(const Machine& machine, PlanFor who, u32 devices) {
  BudgetRoom room{.machine = machine.name,
                  .device = known(machine.device.memory),
                  .host = known(machine.host.memory),
                  .devices = devices,
                  .is_shared = machine.device.kind == DeviceKind::cpu,
                  .is_gpu = machine.device.kind == DeviceKind::cuda};
  if (who == PlanFor::machine_of_file)
    room.disk = has_disk(machine) ? known(machine.disk.capacity) : std::optional(Bytes{0});
  return room;
}

std::string shared_memory_text(const BudgetRoom& room, const Budgets& budgets) {
  CHECK(!room.takes_together(budgets), budgets.device.value, budgets.host.value);
  if (room.is_gpu)
    return fmt::format(
        "memory.device={} leaves too little memory of each GPU of {} ({}): the context takes {}, and a run "
        "{}",
        bytes_text(budgets.device), room.machine, bytes_text(*room.device), bytes_text(gpu_context),
        headroom_text(gpu_headroom(budgets.host, room.devices), budgets.host));
  return fmt::format(
      "memory.device={} for each of {} device{} and memory.host={} share the host's memory, and need more "
      "than "
      "{} has ({})",
      bytes_text(budgets.device), room.devices, room.devices == 1 ? "" : "s", bytes_text(budgets.host),
      room.machine, bytes_text(*room.host));
}

}  // namespace tidepool
