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

// The config's model, trained on pairs, answers or rollouts. `reference`: directory, for objectives that need
// one.
inline Config preference(Config c, const TrainDir& dir, ObjectiveType type,
                         const std::string& reference = "") {
  c.objective.type = type;
  c.objective.reference = reference;
  if (objective(type).scores) c.model.score = {.labels = 1};
  const Documents documents = objective(type).documents;
  c.data.train = {documents == Documents::judged     ? judged_answers(dir)
                  : documents == Documents::rollouts ? rollouts(dir)
                                                     : preference_pairs(dir)};
  c.data.packing = true;
  c.data.units = unit_settings(c.objective, c.train.sequence_length);
  return c;
}

}  // namespace tidepool::test
