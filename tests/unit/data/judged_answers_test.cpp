// Judged answers and rollouts, as KTO and GRPO take them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/batches/open_documents.h"
#include "data/batches/packing.h"
#include "data/batches/token_references.h"
#include "tests/support/document_files.h"

namespace tidepool::judged_answers_test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

constexpr i32 no = ignored_target, pad = padding_target;

class DataAnswers : public test::DocumentsFixture {
 protected:
  DataConfig config(std::string_view lines, const UnitSettings& units) {
    return {.train = {write("a.jsonl", lines)},
            .validation_fraction = 0,
            .shuffle = false,
            .packing = false,
            .units = units};
  }
  DataConfig judged(std::string_view lines, u32 sequences = 2, u32 tokens_max = 8) {
    return config(
        lines, {.documents = Documents::judged, .sequences = sequences, .sequence_tokens_max = tokens_max});
  }
  DataConfig rollouts(std::string_view lines, AdvantageRule advantages = {.scaled = true},
                      u32 tokens_max = 8) {
    return config(lines, {.documents = Documents::rollouts,
                          .numbers = 1,
                          .sequences = 1,
                          .sequence_tokens_max = tokens_max,
                          .count_tokens = true,
                          .advantages = advantages});
  }
  struct UnitRow : Row {
    explicit UnitRow(u32 length)
        : Row(length),
          holes(length),
          sequences(length),
          values(length),
          references(length),
          old_logps(length) {}
    BatchArrays arrays() {
      return {.tokens = tokens,
              .targets = targets,
              .starts = starts,
              .holes = holes,
              .sequences = sequences,
              .values = values,
              .references = {},
              .old_logps = samples ? std::span<float>(old_logps) : std::span<float>()};
    }
    bool samples = false;
    std::vector<KeyHole> holes;
    std::vector<i32> sequences;
    std::vector<float> values, references, old_logps;
  };
  std::vector<UnitRow> rows_of(const DataConfig& config, u32 length) {
    const auto data = opened(config, length);
    std::vector<UnitRow> out(data->train_sequences(), UnitRow(length));
    for (u64 i = 0; i < out.size(); ++i) {
      out[i].samples = config.units.documents == Documents::rollouts;
      EXPECT_TRUE(data->train_sequence(i, out[i].arrays()));
      EXPECT_EQ(data->train_targets(i), out[i].arrays().counted_targets(config.units.count_tokens));
    }
    return out;
  }
};

const std::string three_answers =
    "{\"prompt\": \"p\", \"completion\": \"ab\", \"label\": true}\n"
    "{\"prompt\": \"qq\", \"completion\": \"c\", \"label\": false}\n"
    "{\"prompt\": \"r\", \"completion\": \"def\", \"label\": 1}\n";

// The first prompt takes the second record's answer, each other one that of the record before it.
TEST_F(DataAnswers, StandBeforeAnAnswerToAnotherPrompt) {
  const auto rows = rows_of(judged(three_answers), 8);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[0].tokens, ElementsAre('p', 'a', 'p', 0, 0, 0, 0, 0));
  EXPECT_THAT(rows[0].targets, ElementsAre('a', 'b', 'c', pad, pad, pad, pad, pad));
  EXPECT_THAT(rows[0].sequences, ElementsAre(2, 0, -1, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows[1].targets, ElementsAre(no, 'c', no, 'a', 'b', pad, pad, pad));
  EXPECT_THAT(rows[2].targets, ElementsAre('d', 'e', 'f', 'c', pad, pad, pad, pad));
  EXPECT_EQ(rows[0].values[0], 1);
  EXPECT_EQ(rows[1].values[0], -1);
  EXPECT_EQ(rows[2].values[0], 1);
}

