// Settings of single nodes: memory.nodes.
#include <gmock/gmock.h>

#include "run/nodes.h"
#include "tests/support/train_fixture.h"

namespace tidepool::config_of_node_test {

using ::testing::HasSubstr;

TEST(ConfigOfNode, HasTheSettingsOfItsNodesAlone) {
  const test::TrainDir dir;
  Config c = test::small_config(dir);
  c.memory.nodes = {"1: memory.host=24MiB", "2-3: memory.device=8MiB machine.threads=3",
                    "3: memory.host=9MiB"};
  const auto of = [&](u32 node) { return config_of_node(c, node, 5).value(); };
  EXPECT_EQ(of(0), c);
  EXPECT_EQ(of(1).memory.budgets.host, Bytes{24 * mib});
  EXPECT_EQ(of(1).memory.budgets.device, c.memory.budgets.device);
  for (const u32 node : {2u, 3u}) {
    EXPECT_EQ(of(node).memory.budgets.device, Bytes{8 * mib}) << node;
    EXPECT_EQ(of(node).machine.threads, 3u) << node;
  }
  EXPECT_EQ(of(3).memory.budgets.host, Bytes{9 * mib});
  EXPECT_EQ(of(4), c);
}

TEST(ConfigOfNode, RefusesWhatItCannotRead) {
  const test::TrainDir dir;
  Config c = test::small_config(dir);
  for (const char* entry :
       {"memory.host=1GiB", "1 memory.host=1GiB", "3-2: memory.host=1GiB", "-1: x=1", ""}) {
    c.memory.nodes = {entry};
    const auto refused = config_of_node(c, 1, 4);
    ASSERT_FALSE(refused) << entry;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_THAT(refused.error().message, HasSubstr("memory.nodes")) << entry;
  }
  for (const char* entry : {"1: memory.hst=1GiB", "1: memory.host=much"}) {
    c.memory.nodes = {entry};
    const auto refused = config_of_node(c, 1, 4);
    ASSERT_FALSE(refused) << entry;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_THAT(refused.error().message, HasSubstr("memory.h")) << entry;
  }
}

// Every node refuses an entry for a node that does not exist, whichever node it is itself.
TEST(ConfigOfNode, RefusesSettingsOfNodesThatDoNotExist) {
  const test::TrainDir dir;
  Config c = test::small_config(dir);
  struct Case {
    const char *entry, *node, *have;
    u32 nodes;
  };
  for (const Case& each : {Case{"2: memory.host=24MiB", "node 2", "the nodes 0 to 1", 2},
                           Case{"1-3: memory.host=24MiB", "node 2", "the nodes 0 to 1", 2},
                           Case{"1: memory.host=24MiB", "node 1", "node 0 alone", 1}})
    for (u32 node = 0; node < each.nodes; ++node) {
      c.memory.nodes = {"0: memory.device=8MiB", each.entry};
      const auto refused = config_of_node(c, node, each.nodes);
      ASSERT_FALSE(refused) << each.entry;
      EXPECT_EQ(refused.error().kind, ErrorKind::usage);
      for (const char* words : {"memory.nodes", each.entry, each.node, each.have})
        EXPECT_THAT(refused.error().message, HasSubstr(words));
    }
}

TEST(ConfigOfNode, OfARunOfOneProcessHasTheSettingsOfNode0) {
  const test::TrainDir dir;
  Config c = test::small_config(dir);
  c.memory.nodes = {"0: memory.device=8MiB"};
  EXPECT_EQ(request_of_node({.config = c}).value().config.memory.budgets.device, Bytes{8 * mib});
  c.memory.nodes = {"0-1: memory.device=8MiB"};
  const auto refused = test::run(c);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("node 1"));
}

}  // namespace tidepool::config_of_node_test
