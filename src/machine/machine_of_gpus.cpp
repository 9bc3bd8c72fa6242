#include "machine/machine_of_gpus.h"

#include <algorithm>
#include <utility>

namespace tidepool {

Machine machine_of_gpus(Machine machine, std::span<const u32> gpus) {
  if (gpus.empty()) return machine;
  std::vector<std::vector<u32>> used;
  for (const std::vector<u32>& shared : machine.copies.switches) {
    std::vector<u32> behind;
    for (u32 device = 0; device < gpus.size(); ++device)
      if (std::ranges::find(shared, gpus[device]) != shared.end()) behind.push_back(device);
    if (!behind.empty()) used.push_back(std::move(behind));
  }
  machine.copies.switches = std::move(used);
  return machine;
}

}  // namespace tidepool
