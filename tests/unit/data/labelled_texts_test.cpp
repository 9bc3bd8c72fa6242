// Texts with labels, as objective.type sequence_classification takes them.
#include <gmock/gmock.h>

#include <algorithm>

#include "data/batches/open_documents.h"
#include "tests/support/document_files.h"

namespace tidepool::labelled_texts_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DataLabelled : public test::DocumentsFixture {
 protected:
  DataConfig config(std::string_view lines) {
    return {.train = {write("a.jsonl", lines)},
            .validation_fraction = 0,
            .shuffle = false,
            .packing = false,
            .labelled = ScoreHead{.labels = 3, .names = {"no", "yes", "maybe"}}};
  }
};

TEST_F(DataLabelled, TheLastTokenOfATextHasItsLabel) {
  const auto data =
      opened(config("{\"text\": \"abc\", \"label\": 2}\n{\"text\": \"de\", \"label\": \"yes\"}\n"), 5);
  ASSERT_EQ(data->train_sequences(), 2u);
  const Row first = train_row(*data, 0), second = train_row(*data, 1);
  EXPECT_THAT(first.tokens, ElementsAre('a', 'b', 'c', 0, 0));
  EXPECT_THAT(first.targets, ElementsAre(ignored_target, ignored_target, 2, padding_target, padding_target));
  EXPECT_THAT(second.targets, ElementsAre(ignored_target, 1, padding_target, padding_target, padding_target));
  EXPECT_EQ(data->train_targets(0), 1u);
  EXPECT_EQ(data->train_tokens(0), 3u);
}

TEST_F(DataLabelled, ALongTextIsCutAtItsEndAndKeepsItsLabel) {
  const auto data = opened(config("{\"text\": \"abcdefgh\", \"label\": 2}\n"), 5);
  ASSERT_EQ(data->train_sequences(), 1u);
  const Row row = train_row(*data, 0);
  EXPECT_THAT(row.tokens, ElementsAre('a', 'b', 'c', 'd', 'e'));
  EXPECT_EQ(row.targets[4], 2);
  EXPECT_EQ(std::ranges::count_if(row.targets, has_loss), 1);
}

TEST_F(DataLabelled, TextsSideBySideKeepTheirLabels) {
  DataConfig packed = config("{\"text\": \"abc\", \"label\": 0}\n{\"text\": \"de\", \"label\": 1}\n");
  packed.packing = true;
  const auto data = opened(packed, 6);
  ASSERT_EQ(data->train_sequences(), 1u);
  const Row row = train_row(*data, 0);
  EXPECT_THAT(row.tokens, ElementsAre('a', 'b', 'c', 'd', 'e', 0));
  EXPECT_THAT(row.targets, ElementsAre(ignored_target, ignored_target, 0, ignored_target, 1, padding_target));
  EXPECT_THAT(row.starts, ElementsAre(0, 0, 0, 3, 3, 5));
}

TEST_F(DataLabelled, WrongLabelsAreNamed) {
  const auto of = [&](std::string_view line) { return fault(config(line)); };
  EXPECT_THAT(of("{\"text\": \"a\", \"label\": 3}"),
              AllOf(HasSubstr("a.jsonl:1: label 3 is not below objective.num_labels, 3")));
  EXPECT_THAT(of("{\"text\": \"a\", \"label\": \"never\"}"),
              HasSubstr("label 'never' is none of objective.labels: no, yes, maybe"));
  EXPECT_THAT(
      of("{\"text\": \"a\", \"label\": 0.5}"),
      HasSubstr("\"label\" must be the number of a label, 0, 1, ..., or its name; it is another number"));
  EXPECT_THAT(of("{\"text\": \"a\", \"label\": null}"), HasSubstr("it is null"));
  EXPECT_THAT(of("{\"text\": \"a\"}"), HasSubstr("there is no \"label\""));
  EXPECT_THAT(of("{\"label\": 1}"), HasSubstr("there is no \"text\""));
}

TEST_F(DataLabelled, OtherFilesAreRefused) {
  DataConfig text = config("");
  text.train = {write("b.txt", "some text\n")};
  const auto data = open(text);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().kind, ErrorKind::usage);
  EXPECT_THAT(data.error().message, HasSubstr("b.txt: holds no records; this objective takes"));
}

// Labels are part of what a cache holds.
TEST_F(DataLabelled, OtherLabelsAreOtherData) {
  const DataConfig one = config("{\"text\": \"abc\", \"label\": 1}\n{\"text\": \"de\", \"label\": 0}\n");
  DataConfig more = one, plain = one;
  more.labelled->labels = 4, more.labelled->names.clear();
  plain.labelled.reset();
  opened(one), opened(more), opened(plain), opened(one, 8), opened(one);
  EXPECT_EQ(caches(), 4u);
}

TEST_F(DataLabelled, AShownTextEndsWithItsLabel) {
  const DataConfig shown = config("{\"text\": \"abc\", \"label\": 2}\n");
  const auto sources = all_sources(shown, false);
  ASSERT_TRUE(sources);
  const auto made = first_documents(*sources, shown, 256, 16, "", 1);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->documents.size(), 1u);
  const ShownDocument& document = made->documents[0];
  EXPECT_EQ(document.learned, 1u);
  ASSERT_EQ(document.runs.size(), 2u);
  EXPECT_EQ(document.runs[0].text, "abc");
  EXPECT_EQ(document.runs[1].text, " [label 2: maybe]");
}

}  // namespace tidepool::labelled_texts_test
