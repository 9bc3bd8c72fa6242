// Texts whose tokens have labels, and token ids with what a teacher says behind them.
#include <gmock/gmock.h>

#include "data/batches/open_documents.h"
#include "tests/support/document_files.h"

namespace tidepool::token_labels_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr i32 no = ignored_target, pad = padding_target;

class DataTokenLabels : public test::DocumentsFixture {
 protected:
  DataConfig config(std::string_view lines) {
    return {.train = {write("a.jsonl", lines)},
            .validation_fraction = 0,
            .shuffle = false,
            .packing = false,
            .labelled = ScoreHead{.labels = 3, .names = {"O", "LOC", "PER"}, .of_tokens = true},
            .units = {.documents = Documents::token_labels, .numbers = 1}};
  }
};

TEST_F(DataTokenLabels, TheFirstTokenOfAWordHasItsLabel) {
  const auto data =
      opened(config("{\"tokens\": [\"ab\", \"c\", \"de\"], \"ner_tags\": [1, \"PER\", -100]}\n"), 9);
  const Row row = train_row(*data, 0);
  EXPECT_THAT(row.tokens, ElementsAre('a', 'b', ' ', 'c', ' ', 'd', 'e', 0, 0));
  EXPECT_THAT(row.targets, ElementsAre(1, no, no, 2, no, no, no, pad, pad));
  EXPECT_EQ(data->train_targets(0), 2u);
  EXPECT_EQ(data->train_tokens(0), 7u);
}

TEST_F(DataTokenLabels, IdsHaveLabelsOfTheirOwn) {
  const auto data = opened(config("{\"input_ids\": [7, 8, 9], \"labels\": [0, -100, 2]}\n"), 4);
  const Row row = train_row(*data, 0);
  EXPECT_THAT(row.tokens, ElementsAre(7, 8, 9, 0));
  EXPECT_THAT(row.targets, ElementsAre(0, no, 2, pad));
}

TEST_F(DataTokenLabels, ALongTextLosesItsEnd) {
  const auto data = opened(config("{\"input_ids\": [1, 2, 3, 4, 5], \"labels\": [0, 1, 2, 0, 1]}\n"), 3);
  ASSERT_EQ(data->train_sequences(), 1u);
  EXPECT_THAT(train_row(*data, 0).targets, ElementsAre(0, 1, 2));
}

TEST_F(DataTokenLabels, TextsSideBySideKeepTheirLabels) {
  DataConfig packed =
      config("{\"input_ids\": [1, 2], \"labels\": [0, 1]}\n{\"input_ids\": [3, 4], \"labels\": [2, -100]}\n");
  packed.packing = true;
  const auto data = opened(packed, 5);
  const Row row = train_row(*data, 0);
  EXPECT_THAT(row.tokens, ElementsAre(1, 2, 3, 4, 0));
  EXPECT_THAT(row.targets, ElementsAre(0, 1, 2, no, pad));
  EXPECT_THAT(row.starts, ElementsAre(0, 0, 2, 2, 4));
}

TEST_F(DataTokenLabels, BadLabelsAreNamed) {
  const auto of = [&](std::string_view line) { return fault(config(line)); };
  EXPECT_THAT(of("{\"tokens\": [\"a\"], \"labels\": [3]}"),
              HasSubstr("a.jsonl:1: label 3 is not below objective.num_labels, 3"));
  EXPECT_THAT(of("{\"tokens\": [\"a\"], \"labels\": [\"ORG\"]}"),
              HasSubstr("none of objective.labels: O, LOC, PER"));
  EXPECT_THAT(of("{\"tokens\": [\"a\", \"b\"], \"labels\": [1]}"),
              HasSubstr("there are 1 label for 2 tokens"));
  EXPECT_THAT(of("{\"tokens\": [\"a\"], \"labels\": [0.5]}"),
              HasSubstr("labels[0] must be the number of a label"));
  EXPECT_THAT(of("{\"tokens\": [\"a\"], \"labels\": [-1]}"), HasSubstr("or -100 for none"));
  EXPECT_THAT(of("{\"tokens\": [\"\"], \"labels\": [0]}"), HasSubstr("tokens[0] must be a word"));
  EXPECT_THAT(of("{\"tokens\": [\"a\"]}"), HasSubstr("there are no \"labels\""));
  EXPECT_THAT(of("{\"labels\": [1]}"), HasSubstr("there are no \"tokens\""));
}

TEST_F(DataTokenLabels, ContradictionsAreNamed) {
  const auto of = [&](std::string_view line) { return fault(config(line)); };
  EXPECT_THAT(of("{\"input_ids\": [1], \"tokens\": [\"a\"], \"labels\": [1]}"),
              HasSubstr("\"input_ids\" and \"tokens\" say the same"));
  EXPECT_THAT(of("{\"tokens\": [\"a\"], \"labels\": [1], \"tags\": [1]}"),
              HasSubstr("\"labels\" and \"tags\" say"));
  EXPECT_THAT(of("{\"input_ids\": [1, 2], \"labels\": [1, 0], \"attention_mask\": [1, 0]}"),
              HasSubstr("write a text alone, without padding"));
}

