// Runs on pairs of answers.
#pragma once

#include <fmt/format.h>

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

// The config's model, trained on pairs. `reference`: directory, for objectives that need one.
inline Config preference(Config c, const TrainDir& dir, ObjectiveType type,
                         const std::string& reference = "") {
  c.objective.type = type;
  c.objective.reference = reference;
  if (objective(type).scores) c.model.score = {.labels = 1};
  c.data.train = {preference_pairs(dir)};
  c.data.packing = true;
  c.data.documents = objective(type).documents;
  c.data.sequence_tokens_max = sequence_tokens_max(c.objective, c.train.sequence_length);
  return c;
}

}  // namespace tidepool::test