TEST_F(DataAnswers, StandAloneIfNoOtherIsNeeded) {
  const auto rows = rows_of(judged(three_answers, 1), 8);
  EXPECT_THAT(rows[0].sequences, ElementsAre(2, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows[1].targets, ElementsAre(no, 'c', pad, pad, pad, pad, pad, pad));
}

TEST_F(DataAnswers, MayBeMessages) {
  const auto line = [](std::string_view prompt, std::string_view answer) {
    return fmt::format(
        "{{\"prompt\": [{{\"role\": \"user\", \"content\": \"{}\"}}], \"completion\": "
        "[{{\"role\": \"assistant\", \"content\": \"{}\"}}], \"label\": true}}\n",
        prompt, answer);
  };
  DataConfig messages = judged(line("q", "abc") + line("r", "xyz"), 2, 100);
  messages.chat_template = "chatml";
  const auto rows = rows_of(messages, 200);
  std::string learned;
  for (const i32 target : rows[0].targets)
    if (has_loss(target)) learned += static_cast<char>(target);
  EXPECT_THAT(learned, testing::StartsWith("abc<|im_end|>"));
  EXPECT_THAT(learned, HasSubstr("xyz<|im_end|>"));
}

TEST_F(DataAnswers, BadOnesAreNamed) {
  const auto of = [&](std::string_view line) { return fault(judged(line, 2, 4)); };
  EXPECT_THAT(of("{\"prompt\": \"p\", \"completion\": \"a\"}"),
              HasSubstr("a.jsonl:1: this is not a judged record: there is no \"label\""));
  EXPECT_THAT(
      of("{\"prompt\": \"p\", \"completion\": \"a\", \"label\": \"good\"}"),
      HasSubstr("\"label\" must be true, a desirable answer, or false, an undesirable one; it is text"));
  EXPECT_THAT(of("{\"prompt\": \"p\", \"completion\": \"a\", \"label\": 2}"),
              HasSubstr("it is another number"));
  EXPECT_THAT(of("{\"prompt\": \"p\", \"completion\": \"\", \"label\": true}"),
              HasSubstr("the completion is empty"));
  EXPECT_THAT(of("{\"prompt\": \"pqrst\", \"completion\": \"a\", \"label\": true}"),
              AllOf(HasSubstr("no token of the completion is left"), HasSubstr("have 6 tokens, and 4 fit")));
}

// Good and bad answers to one prompt stand side by side in many files.
TEST_F(DataAnswers, ToTheSamePromptAreNoOthers) {
  const auto line = [](char prompt, char answer) {
    return fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\", \"label\": true}}\n", prompt, answer);
  };
  const auto rows = rows_of(judged(line('p', 'a') + line('p', 'b') + line('q', 'c') + line('q', 'd') +
                                   line('q', 'e') + line('p', 'f')),
                            4);
  std::string others;
  for (const UnitRow& row : rows) others += static_cast<char>(row.targets[1]);
  EXPECT_EQ(others, "ccbbbe");
  EXPECT_THAT(fault(judged(line('p', 'a') + line('p', 'b'))),
              HasSubstr("no other record has another prompt"));
}

// A record that cannot be read lends no answer.
TEST_F(DataAnswers, ABadNeighbourDoesNoHarm) {
  DataConfig skips = judged("not JSON\n" + three_answers);
  skips.on_bad_record = "skip";
  const auto rows = rows_of(skips, 8);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[0].targets, ElementsAre('a', 'b', 'c', pad, pad, pad, pad, pad));
}

// However few there are, and however long: a label would be lost.
TEST_F(DataAnswers, AreNeverCutToBeHeldOut) {
  DataConfig few =
      judged(three_answers + "{\"prompt\": \"p\", \"completion\": \"abcdefgh\", \"label\": true}\n", 2, 9);
  few.validation_fraction = 0.1;
  const auto data = opened(few, 11);
  EXPECT_EQ(data->train_sequences() + data->validation_sequences(), 4u);
  UnitRow row(11);
  for (u64 i = 0; i < data->train_sequences(); ++i) {
    ASSERT_TRUE(data->train_sequence(i, row.arrays()));
    EXPECT_NE(row.values[0], 0);
  }
}

const std::string two_completions =
    "{\"prompt\": \"pq\", \"completions\": [\"ab\", \"c\"], \"rewards\": [1, 0], \"logprobs\": [[-1, -2], "
    "[-3]]}\n";

TEST_F(DataAnswers, RolloutsHaveAdvantagesAndLogProbabilities) {
  const auto rows = rows_of(rollouts(two_completions), 6);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].tokens, ElementsAre('p', 'q', 'a', 0, 0, 0));
  EXPECT_THAT(rows[0].targets, ElementsAre(no, 'a', 'b', pad, pad, pad));
  EXPECT_THAT(rows[0].sequences, ElementsAre(3, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows[0].old_logps, ElementsAre(0, -1, -2, 0, 0, 0));
  EXPECT_THAT(rows[1].old_logps, ElementsAre(0, -3, 0, 0, 0, 0));
  EXPECT_NEAR(rows[0].values[0], 0.5 / (std::sqrt(0.5) + 1e-4), 1e-6);
  EXPECT_NEAR(rows[1].values[0], -0.5 / (std::sqrt(0.5) + 1e-4), 1e-6);
}

