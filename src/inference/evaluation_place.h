// find_evaluation_place() resolves the argument of `tidepool eval` to weights, and a config to run them with.
#pragma once

#include <string>

#include "config/config.h"
#include "inference/evaluate.h"

namespace tidepool {

struct EvaluationPlace {
  Config config;
  std::string weights;   // a checkpoint or a model directory
  std::string swap_dir;  // eval's own swap directory
  bool of_run = false;   // true: a run, which keeps copies of its tokenizer and template
};

// `reading`: as in retry_rotated(). Errors: as evaluate_model().
Result<EvaluationPlace> find_evaluation_place(const EvaluateRequest&, std::string& reading);

}  // namespace tidepool