class DataDistributions : public test::DocumentsFixture {
 protected:
  DataConfig config(std::string_view lines) {
    return {.train = {write("a.jsonl", lines)},
            .validation_fraction = 0,
            .shuffle = false,
            .packing = false,
            .units = {.documents = Documents::distributions, .numbers = 4, .taught = true}};
  }
  struct TaughtRow : Row {
    explicit TaughtRow(u32 length) : Row(length), distributions(length * 4) {}
    BatchArrays arrays() {
      return {.tokens = tokens, .targets = targets, .starts = starts, .distributions = distributions};
    }
    std::vector<float> distributions;
  };
};

TEST_F(DataDistributions, StandWithTheTargetsThatTheyPredict) {
  const auto data = opened(config("{\"input_ids\": [7, 8, 9], \"labels\": [-100, -100, 9], "
                                  "\"teacher_topk_ids\": [null, [9, 5, 6], []], "
                                  "\"teacher_topk_logps\": [null, [-0.5, -1, -4], []]}\n"),
                           4);
  TaughtRow row(4);
  ASSERT_TRUE(data->train_sequence(0, row.arrays()));
  EXPECT_THAT(row.tokens, ElementsAre(7, 8, 0, 0));
  EXPECT_THAT(row.targets, ElementsAre(no, 9, pad, pad));
  // The first two of three.
  EXPECT_THAT(row.distributions, ElementsAre(0, 0, 0, 0, -0.5, -1, 9, 5, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(DataDistributions, PaddingAndPackedDocumentsAreTakenApart) {
  const auto data =
      opened(config("{\"input_ids\": [0, 7, 8, 9, 5], \"attention_mask\": [0, 1, 1, 2, 2], "
                    "\"teacher_topk_ids\": [[], [1, 2], "
                    "[], [3, 4], []], \"teacher_topk_logps\": [[], [-1, -2], [], [-3, -4], []]}\n"),
             2);
  for (u64 i = 0; i < 2; ++i) {
    TaughtRow row(2);
    ASSERT_TRUE(data->train_sequence(i, row.arrays()));
    const float first = i == 0 ? 1 : 3;
    EXPECT_THAT(row.distributions, ElementsAre(-first, -first - 1, first, first + 1, 0, 0, 0, 0));
  }
}

TEST_F(DataDistributions, TheMostProbableTokensAreTaken) {
  const auto data = opened(config("{\"input_ids\": [7, 8], \"teacher_topk_ids\": [[1, 2, 3], []], "
                                  "\"teacher_topk_logps\": [[-5, -6, -0.1], []]}\n"),
                           1);
  TaughtRow row(1);
  ASSERT_TRUE(data->train_sequence(0, row.arrays()));
  EXPECT_THAT(row.distributions, ElementsAre(-0.1f, -5, 3, 1));
}

TEST_F(DataDistributions, BadOnesAreNamed) {
  const auto of = [&](std::string_view rest) {
    return fault(config("{\"input_ids\": [7, 8], " + std::string(rest) + "}"));
  };
  EXPECT_THAT(of("\"labels\": [7, 8]"), HasSubstr("name a teacher with objective.teacher"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 2], []]"), HasSubstr("there is no \"teacher_topk_logps\""));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 2], []], \"teacher_topk_logps\": [[-1], []]"),
              HasSubstr("must be lists of one length"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1], []], \"teacher_topk_logps\": [[-1], []]"),
              HasSubstr("has 1 tokens behind each token, and objective.top_k is 2"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 1], []], \"teacher_topk_logps\": [[-1, -2], []]"),
              HasSubstr("teacher_topk_ids[0] names a token twice"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 2], []], \"teacher_topk_logps\": [[-1, 0.5], []]"),
              HasSubstr("teacher_topk_logps[0][1] must be the logarithm of a probability"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 300], []], \"teacher_topk_logps\": [[-1, -2], []]"),
              HasSubstr("teacher_topk_ids names token 300, but the model's vocabulary has 256"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 2], []], \"teacher_topk_logps\": [[-1, -2], []], "
                 "\"teacher_temperature\": 2"),
              HasSubstr("teacher_temperature is 2, and objective.temperature is 1; set the same one"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[], []], \"teacher_topk_logps\": [[], []]"),
              HasSubstr("has nothing but empty lists"));
  EXPECT_THAT(of("\"teacher_topk_ids\": [[1, 2], []], \"teacher_topk_logps\": [[-0.1, -0.1], []]"),
              HasSubstr("teacher_topk_logps[0] are of probabilities whose sum is 1.81, above 1"));
  EXPECT_THAT(fault(config("{\"input_ids\": [7, 8, 9], \"teacher_topk_ids\": [[], [1, 2], []], "
                           "\"teacher_topk_logps\": [[], [-1, -2], []]}")),
              HasSubstr("teacher_topk_ids[0] has 0 tokens, and others have 2"));
  EXPECT_THAT(fault(config("{\"input_ids\": [7, 8, 9], \"teacher_topk_ids\": [[1, 2], [], []], "
                           "\"teacher_topk_logps\": [[-1, -2], [], []]}")),
              HasSubstr("teacher_topk_ids[1] has 0 tokens, and others have 2"));
}

}  // namespace tidepool::token_labels_test