TEST_F(DataAnswers, RolloutsOfAGroupMayShareTheirPrompt) {
  DataConfig shares = rollouts(two_completions);
  shares.packing = shares.units.shares = true;
  const auto rows = rows_of(shares, 6);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0].tokens, ElementsAre('p', 'q', 'a', 'q', 0, 0));
  EXPECT_THAT(rows[0].targets, ElementsAre(no, 'a', 'b', 'c', pad, pad));
  EXPECT_THAT(rows[0].starts, ElementsAre(0, 0, 0, 0, 4, 5));
  EXPECT_THAT(rows[0].sequences, ElementsAre(3, 0, 0, 1, 0, 0));
  EXPECT_EQ(rows[0].holes[3], (KeyHole{1, 3}));
  EXPECT_THAT(rows[0].old_logps, ElementsAre(0, -1, -2, -3, 0, 0));
  EXPECT_LT(rows[0].values[3], 0);
  // If no room is left, the prompt stands again.
  EXPECT_EQ(rows_of(shares, 3).size(), 2u);
}

// The last tokens of a prompt may depend on the completion: a rollout may share more with the one before it
// than both share with the first.
TEST_F(DataAnswers, ARolloutSharesNoMoreThanThoseBeforeIt) {
  const std::string directory = dir_ / "chain";
  const auto writer = TokenCacheWriter::create(directory, "chain", {.values = true, .shared = true}).value();
  const auto put = [&](std::vector<u32> tokens, SharedPrompt shared) {
    tokens.back() |= learned_bit;
    ASSERT_TRUE(writer->append(tokens));
    ASSERT_TRUE(writer->end_document(1, shared));
  };
  put({1, 2, 3, 4, 5}, {});
  put({1, 2, 9, 8, 6}, {2, true});
  put({1, 2, 9, 8, 7}, {4, true});
  ASSERT_TRUE(writer->finish());
  const auto cache = TokenCache::open(directory, "chain").value();
  const auto rows = PackedRows::pack(*cache, 3, [&](u64 i) { return cache->document(i); },
                                     {.row_places = 12, .sequences = 1, .shares = true})
                        .value();
  UnitRow row(12);
  ASSERT_TRUE(rows.read(0, 256, row.arrays()));
  EXPECT_THAT(row.tokens, ElementsAre(1, 2, 3, 4, 2, 9, 8, 2, 9, 8, 0, 0));
  EXPECT_EQ(row.holes[5], (KeyHole{1, 4}));
  EXPECT_EQ(row.holes[8], (KeyHole{1, 7}));
}

TEST_F(DataAnswers, GroupsOfRolloutsAreHeldOutWhole) {
  std::string lines;
  for (const char prompt : std::string_view("abcdefgh"))
    lines += fmt::format(
        "{{\"prompt\": \"{}\", \"completions\": [\"x\", \"y\", \"z\"], \"rewards\": [1, 0, 2], "
        "\"logprobs\": [[-1], [-1], [-1]]}}\n",
        prompt);
  DataConfig c = rollouts(lines);
  c.shuffle = true;
  c.validation_fraction = 0.25;
  const auto data = opened(c, 2);
  ASSERT_EQ(data->validation_sequences(), 6u);
  std::string prompts;
  for (u64 i = 0; i < 6; ++i) {
    UnitRow row(2);
    ASSERT_TRUE(data->validation_sequence(i, row.arrays()));
    prompts += static_cast<char>(row.tokens[0]);
  }
  EXPECT_EQ(prompts[0], prompts[2]);
  EXPECT_EQ(prompts[3], prompts[5]);
  EXPECT_NE(prompts[0], prompts[3]);
}

TEST_F(DataAnswers, AdvantagesFollowTheirRule) {
  const std::string three =
      "{\"prompt\": \"p\", \"completions\": [\"a\", \"b\", \"c\"], \"rewards\": [3, 0, 0], \"logprobs\": "
      "[[-1], [-1], "
      "[-1]]}\n";
  const auto plain = rows_of(rollouts(three, {}), 4),
             others = rows_of(rollouts(three, {.leave_one_out = true}), 4);
  EXPECT_EQ(plain[0].values[0], 2);
  EXPECT_EQ(plain[1].values[0], -1);
  EXPECT_EQ(others[0].values[0], 3);
  EXPECT_EQ(others[1].values[0], -1.5);
  const auto given = rows_of(rollouts("{\"prompt\": \"p\", \"completions\": [\"a\"], \"advantages\": [0.75], "
                                      "\"logprobs\": [[-1]]}\n"),
                             4);
  EXPECT_EQ(given[0].values[0], 0.75f);
}

TEST_F(DataAnswers, RolloutsMayBeTokenIds) {
  const auto rows =
      rows_of(rollouts("{\"prompt_ids\": [7, 8], \"completion_ids\": [[9], [10, 11]], \"rewards\": [1, 2], "
                       "\"logprobs\": [[-1], [-2, -3]]}\n"),
              6);
  EXPECT_THAT(rows[1].tokens, ElementsAre(7, 8, 10, 0, 0, 0));
  EXPECT_THAT(rows[1].targets, ElementsAre(no, 10, 11, pad, pad, pad));
  EXPECT_THAT(rows[1].old_logps, ElementsAre(0, -2, -3, 0, 0, 0));
}

