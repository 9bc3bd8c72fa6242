// `tidepool score` tells how probable a model finds documents, or what score a reward model gives them.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/text/units.h"
#include "base/write_file.h"
#include "cli/command.h"
#include "cli/config_words.h"
#include "inference/score.h"
#include "report/print_text.h"
#include "report/status_line.h"

namespace tidepool {
namespace {

constexpr std::array options_of_score = {
    Option{"output", "FILE", "write there, not to standard output"},
    Option{"tokens", "", "each token's log-probability too"},
    Option{"top-k", "K", "for distillation: the K most probable tokens after each"},
    Option{"temperature", "T", "with --top-k: divides logits"},
};

void show(StatusLine& status, u64 done, u64 all) {
  const double share = static_cast<double>(done) / static_cast<double>(all);
  status.show("scoring",
              fmt::format(" scoring {} {}, {} of {} tokens", bar(status.screen(), share, 20, Ink::cyan),
                          percent_text(share), count_text(static_cast<double>(done)),
                          count_text(static_cast<double>(all))),
              "scoring ...");
}

Result<void> run_score(const Arguments& arguments) {
  const auto& words = arguments.positional();
  StatusLine status;
  std::optional<FileReplacement> file;
  ScoreRequest request{.source = words[0],
                       .overrides = {},
                       .data = {},
                       .by_token = arguments.has("tokens"),
                       .note =
                           [&](const std::string& line) {
                             status.clear();
                             print_text(stderr, "{}\n", line);
                           },
                       .progress = [&](u64 done, u64 all) { show(status, done, all); },
                       .take = [&](const std::string& line) -> Result<void> {
                         if (file) return file->append(line + "\n");
                         status.clear();
                         print_text("{}\n", line);
                         return {};
                       }};
  if (request.by_token && arguments.has("top-k"))
    return usage_error("--tokens and --top-k do not go together; leave one out");
  if (arguments.has("top-k")) {
    TRY_ASSIGN(request.top_k, arguments.count("top-k", {.least = 1, .most = top_k_most}));
  }
  if (arguments.has("temperature")) {
    if (!arguments.has("top-k")) return usage_error("--temperature is for --top-k; leave it out");
    TRY_ASSIGN(request.temperature, arguments.real("temperature"));
    if (!(request.temperature >= 1e-3 && request.temperature <= 1e3))
      return usage_error("--temperature is from 0.001 to 1000, as objective.temperature");
  }
  TRY_ASSIGN(DataWords given, data_words(words, 1));
  request.data = std::move(given.data), request.overrides = std::move(given.overrides);
  if (request.data.empty()) return usage_error("name a JSONL file with data=FILE");
  if (const std::string path = arguments.text("output"); !path.empty()) {
    TRY_ASSIGN(FileReplacement begun, FileReplacement::begin(path, FileUse::other));
    file.emplace(std::move(begun));
  }
  const Result<Scored> done = score_documents(request);
  status.clear();
  TRY(done);
  if (file) TRY(file->commit());
  print_text(stderr, "{} of {} lines by {} in {}, {} tokens/s\n", counted_text(done->tokens, "token"),
             done->lines, done->weights, seconds_text(done->seconds),
             count_text(static_cast<double>(done->tokens) / done->seconds));
  return {};
}

}  // namespace

constinit const Command score_command = {
    .name = "score",
    .words = "SOURCE data=FILE ... [key=value ...]",
    .summary = "log-probabilities of documents, or rewards of a reward model",
    .options = options_of_score,
    .least_words = 1,
    .run = run_score,
    .more =
        "\nSOURCE is a run directory (its newest checkpoint), a checkpoint, a model\n"
        "directory, or a config, as for eval. Each line of the JSONL files comes out with\n"
        "logprob, tokens and perplexity behind its keys, or with the reward that a reward\n"
        "model gives. Rollouts (prompt and completions) get logprobs or rewards, an entry\n"
        "per completion: what objective.type grpo trains on. With --top-k a line gets\n"
        "the tokens and distributions that objective.type distill trains on. key=value\n"
        "overrides the run's config; train.sequence_length is the longest document.\n",
};

}  // namespace tidepool
