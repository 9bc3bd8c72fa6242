// The agreement before the first step: equal nodes agree, a difference is named with its nodes, key and
// values.
#include "net/agreement.h"

#include <gmock/gmock.h>

#include "tests/support/nodes_fixture.h"

namespace tidepool::agreement_test {

using ::testing::HasSubstr;
using ::testing::Not;

const Statement usual{{{"version", "1"}, {"config", "abc"}, {"plan", "def"}}, {}};
const std::vector<std::string> names = {"node 0 (host a)", "node 1 (host b)", "node 2 (host c)"};

Error difference(const std::vector<Statement>& all) {
  const Result<void> result = compare(all, names);
  EXPECT_FALSE(result);
  return result ? Error{} : result.error();
}

Statement with(size_t fact, const std::string& value) {
  Statement out = usual;
  out.facts[fact].value = value;
  return out;
}

TEST(Agreement, EqualNodesAgree) { EXPECT_TRUE(compare({usual, usual, usual}, names)); }

TEST(Agreement, TheFirstDifferenceIsNamed) {
  Statement other = with(1, "xyz");
  other.facts[2].value = "also other";
  const Error error = difference({usual, usual, other});
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(
      error.message,
      "the nodes differ in config: node 0 (host a) says 'abc', node 2 (host c) says 'xyz'; all nodes need "
      "the same");
}

TEST(Agreement, AllNodesThatDifferAreNamed) {
  EXPECT_THAT(difference({usual, with(0, "2"), with(0, "3")}).message,
              HasSubstr("node 1 (host b) says '2', node 2 (host c) says '3'"));
}

TEST(Agreement, AMissingFactIsADifference) {
  Statement shorter = usual;
  shorter.facts.pop_back();
  EXPECT_THAT(difference({usual, shorter, usual}).message,
              HasSubstr("plan: node 0 (host a) says 'def', node 1 (host b) says nothing"));
  EXPECT_THAT(difference({shorter, usual, shorter}).message,
              HasSubstr("plan: node 0 (host a) says nothing, node 1 (host b) says 'def'"));
}

TEST(Agreement, LongValuesAreShownWhereTheyDiffer) {
  const std::string begin(500, 'a'), end(500, 'z');
  const std::string message =
      difference({with(1, begin + "ONE" + end), with(1, begin + "TWO" + end), usual}).message;
  EXPECT_THAT(message, HasSubstr("ONE"));
  EXPECT_THAT(message, HasSubstr("TWO"));
  EXPECT_LT(message.size(), 500u);
}

TEST(Agreement, ARefusalKeepsItsKindAndText) {
  Statement refusing = with(1, "differs too");
  refusing.refusal = Error{ErrorKind::does_not_fit, "memory.host=1GiB is too small"};
  const Error error = difference({usual, refusing, usual});
  EXPECT_EQ(error.kind, ErrorKind::does_not_fit);
  EXPECT_EQ(error.message, "node 1 (host b) cannot take part: memory.host=1GiB is too small");
}

TEST(Agreement, StatementsSurviveTheJourney) {
  Statement all = usual;
  all.facts.push_back({"", std::string("with\0zero", 9)});
  all.refusal = Error{ErrorKind::io, ""};
  const Statement back = decode_statement(encode(all)).value();
  EXPECT_EQ(back.facts, all.facts);
  ASSERT_TRUE(back.refusal);
  EXPECT_EQ(back.refusal->kind, ErrorKind::io);
  EXPECT_EQ(decode_statement(encode(usual)).value().facts, usual.facts);
}

TEST(Agreement, DamagedStatementsAreErrors) {
  const std::string text = encode(usual);
  for (size_t bytes = 0; bytes < text.size(); ++bytes)
    EXPECT_FALSE(decode_statement(text.substr(0, bytes))) << bytes;
  EXPECT_FALSE(decode_statement(text + "x"));
}

TEST(Agreement, EveryNodeOfATransportGetsTheSameAnswer) {
  test::LocalNodes nodes({.nodes = 3, .seed = 5, .delay_us_max = 300});
  nodes.on_each([&](u32 node) { EXPECT_TRUE(agree(nodes[node], usual)); });
  nodes.on_each([&](u32 node) {
    const Result<void> result = agree(nodes[node], node == 1 ? with(2, "other plan") : usual);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("node 1 (host local1) says 'other plan'"));
    EXPECT_THAT(result.error().message, Not(HasSubstr("node 2")));
  });
}

}  // namespace tidepool::agreement_test
