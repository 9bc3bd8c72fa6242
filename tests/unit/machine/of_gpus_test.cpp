// Switches of a machine file, renumbered for a plan that uses some of its GPUs.
#include <gmock/gmock.h>

#include "machine/machine_of_gpus.h"

namespace tidepool::of_gpus_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::vector<u32>> switches_of(std::vector<u32> gpus) {
  Machine box;
  box.copies.switches = {{0, 1}, {2, 3}};
  return machine_of_gpus(box, gpus).copies.switches;
}

TEST(MachineOfGpus, DevicesAreCountedInTheOrderOfTheGpus) {
  EXPECT_THAT(switches_of({0, 1}), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(switches_of({0, 2}), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(switches_of({2, 3}), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(switches_of({3, 0, 2}), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_THAT(switches_of({0, 1, 2, 3}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(MachineOfGpus, AGpuBehindNoSwitchHasItsOwnWay) { EXPECT_THAT(switches_of({4, 5}), IsEmpty()); }

TEST(MachineOfGpus, NothingElseChanges) {
  Machine box;
  box.copies = {.switches = {{0, 1}}, .switch_bytes_per_s = 1e9};
  EXPECT_EQ(machine_of_gpus(box, {}), box);
  EXPECT_EQ(machine_of_gpus(box, std::vector<u32>{0, 1}), box);
}

}  // namespace tidepool::of_gpus_test