// Those that the data does not say are the reference model's.
TEST_F(DataAnswers, UnknownLogProbabilitiesAreMade) {
  const auto data =
      opened(rollouts("{\"prompt\": \"pq\", \"completions\": [\"ab\", \"c\"], \"rewards\": [1, 0]}\n" +
                      two_completions),
             6);
  TokenCache& cache = *data->caches()[0];
  EXPECT_EQ(cache.counts().unknown_logps, 3u);
  const std::string path = TokenReferences::path(cache.directory(), "0123456789abcdef");
  const u64 tokens = cache.counts().tokens;
  const auto writer = TokenReferencesWriter::create(path, "0123456789abcdef", tokens).value();
  std::vector<float> numbers(tokens);
  for (u64 i = 0; i < tokens; ++i) numbers[i] = -10 - static_cast<float>(i);
  ASSERT_TRUE(writer->keep(0) && writer->append(numbers) && writer->finish());
  cache.attach(TokenReferences::open(path, "0123456789abcdef", tokens).value());
  std::vector<UnitRow> rows(4, UnitRow(6));
  for (u64 i = 0; i < 4; ++i) {
    rows[i].samples = true;
    ASSERT_TRUE(data->train_sequence(i, rows[i].arrays()));
  }
  EXPECT_THAT(rows[0].old_logps, ElementsAre(0, -12, -13, 0, 0, 0));
  EXPECT_THAT(rows[1].old_logps, ElementsAre(0, -16, 0, 0, 0, 0));
  EXPECT_THAT(rows[2].old_logps, ElementsAre(0, -1, -2, 0, 0, 0));
}

TEST_F(DataAnswers, BadRolloutsAreNamed) {
  const auto of = [&](std::string_view rest) {
    return fault(rollouts("{\"prompt\": \"p\", " + std::string(rest) + "}"));
  };
  EXPECT_THAT(of("\"rewards\": [1, 2]"), HasSubstr("a.jsonl:1: there are no \"completions\""));
  EXPECT_THAT(of("\"completions\": [\"a\", \"b\"]"), HasSubstr("there are no \"rewards\""));
  EXPECT_THAT(of("\"completions\": [\"a\", \"b\"], \"rewards\": [1]"),
              HasSubstr("there are 1 reward for 2 completions"));
  EXPECT_THAT(of("\"completions\": [\"a\", \"b\"], \"rewards\": [1, \"much\"]"),
              HasSubstr("rewards[1] must be a number up to 1e+06, not text"));
  EXPECT_THAT(of("\"completions\": [\"a\", \"b\"], \"rewards\": [1, NaN]"), HasSubstr("a.jsonl:1"));
  EXPECT_THAT(of("\"completions\": [\"a\"], \"rewards\": [1]"), HasSubstr("nothing to be compared with"));
  EXPECT_THAT(of("\"completions\": [\"ab\", \"c\"], \"rewards\": [1, 0], \"logprobs\": [[-1], [-1]]"),
              HasSubstr("logprobs[0] has 1 number, but the completion has 2 tokens"));
  EXPECT_THAT(of("\"completions\": [\"a\", \"c\"], \"rewards\": [1, 0], \"logprobs\": [[0.5], [-1]]"),
              HasSubstr("is 0.5, and a logarithm of a probability is not above 0"));
  EXPECT_THAT(of("\"completions\": [\"a\", \"c\"], \"rewards\": [1, 0], \"logprobs\": [[-1], [-1000]]"),
              HasSubstr("is -1000, and no sampler takes a token"));
  EXPECT_THAT(of("\"completions\": [\"a\", \"c\"], \"rewards\": [1, 0], \"completion_mask\": [[1], [0]]"),
              HasSubstr("\"completion_mask\" (as in TRL) says which tokens were sampled"));
  EXPECT_THAT(of("\"completions\": [\"abcdefghi\", \"c\"], \"rewards\": [1, 0]"),
              HasSubstr("prompt and completions[0] have 10 tokens, and 8 fit; rollouts are not cut"));
  EXPECT_THAT(of("\"completion_ids\": [[1], [2]], \"rewards\": [1, 0]"), HasSubstr("no \"prompt_ids\""));
}

TEST_F(DataAnswers, AShownRolloutHasItsAdvantage) {
  const DataConfig shown = rollouts(two_completions, {});
  const auto made = first_documents(all_sources(shown, false).value(), shown, 256, 16, "", 1);
  ASSERT_TRUE(made) << made.error().message;
  std::string text;
  for (const auto& document : made->documents)
    for (const auto& run : document.runs) text += (run.learned ? "+" : "") + run.text;
  EXPECT_EQ(text, "[advantage 0.5] pq+ab[advantage -0.5] pq+c");
}

}  // namespace tidepool::judged_answers_test
