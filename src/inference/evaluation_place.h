// What `tidepool eval` was pointed at: weights, and a config to run them with.
#pragma once

#include <string>

#include "config/config.h"
#include "inference/evaluate.h"

namespace tidepool {

struct EvaluationPlace {
  Config config;
  std::string weights;   // a checkpoint or a model directory
  std::string swap_dir;  // of its own
  bool of_run = false;   // which keeps a tokenizer and a template that may be gone
};

// `reading`: as in retry_rotated(). Errors as of evaluate_model.
Result<EvaluationPlace> find_evaluation_place(const EvaluateRequest&, std::string& reading);

}  // namespace tidepool
