// The transport's protocol, between nodes in one process: matching, pieces, order, exchange, goodbyes.
#include "net/transport.h"

#include <gmock/gmock.h>

#include <random>

#include "base/mix_bits.h"
#include "tests/support/nodes_fixture.h"

namespace tidepool::transport_test {

using ::testing::HasSubstr;
using ByteBuffer = std::vector<std::byte>;

const TransportOptions small_pieces{.piece = Bytes{64}, .pieces_in_flight = 3};

ByteBuffer pattern(u64 seed, u64 bytes) {
  ByteBuffer out(bytes);
  for (u64 i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(mix_count(seed * 1'000'003 + i));
  return out;
}

struct Message {
  u32 from = 0, to = 0;
  u64 number = 0, bytes = 0;

  u64 seed() const { return from * 7919 + to * 104'729 + number; }
};

// Each node submits its sends and receives in an order of its own, and then waits for all of them.
void transfer(test::LocalNodes& nodes, const std::vector<Message>& messages, u64 seed) {
  nodes.on_each([&](u32 node) {
    std::vector<size_t> order(messages.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::mt19937_64 random(seed * 31 + node);
    std::ranges::shuffle(order, random);
    std::vector<ByteBuffer> memory(messages.size());
    for (const size_t i : order) {
      const Message& m = messages[i];
      if (m.from == node) {
        memory[i] = pattern(m.seed(), m.bytes);
        nodes[node].send(m.to, m.number, memory[i], i);
      } else if (m.to == node) {
        memory[i].resize(m.bytes);
        nodes[node].receive(m.from, m.number, memory[i], i);
      }
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].from != node && messages[i].to != node) continue;
      const NetCompletion done = nodes.completions[node].take(i);
      EXPECT_TRUE(done.ok) << done.error.message;
      if (messages[i].to != node) continue;
      EXPECT_EQ(memory[i], pattern(messages[i].seed(), messages[i].bytes)) << "message " << i;
    }
  });
}

TEST(Transport, KnowsItsNodes) {
  test::LocalNodes nodes({.nodes = 3});
  for (u32 node = 0; node < 3; ++node) {
    EXPECT_EQ(nodes[node].node(), node);
    EXPECT_EQ(nodes[node].nodes(), 3u);
    EXPECT_EQ(nodes[node].name(1), "node 1 (host local1)");
    EXPECT_TRUE(nodes[node].health());
  }
  EXPECT_EQ(nodes[0].describe(), "3 nodes through queues in one process");
}

// From none to several pieces, on, below and above their ends, and above what a wire sends early.
TEST(Transport, MovesMessagesOfManySizes) {
  test::LocalNodes nodes({.nodes = 2}, small_pieces);
  std::vector<Message> messages;
  for (const u64 bytes : {0, 1, 63, 64, 65, 127, 128, 129, 640, 5000, 100'000})
    for (const u32 from : {0u, 1u}) messages.push_back({from, 1 - from, messages.size(), bytes});
  transfer(nodes, messages, 1);
}

TEST(Transport, MatchesMessagesByNumberInAnyOrder) {
  for (u64 seed = 0; seed < 8; ++seed) {
    test::LocalNodes nodes({.nodes = 4, .seed = seed, .delay_us_max = 200}, small_pieces);
    std::mt19937_64 random(seed);
    std::vector<Message> messages;
    for (u64 i = 0; i < 200; ++i) {
      const u32 from = static_cast<u32>(random() % 4);
      messages.push_back({from, static_cast<u32>((from + 1 + random() % 3) % 4), i, random() % 700});
    }
    transfer(nodes, messages, seed);
  }
}

// Numbers count per pair and direction.
TEST(Transport, TheSameNumberMayBeInUseElsewhere) {
  test::LocalNodes nodes({.nodes = 3, .delay_us_max = 100}, small_pieces);
  std::vector<Message> messages;
  for (u32 from = 0; from < 3; ++from)
    for (u32 to = 0; to < 3; ++to)
      if (from != to) messages.push_back({from, to, message_max - 1, 300});
  for (u64 round = 0; round < 20; ++round) transfer(nodes, messages, round);
}

TEST(Transport, TakesAsManyRequestsAsPromised) {
  TransportOptions options = small_pieces;
  options.max_requests = 16;
  test::LocalNodes nodes({.nodes = 2}, options);
  std::vector<Message> messages;
  for (u64 i = 0; i < 16; ++i)
    messages.push_back({static_cast<u32>(i % 2), static_cast<u32>(1 - i % 2), i, 1000});
  for (u64 round = 0; round < 5; ++round) transfer(nodes, messages, round);
}

TEST(Transport, AMessageWaitsForItsReceive) {
  test::LocalNodes nodes({.nodes = 2}, small_pieces);
  ByteBuffer out = pattern(1, 1000), in(1000);
  nodes[0].send(1, 5, out, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(nodes.completions[0].has(0));
  nodes[1].receive(0, 5, in, 1);
  EXPECT_TRUE(nodes.completions[1].take(1).ok);
  EXPECT_TRUE(nodes.completions[0].take(0).ok);
  EXPECT_EQ(in, out);
}

TEST(Transport, ASinkMaySubmit) {
  test::LocalNodes nodes({.nodes = 2}, small_pieces);
  ByteBuffer out = pattern(1, 200), in(200);
  std::atomic<u64> received = 0;
  constexpr u64 rounds = 50;
  for (u32 node = 0; node < 2; ++node)
    nodes[node].deliver_to([&, node](const NetCompletion& c) {
      EXPECT_TRUE(c.ok);
      if (node == 1) received = c.tag;
      received.notify_all();
      if (c.tag == rounds) return;
      node == 0 ? nodes[0].send(1, c.tag + 1, out, c.tag + 1) : nodes[1].receive(0, c.tag + 1, in, c.tag + 1);
    });
  nodes[0].send(1, 1, out, 1);
  nodes[1].receive(0, 1, in, 1);
  for (u64 n = received; n < rounds; n = received) received.wait(n);
  EXPECT_EQ(in, out);
}

TEST(Transport, ExchangeGivesEveryNodesBytesToAll) {
  test::LocalNodes nodes({.nodes = 4, .delay_us_max = 200}, small_pieces);
  for (u32 round = 0; round < 5; ++round)
    nodes.on_each([&](u32 node) {
      const auto text = [round](u32 n) { return std::string(n * 100 * round, static_cast<char>('a' + n)); };
      const auto all = nodes[node].exchange(text(node));
      ASSERT_TRUE(all) << all.error().message;
      ASSERT_EQ(all->size(), 4u);
      for (u32 n = 0; n < 4; ++n) EXPECT_EQ((*all)[n], text(n));
    });
}

TEST(Transport, ExchangesAndMessagesDoNotMix) {
  test::LocalNodes nodes({.nodes = 2, .delay_us_max = 200}, small_pieces);
  ByteBuffer out = pattern(1, 5000), in(5000);
  nodes[0].send(1, 0, out, 0);
  nodes.on_each([&](u32 node) { EXPECT_TRUE(nodes[node].exchange("x")); });
  nodes[1].receive(0, 0, in, 0);
  EXPECT_TRUE(nodes.completions[1].take(0).ok);
  EXPECT_TRUE(nodes.completions[0].take(0).ok);
  EXPECT_EQ(in, out);
}

TEST(Transport, OneNodeAloneExchangesWithItself) {
  test::LocalNodes nodes({.nodes = 1});
  EXPECT_EQ(nodes[0].exchange("mine").value(), std::vector<std::string>{"mine"});
}

// A node that is done waits for the others, which still exchange messages with each other.
TEST(Transport, ANodeMayEndBeforeTheOthers) {
  TransportOptions options = small_pieces;
  test::SteppedClock time;
  options.timeout_seconds = 0.3;
  options.clock = time.clock();
  test::LocalNodes nodes({.nodes = 3}, options);
  std::thread early([&] { nodes.transports[0].reset(); });
  time.advance(0.7, [] { return 3u; });
  ByteBuffer out = pattern(1, 1000), in(1000);
  nodes[1].send(2, 0, out, 0);
  nodes[2].receive(1, 0, in, 0);
  EXPECT_TRUE(nodes.completions[2].take(0).ok);
  EXPECT_TRUE(nodes.completions[1].take(0).ok);
  EXPECT_TRUE(nodes[1].health());
  nodes.on_each([&](u32 node) {
    if (node != 0) nodes.transports[node].reset();
  });
  early.join();
}

}  // namespace tidepool::transport_test
