// Runs on pairs of answers.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <string>

#include "objectives/objective.h"
#include "tests/support/train_fixture.h"

namespace tidepool::test {

// Pairs of many lengths, of which rows hold several; the chosen answers have other letters.
inline std::string preference_pairs(const TrainDir& dir) {
  const std::string path = dir / "pairs.jsonl";
  std::ofstream out(path);
  for (u32 i = 0; i < 300; ++i)
    out << fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"{}\", \"rejected\": \"{}\", \"margin\": {}}}\n",
                       std::string(1 + i % 3, "pqr"[i % 3]), std::string(1 + i * 7 % 6, "abc"[i % 3]),
                       std::string(1 + i * 5 % 7, "xyz"[i % 3]), i % 2);
  return path;
}

// Answers of which those with the letters of chosen ones are desirable.
inline std::string judged_answers(const TrainDir& dir) {
  const std::string path = dir / "answers.jsonl";
  std::ofstream out(path);
  for (u32 i = 0; i < 400; ++i)
    out << fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\", \"label\": {}}}\n",
                       std::string(1 + i % 3, "pqr"[i % 3]),
                       std::string(1 + i * 7 % 6, (i % 2 ? "abc" : "xyz")[i % 3]), i % 2 ? "true" : "false");
  return path;
}

// Groups of four completions, better ones with the same letters. Every other group says how probable they
// were.
inline std::string rollouts(const TrainDir& dir) {
  const std::string path = dir / "rollouts.jsonl";
  std::ofstream out(path);
  for (u32 i = 0; i < 120; ++i) {
    std::string completions, rewards, logprobs;
    for (u32 of = 0; of < 4; ++of) {
      const u32 length = 1 + (i * 5 + of * 3) % 6;
      const char* comma = of == 0 ? "" : ", ";
      completions += fmt::format("{}\"{}\"", comma, std::string(length, (of % 2 ? "abc" : "xyz")[i % 3]));
      rewards += fmt::format("{}{}", comma, of % 2 ? 1 : 0.25 * of);
      logprobs += fmt::format("{}[-5{}]", comma,
                              fmt::format("{}", fmt::join(std::vector<std::string>(length, ""), ", -5.5")));
    }
    out << fmt::format("{{\"prompt\": \"{}\", \"completions\": [{}], \"rewards\": [{}]",
                       std::string(1 + i % 3, "pqr"[i % 3]), completions, rewards);
    out << (i % 2 ? fmt::format(", \"logprobs\": [{}]}}\n", logprobs) : "}\n");
  }
  return path;
}

// Texts whose words have labels: by their letter, and none in every seventh.
inline std::string labelled_words(const TrainDir& dir) {
  const std::string path = dir / "words.jsonl";
  std::ofstream out(path);
  for (u32 i = 0; i < 400; ++i) {
    std::vector<std::string> words, labels;
    for (u32 word = 0; word < 1 + i * 5 % 7; ++word) {
      words.push_back(fmt::format("\"{}\"", std::string(1 + (i + word) % 3, "amz"[(i + word * word) % 3])));
      labels.push_back((i + word) % 7 == 0 ? "-100" : fmt::format("{}", (i + word * word) % 3));
    }
    out << fmt::format("{{\"tokens\": [{}], \"labels\": [{}]}}\n", fmt::join(words, ", "),
                       fmt::join(labels, ", "));
  }
  return path;
}

// Token ids, some as long as two rows, with what a teacher says behind them: one of three tokens.
inline std::string taught_tokens(const TrainDir& dir) {
  const std::string path = dir / "taught.jsonl";
  std::ofstream out(path);
  for (u32 i = 0; i < 120; ++i) {
    std::vector<u32> ids;
    std::vector<std::string> tokens, logps;
    for (u32 t = 0; t < 3 + i * 11 % 40; ++t) {
      ids.push_back((i * 7 + t * 3) % 50);
      const u32 likely = (ids.back() + 3) % 50;
      tokens.push_back(fmt::format("[{}, {}, {}]", likely, likely + 1, likely + 2));
      logps.push_back(i % 2 ? "[-0.1, -2.9, -4]" : "[-0.5, -1.6, -2.5]");
    }
    out << fmt::format("{{\"input_ids\": [{}], \"teacher_topk_ids\": [{}], \"teacher_topk_logps\": [{}]}}\n",
                       fmt::join(ids, ", "), fmt::join(tokens, ", "), fmt::join(logps, ", "));
  }
  return path;
}

// The config's model, trained on pairs, answers, rollouts, labels of tokens, or what a teacher says.
// `reference`: directory, for objectives that need one.
inline Config preference(Config c, const TrainDir& dir, ObjectiveType type,
                         const std::string& reference = "") {
  c.objective.type = type;
  const bool distills = type == ObjectiveType::distill;
  if (distills) c.objective.top_k = 3, c.objective.beta = 0.5;
  (distills ? c.objective.teacher : c.objective.reference) = reference;
  const Documents documents = objective(type).documents;
  if (objective(type).scores) c.model.score = {.labels = 1};
  if (documents == Documents::token_labels) {
    c.model.score = {.labels = 3, .names = {"no", "yes", "maybe"}, .of_tokens = true, .dropout = 0.1};
    c.data.labelled = c.model.score;
  }
  c.data.train = {documents == Documents::judged         ? judged_answers(dir)
                  : documents == Documents::rollouts     ? rollouts(dir)
                  : documents == Documents::token_labels ? labelled_words(dir)
                  : distills                             ? taught_tokens(dir)
                                                         : preference_pairs(dir)};
  c.data.packing = true;
  c.data.units = unit_settings(c.objective, c.model, c.train.sequence_length);
  return c;
}

}  // namespace tidepool::test
