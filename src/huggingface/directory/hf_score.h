// Reads and writes the keys of config.json that make a model a classifier of sequences or tokens.
#pragma once

#include <boost/json/object.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// Dropout of a head that classifies tokens, where config.json does not say.
inline constexpr double token_classifier_dropout = 0.1;

// Sets `score` if config.json names a ForSequenceClassification or ForTokenClassification model.
// RETURNS: the fault of a classifier that does not choose one label of each text or token.
std::optional<ModelFault> read_score(const boost::json::object&, ScoreHead& score);

// REQUIRES: the model has a score head. Names a padding token if the config has none: without one,
// transformers refuses batches. It pools the last token that is no padding.
void write_score(const ModelConfig&, boost::json::object&);

}  // namespace tidepool
