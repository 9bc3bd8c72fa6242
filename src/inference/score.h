// score_documents() tells how probable a model finds each document of JSONL files, what it would have said in
// its place, or what score a reward model gives it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct ScoreRequest {
  std::string source;                  // as EvaluateRequest::source
  std::vector<std::string> overrides;  // of the run's config
  std::vector<std::string> data;       // JSONL files, not empty
  bool by_token = false;               // each token's log-probability too
  u32 top_k = 0;                       // the most probable tokens in the place of each; 0: none
  double temperature = 1;              // with top_k: divides logits
  bool quiet = false;
  std::function<void(const std::string&)> note = [](const std::string&) {};  // lines for people
  std::function<void(u64 done, u64 tokens)> progress = [](u64, u64) {};
  // Takes the lines of the files in their order, each with its new keys, without a newline.
  std::function<Result<void>(const std::string& line)> take;
};

struct Scored {
  std::string weights;  // directory of the weights
  u64 lines = 0, tokens = 0;
  double seconds = 0;
};

// A line keeps its keys. It gets "logprob", the sum over the tokens that training would learn, their number
// "tokens", and "perplexity"; with a reward model "reward". Rollouts get lists, an entry per completion:
// "logprobs" has a list of numbers, one per token of the completion; "rewards" with a reward model. With
// `top_k` lines get what objective.type distill reads: "input_ids", "labels", "teacher_topk_ids" and
// "teacher_topk_logps", and the "teacher_temperature" by which logits were divided. Lines
// that data.on_bad_record: skip leaves out are left out. Errors: usage, if `source` is no model that predicts
// tokens and no reward model; and those of evaluate_model().
Result<Scored> score_documents(const ScoreRequest&);

}  // namespace tidepool
