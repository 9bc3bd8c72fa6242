// Nodes that die, hang, end with an error or are wrong: the others name them, and nothing blocks.
#include <gmock/gmock.h>

#include <future>

#include "net/peer_watch.h"
#include "net/wire_transport.h"
#include "tests/support/nodes_fixture.h"

namespace tidepool::failure_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ByteBuffer = std::vector<std::byte>;

TransportOptions impatient(double timeout_seconds = 0.5) {
  return {.piece = Bytes{64}, .timeout_seconds = timeout_seconds};
}

TEST(NodeFailures, ASilentNodeIsNamedByAllOthers) {
  test::SteppedClock time;
  TransportOptions options = impatient();
  options.clock = time.clock();
  test::LocalNodes nodes({.nodes = 3}, options);
  ByteBuffer in(100);
  nodes[0].receive(2, 1, in, 7);
  nodes.network->cut(2);
  const auto listening = [&] { return nodes.listening(); };
  time.advance(0.4, listening);
  EXPECT_FALSE(nodes.completions[0].has(7));
  EXPECT_EQ(nodes.listening(), 3u);
  time.advance(0.2, listening);
  const NetCompletion done = nodes.completions[0].take(7);
  EXPECT_FALSE(done.ok);
  EXPECT_EQ(done.error.kind, ErrorKind::interrupted);
  EXPECT_THAT(done.error.message, HasSubstr("node 2 (host local2) has not answered for 0.5 s"));
  // Node 1 has nothing in flight and still learns of it.
  ASSERT_FALSE(nodes[1].health());
  EXPECT_THAT(nodes[1].health().error().message, HasSubstr("node 2 (host local2) has not answered"));
}

TEST(NodeFailures, RequestsAfterAFailureCompleteWithIt) {
  test::LocalNodes nodes({.nodes = 2}, impatient());
  nodes.network->cut(1);
  ByteBuffer bytes(100);
  nodes[0].send(1, 1, bytes, 1);
  EXPECT_FALSE(nodes.completions[0].take(1).ok);
  nodes[0].receive(1, 2, bytes, 2);
  EXPECT_THAT(nodes.completions[0].take(2).error.message, HasSubstr("node 1"));
  const auto exchanged = nodes[0].exchange("x");
  ASSERT_FALSE(exchanged);
  EXPECT_THAT(exchanged.error().message, HasSubstr("node 1"));
}

TEST(NodeFailures, ABrokenConnectionIsNoticedAtOnce) {
  test::LocalNodes nodes({.nodes = 2}, impatient(30));
  ByteBuffer bytes(100);
  nodes[0].receive(1, 1, bytes, 1);
  nodes.network->reset(1);
  const NetCompletion done = nodes.completions[0].take(1);
  EXPECT_THAT(done.error.message,
              HasSubstr("the connection to node 1 (host local1) broke: connection reset"));
  nodes.network->mend(1);  // or its own end would wait for the timeout
  nodes[1].fail({ErrorKind::interrupted, "end of the test"});
}

TEST(NodeFailures, ANodeThatFailsTellsTheOthersWhy) {
  test::LocalNodes nodes({.nodes = 3}, impatient(30));
  ByteBuffer bytes(100);
  nodes[0].receive(1, 1, bytes, 1);
  nodes[1].send(0, 2, bytes, 2);
  nodes[1].fail({ErrorKind::io, "the disk is full"});
  const NetCompletion own = nodes.completions[1].take(2), other = nodes.completions[0].take(1);
  EXPECT_EQ(own.error.message, "the disk is full");
  EXPECT_EQ(other.error.kind, ErrorKind::io);
  EXPECT_EQ(other.error.message, "node 1 (host local1) ended with an error: the disk is full");
  const auto exchanged = nodes[2].exchange("x");
  ASSERT_FALSE(exchanged);
  EXPECT_THAT(exchanged.error().message, HasSubstr("the disk is full"));
}

