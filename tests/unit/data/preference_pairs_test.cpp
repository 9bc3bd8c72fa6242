// Pairs of answers, as objectives of preferences and rewards take them.
#include <gmock/gmock.h>

#include "data/batches/open_documents.h"
#include "data/batches/token_references.h"
#include "tests/support/document_files.h"

namespace tidepool::preference_pairs_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr i32 no = ignored_target, pad = padding_target;

class DataPairs : public test::DocumentsFixture {
 protected:
  DataConfig config(std::string_view lines, Documents documents = Documents::pairs, u32 tokens_max = 8) {
    return {.train = {write("a.jsonl", lines)},
            .validation_fraction = 0,
            .shuffle = false,
            .packing = false,
            .units = {.documents = documents, .sequences = 2, .sequence_tokens_max = tokens_max}};
  }
  struct PairRow : Row {
    explicit PairRow(u32 length) : Row(length), holes(length), sequences(length), values(length) {}
    BatchArrays arrays() {
      return {.tokens = tokens,
              .targets = targets,
              .starts = starts,
              .holes = holes,
              .sequences = sequences,
              .values = values};
    }
    std::vector<KeyHole> holes;
    std::vector<i32> sequences;
    std::vector<float> values;
  };
  PairRow row_of(const DataConfig& config, u32 length = 10) {
    const auto data = opened(config, length);
    PairRow row(length);
    EXPECT_TRUE(data->train_sequence(0, row.arrays()));
    EXPECT_EQ(data->train_targets(0), row.arrays().counted_targets());
    return row;
  }
};

const std::string one_pair = "{\"prompt\": \"pq\", \"chosen\": \"ab\", \"rejected\": \"xyz\"}\n";

TEST_F(DataPairs, CompletionsAreLearnedSideBySide) {
  const PairRow row = row_of(config(one_pair));
  EXPECT_THAT(row.tokens, ElementsAre('p', 'q', 'a', 'p', 'q', 'x', 'y', 0, 0, 0));
  EXPECT_THAT(row.targets, ElementsAre(no, 'a', 'b', no, 'x', 'y', 'z', pad, pad, pad));
  EXPECT_THAT(row.starts, ElementsAre(0, 0, 0, 3, 3, 3, 3, 7, 8, 9));
  EXPECT_THAT(row.sequences, ElementsAre(3, 0, 0, -4, 0, 0, 0, 0, 0, 0));
}

