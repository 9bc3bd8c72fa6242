// Finds the node near a device, on a machine described to hwloc.
#include "io/numa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/disk_fixture.h"

namespace tidepool::numa_test {

// Two packages of a core, each with a node; a GPU is attached to each, and a third GPU to the whole machine.
constexpr const char* two_nodes = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
   <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1073741824"/>
   <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4">
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
   </object>
   <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[3a-3b]">
    <object type="PCIDev" gp_index="7" pci_busid="0000:3b:00.0" pci_type="0302 [10de:2335] [10de:18be] a1" pci_link_speed="31.5"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="8">
   <object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="9" local_memory="1073741824"/>
   <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="10">
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="11"/>
   </object>
   <object type="Bridge" gp_index="12" bridge_type="0-1" depth="0" bridge_pci="0000:[ba-bb]">
    <object type="PCIDev" gp_index="13" pci_busid="0000:bb:00.0" pci_type="0302 [10de:2335] [10de:18be] a1" pci_link_speed="31.5"/>
   </object>
  </object>
  <object type="Bridge" gp_index="14" bridge_type="0-1" depth="0" bridge_pci="0000:[d0-d1]">
   <object type="PCIDev" gp_index="15" pci_busid="0000:d1:00.0" pci_type="0302 [10de:2335] [10de:18be] a1" pci_link_speed="31.5"/>
  </object>
 </object>
</topology>
)";

class NumaNodes : public ::testing::Test {
 protected:
  NumaNodes() {
    std::ofstream(file_) << two_nodes;
    ::setenv("HWLOC_XMLFILE", file_.c_str(), 1);
  }
  ~NumaNodes() override { ::unsetenv("HWLOC_XMLFILE"); }

  const test::ScratchDir dir_;
  const std::string file_ = dir_ / "topology.xml";
};

TEST_F(NumaNodes, AreReadFromTheDevices) {
  EXPECT_EQ(numa_nodes_of({"0000:3b:00.0"}), std::vector<u32>{0});
  EXPECT_EQ(numa_nodes_of({"0000:bb:00.0"}), std::vector<u32>{1});
  EXPECT_EQ(numa_nodes_of({"0000:bb:00.0", "0000:3b:00.0"}), (std::vector<u32>{0, 1}));
}

TEST_F(NumaNodes, AreUnknownIfTheSystemDoesNotSay) {
  EXPECT_TRUE(numa_nodes_of({}).empty());
  EXPECT_TRUE(numa_nodes_of({"0000:d1:00.0"}).empty());
  EXPECT_TRUE(numa_nodes_of({"0000:aa:00.0"}).empty());
  EXPECT_TRUE(numa_nodes_of({"nonsense"}).empty());
}

}  // namespace tidepool::numa_test