TEST(NodeFailures, ANodeThatEndsInTheMiddleIsNamed) {
  test::LocalNodes nodes({.nodes = 2}, impatient(30));
  ByteBuffer bytes(100);
  nodes[0].receive(1, 1, bytes, 1);
  nodes[1].receive(0, 2, bytes, 2);
  nodes.transports[1].reset();
  EXPECT_THAT(nodes.completions[0].take(1).error.message,
              HasSubstr("node 1 (host local1) ended with an error: it ended early"));
}

TEST(NodeFailures, MessagesOfDifferentSizesAreAnError) {
  test::LocalNodes nodes({.nodes = 2}, impatient(30));
  ByteBuffer bytes(100);
  nodes[0].send(1, 17, std::span(bytes).first(99), 1);
  nodes[1].receive(0, 17, bytes, 2);
  for (const NetCompletion& done : {nodes.completions[0].take(1), nodes.completions[1].take(2)}) {
    EXPECT_EQ(done.error.kind, ErrorKind::internal);
    EXPECT_THAT(done.error.message,
                AllOf(HasSubstr("message 0x11"), HasSubstr("99 bytes"), HasSubstr("100 bytes")));
  }
}

TEST(NodeFailures, AnExchangeDoesNotWaitForEver) {
  TransportOptions options = impatient(30);
  options.exchange_timeout_seconds = 0.3;
  test::LocalNodes nodes({.nodes = 3}, options);
  nodes.on_each([&](u32 node) {
    if (node == 1) return;
    const auto exchanged = nodes[node].exchange("x");
    ASSERT_FALSE(exchanged);
    EXPECT_EQ(exchanged.error().kind, ErrorKind::interrupted);
    EXPECT_THAT(exchanged.error().message, HasSubstr("0.3 s for node 1 (host local1)"));
  });
}

TEST(PeerWatch, NamesTheNodeThatIsSilentTheLongest) {
  PeerWatch watch(0, 4, 10);
  EXPECT_EQ(watch.period_seconds(), 1.0);
  double now = 100;
  for (u32 i = 0; i < 20; ++i) {
    watch.advance(now += 1);
    watch.heard(1);
    if (i < 5) watch.heard(2);
    if (i < 8) watch.heard(3);
    if (i < 14) {
      EXPECT_FALSE(watch.silent().has_value()) << i;
    }
  }
  EXPECT_EQ(watch.silent(), 2u);
  watch.excuse(2, true);
  EXPECT_EQ(watch.silent(), 3u);
}

TEST(NodeStart, ANodeSaysOnceThatItWaitsForTheOthers) {
  u32 said = 0;
  TransportOptions options = impatient();
  options.waits = [&said] { ++said; };
  options.start_notice_seconds = 0.05, options.start_timeout_seconds = 0.3;
  std::promise<void> met;
  const OpenWire late = [others = met.get_future().share()]() -> Result<std::unique_ptr<Wire>> {
    others.wait();
    return Error{ErrorKind::interrupted, "too late"};
  };
  const auto transport = create_wire_transport(late, ProcessPlace{"local0", {}, 0}, options);
  met.set_value();
  ASSERT_FALSE(transport);
  EXPECT_THAT(transport.error().message, HasSubstr("have not met within 0.3 s"));
  EXPECT_EQ(said, 1u);
  said = 0;
  options.start_notice_seconds = 5, options.start_timeout_seconds = 60;
  test::LocalNodes prompt({.nodes = 2}, options);
  EXPECT_EQ(said, 0u);
}

TEST(PeerWatch, TimeInWhichTheProcessWasStoppedDoesNotCount) {
  PeerWatch watch(0, 2, 10);
  watch.advance(0);
  watch.heard(1);
  watch.advance(3600);
  EXPECT_EQ(watch.silent(), std::nullopt);
  for (double now = 3601; now < 3620; ++now) watch.advance(now);
  EXPECT_EQ(watch.silent(), 1u);
}

TEST(PeerWatch, BeatsOncePerPeriod) {
  PeerWatch watch(0, 2, 2);
  u32 beats = 0;
  for (double now = 0; now < 10; now += 0.01) {
    watch.advance(now);
    beats += watch.beat_due();
  }
  EXPECT_GE(beats, 48u);
  EXPECT_LE(beats, 51u);
}

}  // namespace tidepool::failure_test