// Its last token stands before each answer, because it predicts both.
TEST_F(DataPairs, APromptMayStandOnceForBothAnswers) {
  DataConfig shares = config(one_pair);
  shares.units.shares = true;
  const PairRow row = row_of(shares);
  EXPECT_THAT(row.tokens, ElementsAre('p', 'q', 'a', 'q', 'x', 'y', 0, 0, 0, 0));
  EXPECT_THAT(row.targets, ElementsAre(no, 'a', 'b', 'x', 'y', 'z', pad, pad, pad, pad));
  EXPECT_THAT(row.starts, ElementsAre(0, 0, 0, 0, 0, 0, 6, 7, 8, 9));
  EXPECT_THAT(row.sequences, ElementsAre(3, 0, 0, -3, 0, 0, 0, 0, 0, 0));
  const KeyHole none, first = {1, 3};
  EXPECT_THAT(row.holes, ElementsAre(none, none, none, first, first, first, none, none, none, none));
  // Answers that begin alike share no more than the prompt.
  shares.train = {write("b.jsonl", "{\"prompt\": \"pq\", \"chosen\": \"ab\", \"rejected\": \"ac\"}\n")};
  EXPECT_THAT(row_of(shares).tokens, ElementsAre('p', 'q', 'a', 'q', 'a', 0, 0, 0, 0, 0));
  // Nothing is saved of a prompt of one token.
  shares.train = {write("c.jsonl", "{\"prompt\": \"p\", \"chosen\": \"a\", \"rejected\": \"b\"}\n")};
  EXPECT_THAT(row_of(shares).starts, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  // A reward model's scores stand behind the answers, which may begin alike.
  DataConfig scored = config("{\"chosen\": \"xab\", \"rejected\": \"xac\"}\n", Documents::scored_pairs, 5);
  scored.units.shares = true;
  const PairRow scores = row_of(scored);
  EXPECT_THAT(scores.tokens, ElementsAre('x', 'a', 'b', 'a', 'c', 0, 0, 0, 0, 0));
  EXPECT_THAT(scores.targets, ElementsAre(no, no, 0, no, 0, pad, pad, pad, pad, pad));
}

TEST_F(DataPairs, RowsHoldMorePairsThatShare) {
  DataConfig packed = config(one_pair + one_pair + one_pair);
  packed.packing = packed.units.shares = true;
  const auto data = opened(packed, 12);
  EXPECT_EQ(data->train_sequences(), 2u);
  PairRow row(12);
  ASSERT_TRUE(data->train_sequence(0, row.arrays()));
  EXPECT_THAT(row.sequences, ElementsAre(3, 0, 0, -3, 0, 0, 3, 0, 0, -3, 0, 0));
  EXPECT_THAT(row.starts, ElementsAre(0, 0, 0, 0, 0, 0, 6, 6, 6, 6, 6, 6));
  EXPECT_EQ(row.holes[9], (KeyHole{7, 9}));
}

TEST_F(DataPairs, ChosenPromptsMayBeLearnedToo) {
  const PairRow row = row_of(config(one_pair, Documents::prompted_pairs));
  EXPECT_THAT(row.targets, ElementsAre('q', 'a', 'b', no, 'x', 'y', 'z', pad, pad, pad));
  EXPECT_EQ(row.values[0], 1);  // places of the prompt
}

TEST_F(DataPairs, TheLastTokenOfEachSequenceIsScored) {
  const std::string line = "{\"chosen\": \"ab\", \"rejected\": \"xyz\", \"margin\": 1.5}\n";
  const PairRow row = row_of(config(line, Documents::scored_pairs, 5));
  EXPECT_THAT(row.tokens, ElementsAre('a', 'b', 'x', 'y', 'z', 0, 0, 0, 0, 0));
  EXPECT_THAT(row.targets, ElementsAre(no, 0, no, no, 0, pad, pad, pad, pad, pad));
  EXPECT_THAT(row.sequences, ElementsAre(2, 0, -3, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(row.values[0], 1.5f);
}

TEST_F(DataPairs, PairsShareARowWhole) {
  DataConfig packed = config(one_pair + one_pair + one_pair);
  packed.packing = true;
  const auto data = opened(packed, 15);
  ASSERT_EQ(data->train_sequences(), 2u);
  EXPECT_EQ(data->train_targets(0), 2u);
  PairRow row(15);
  ASSERT_TRUE(data->train_sequence(0, row.arrays()));
  EXPECT_THAT(row.sequences, ElementsAre(3, 0, 0, -4, 0, 0, 0, 3, 0, 0, -4, 0, 0, 0, 0));
}

TEST_F(DataPairs, APromptMayStandInBothAnswers) {
  const PairRow apart = row_of(config(one_pair)),
                joined = row_of(config("{\"chosen\": \"pqab\", \"rejected\": \"pqxyz\"}\n"));
  EXPECT_EQ(apart.tokens, joined.tokens);
  EXPECT_EQ(apart.targets, joined.targets);
  // A space before the answers is theirs, as in TRL.
  const PairRow spaced = row_of(config("{\"chosen\": \"p a\", \"rejected\": \"p x\"}\n"));
  EXPECT_THAT(spaced.targets, ElementsAre(' ', 'a', ' ', 'x', pad, pad, pad, pad, pad, pad));
}

TEST_F(DataPairs, MessagesGoThroughTheTemplate) {
  const std::string ask = R"([{"role": "user", "content": "q"}])";
  const auto answer = [](std::string text) { return R"({"role": "assistant", "content": ")" + text + "\"}"; };
  DataConfig apart = config(
      "{\"prompt\": " + ask + ", \"chosen\": [" + answer("a") + "], \"rejected\": [" + answer("xy") + "]}\n",
      Documents::pairs, 100);
  apart.chat_template = "chatml";
  const std::string asked = ask.substr(0, ask.size() - 1);
  DataConfig joined = apart;
  joined.train = {write("b.jsonl", "{\"chosen\": " + asked + ", " + answer("a") +
                                       "], \"rejected\": " + asked + ", " + answer("xy") + "]}\n")};
  const PairRow one = row_of(apart, 200), two = row_of(joined, 200);
  EXPECT_EQ(one.tokens, two.tokens);
  EXPECT_EQ(one.targets, two.targets);
  std::string learned;
  for (const i32 target : one.targets)
    if (has_loss(target)) learned += static_cast<char>(target);
  EXPECT_THAT(learned, HasSubstr("a<|im_end|>"));
  EXPECT_THAT(learned, HasSubstr("xy<|im_end|>"));
  EXPECT_THAT(learned, testing::Not(HasSubstr("user")));
}

TEST_F(DataPairs, ALongCompletionLosesItsEnd) {
  const PairRow row = row_of(
      config("{\"prompt\": \"p\", \"chosen\": \"abcdefgh\", \"rejected\": \"x\"}\n", Documents::pairs, 4));
  EXPECT_THAT(row.targets, ElementsAre('a', 'b', 'c', 'x', pad, pad, pad, pad, pad, pad));
}

TEST_F(DataPairs, BadPairsAreNamed) {
  const auto of = [&](std::string_view line, Documents documents = Documents::pairs) {
    return fault(config(line, documents, 5));
  };
  EXPECT_THAT(of("{\"chosen\": \"a\"}"),
              HasSubstr("a.jsonl:1: this is not a preference record: there is no \"rejected\""));
  EXPECT_THAT(of("{\"rejected\": \"a\"}"), HasSubstr("there is no \"chosen\""));
  EXPECT_THAT(of("{\"prompt\": \"p\", \"chosen\": \"a\", \"rejected\": \"a\"}"), HasSubstr("are the same"));
  EXPECT_THAT(of("{\"prompt\": \"p\", \"chosen\": \"\", \"rejected\": \"a\"}"),
              HasSubstr("the chosen answer is empty"));
  EXPECT_THAT(of("{\"chosen\": \"ab\", \"rejected\": \"a\"}"), HasSubstr("the rejected answer is empty"));
  EXPECT_THAT(
      of("{\"prompt\": \"pqrstu\", \"chosen\": \"a\", \"rejected\": \"x\"}"),
      AllOf(HasSubstr("no token of the chosen answer is left"), HasSubstr("have 7 tokens, and 5 fit")));
  EXPECT_THAT(of("{\"prompt\": \"pqrs\", \"chosen\": \"ab\", \"rejected\": \"ac\"}"),
              HasSubstr("the same as far as they fit"));
  EXPECT_THAT(
      of("{\"chosen\": \"abcdef\", \"rejected\": \"x\"}", Documents::scored_pairs),
      HasSubstr("prompt and chosen answer have 6 tokens, and a score is that of the last one, but 5 fit"));
  EXPECT_THAT(of("{\"chosen\": \"a\", \"rejected\": \"x\", \"margin\": \"much\"}"),
              HasSubstr("\"margin\" must be a number up to 1e+06, not text"));
  EXPECT_THAT(of("{\"chosen\": [], \"rejected\": [{\"role\": \"user\", \"content\": \"a\"}]}"),
              HasSubstr("\"chosen\" is empty"));
}

TEST_F(DataPairs, BadPairsMayBeLeftOut) {
  DataConfig skips = config("{\"chosen\": \"a\", \"rejected\": \"a\"}\n" + one_pair);
  skips.on_bad_record = "skip";
  const auto data = opened(skips);
  EXPECT_EQ(data->train_sequences(), 1u);
  EXPECT_THAT(data->notes(), testing::Contains(HasSubstr("1 bad record is left out")));
}

TEST_F(DataPairs, AShownPairNamesItsSequences) {
  const DataConfig shown = config(one_pair);
  const auto made = first_documents(all_sources(shown, false).value(), shown, 256, 16, "", 1);
  ASSERT_TRUE(made) << made.error().message;
  std::string text;
  for (const auto& run : made->documents[0].runs) text += (run.learned ? "+" : "") + run.text;
  EXPECT_EQ(text, "[chosen] pq+ab\n[rejected] pq+xyz");
}

// ---- log-probabilities of a reference model

class DataReferences : public testing::Test {
 protected:
  test::ScratchDir dir_;
  const std::string key = "0123456789abcdef", path = TokenReferences::path(dir_ / ".", key);
  std::vector<float> numbers(u64 count) const {
    std::vector<float> out(count);
    for (u64 i = 0; i < count; ++i) out[i] = -0.25f * static_cast<float>(i);
    return out;
  }
  std::vector<float> all(u64 tokens) {
    const auto file = TokenReferences::open(path, key, tokens);
    std::vector<float> out(tokens);
    if (!file || !*file || !(*file)->read(0, out)) return {};
    return out;
  }
};

TEST_F(DataReferences, AreContinuedBehindTheLastWholeBlock) {
  constexpr u64 tokens = 5000;
  const std::vector<float> given = numbers(tokens);
  {
    const auto writer = TokenReferencesWriter::create(path, key, tokens).value();
    EXPECT_EQ(writer->tokens(), 0u);
    ASSERT_TRUE(writer->keep(0));
    ASSERT_TRUE(writer->append(std::span(given).first(3000)));
  }
  const auto writer = TokenReferencesWriter::create(path, key, tokens).value();
  EXPECT_EQ(writer->tokens(), (2 * 4088 - 64) / 4u);
  ASSERT_TRUE(writer->keep(1500));
  ASSERT_TRUE(writer->append(std::span(given).subspan(1500)));
  EXPECT_EQ(TokenReferences::open(path, key, tokens).value(), nullptr);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(all(tokens), given);
  EXPECT_EQ(TokenReferencesWriter::create(path, key, tokens).value(), nullptr);  // it is there
}

// A stop between the last block and the rename: the padding of that block holds no tokens.
TEST_F(DataReferences, AWholeUnfinishedFileIsFinished) {
  constexpr u64 tokens = 1500;
  {
    const auto writer = TokenReferencesWriter::create(path, key, tokens).value();
    ASSERT_TRUE(writer->keep(0) && writer->append(numbers(tokens)) && writer->finish());
  }
  std::filesystem::rename(path, path + ".unfinished");
  const auto writer = TokenReferencesWriter::create(path, key, tokens).value();
  EXPECT_EQ(writer->tokens(), tokens);
  ASSERT_TRUE(writer->keep(tokens) && writer->finish());
  EXPECT_EQ(all(tokens), numbers(tokens));
}

TEST_F(DataReferences, OfAnotherKeyAreNotContinued) {
  {
    const auto writer = TokenReferencesWriter::create(path, "another", 3000).value();
    ASSERT_TRUE(writer->keep(0));
    ASSERT_TRUE(writer->append(numbers(3000)));
  }
  const auto writer = TokenReferencesWriter::create(path, key, 10).value();
  EXPECT_EQ(writer->tokens(), 0u);
  ASSERT_TRUE(writer->keep(0));
  ASSERT_TRUE(writer->append(numbers(10)));
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(all(10), numbers(10));
  const auto other = TokenReferences::open(path, "another", 10);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("was made for another model or other data; remove it"));
}

TEST_F(DataReferences, DamageIsNamedWhereverItIs) {
  constexpr u64 tokens = 3000;
  const auto writer = TokenReferencesWriter::create(path, key, tokens).value();
  ASSERT_TRUE(writer->keep(0));
  ASSERT_TRUE(writer->append(numbers(tokens)));
  ASSERT_TRUE(writer->finish());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const u64 bytes = std::filesystem::file_size(path);
  for (u64 i = 0; i < 200; ++i) {
    const auto at = static_cast<std::streamoff>(i * bytes / 200);
    const auto flip = [&] {
      file.seekg(at);
      const int byte = file.get();
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 0x10));
      file.flush();
    };
    flip();
    EXPECT_THAT(all(tokens), testing::IsEmpty()) << at;
    flip();
  }
  EXPECT_EQ(all(tokens), numbers(tokens));
}

}  // namespace tidepool::preference_pairs_test
