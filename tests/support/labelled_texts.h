// Runs on texts with labels.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "tests/support/train_fixture.h"

namespace tidepool::test {

// Texts of many lengths, of which rows hold several; their letter tells the label.
inline std::string labelled_texts(const TrainDir& dir) {
  const std::string path = dir / "texts.jsonl";
  std::ofstream out(path);
  for (u32 i = 0; i < 400; ++i)
    out << fmt::format("{{\"text\": \"{}\", \"label\": {}}}\n", std::string(1 + i * 7 % 40, "amz"[i % 3]),
                       i % 3);
  return path;
}

// The config's model as a classifier with three labels.
inline Config classifier(Config c, const TrainDir& dir) {
  c.objective.type = ObjectiveType::sequence_classification;
  c.model.score = {.labels = 3, .names = {"no", "yes", "maybe"}};
  c.data.labelled = c.model.score;
  c.data.train = {labelled_texts(dir)};
  c.data.packing = true;
  return c;
}

}  // namespace tidepool::test
