#include "run/references/reference_pass.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <vector>

#include "base/json/text.h"
#include "base/read_file.h"
#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "data/batches/packing.h"
#include "fit/disk_budget.h"
#include "fit/job.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "objectives/objective.h"
#include "planner/planner.h"
#include "report/status_line.h"
#include "run/references/pass_rows.h"

namespace tidepool {
namespace {

constexpr u32 reference_version = 1;

// The key and the directory of the model that the objective needs beside the one that is trained.
struct OtherModel {
  std::string_view key;
  const std::string& directory;
};
bool has_teacher(const Config& config) { return !config.objective.teacher.empty(); }
OtherModel other_model(const Config& config) {
  if (has_teacher(config)) return {"objective.teacher", config.objective.teacher};
  return {"objective.reference", config.objective.reference};
}
// Numbers that the model gives for each token.
u32 numbers_of(const Config& config) {
  return has_teacher(config) ? objective_rule(config.objective).divergence.numbers() : 1;
}

Error wrong_reference(const Config& config, std::string_view why) {
  const auto [key, directory] = other_model(config);
  return {ErrorKind::usage, fmt::format("{}: {} {}", key, directory, why)};
}

// RETURNS: the ids of tokens that tokenizer.json in a directory has, or the file itself; null: there is none.
Result<boost::json::value> vocabulary_in(const std::string& place) {
  constexpr u64 bytes_most = 256 * mib;
  std::error_code unused;
  const std::string path = std::filesystem::is_directory(place, unused) ? place + "/tokenizer.json" : place;
  if (place.empty() || !std::filesystem::is_regular_file(path, unused)) return boost::json::value();
  TRY_ASSIGN(const std::string text, read_small_file(path, bytes_most, ErrorKind::bad_input));
  TRY_ASSIGN(const boost::json::value parsed, parse_json(text, ErrorKind::bad_input, path));
  const boost::json::value* model = parsed.is_object() ? parsed.get_object().if_contains("model") : nullptr;
  const boost::json::value* vocabulary =
      model != nullptr && model->is_object() ? model->get_object().if_contains("vocab") : nullptr;
  return vocabulary == nullptr ? boost::json::value() : *vocabulary;
}

// Documents are tokenized for the model that is trained.
Result<void> check_same_tokenizer(const Config& config) {
  const std::string& ours = config.data.tokenizer.empty() ? config.model_directory : config.data.tokenizer;
  TRY_ASSIGN(const boost::json::value own, vocabulary_in(ours));
  TRY_ASSIGN(const boost::json::value others, vocabulary_in(other_model(config).directory));
  if (own.is_null() || others.is_null() || own == others) return {};
  return wrong_reference(config,
                         fmt::format("has another tokenizer than {}, so the same ids are other tokens; name "
                                     "a model with the same tokenizer",
                                     ours));
}

// Config of a pass: the reference model alone, forward only, on one device of one node.
Result<Config> config_of_pass(const Config& config) {
  Config out = config;
  out.model_directory = other_model(config).directory;
  std::error_code unused;
  if (!std::filesystem::is_directory(out.model_directory, unused))
    return wrong_reference(config,
                           "is not a directory, and the objective compares with this model: restore it, or "
                           "name another");
  if (out.model_directory != config.model_directory) {
    TRY_ASSIGN(out.model, read_model_directory(out.model_directory));
    if (out.model.vocab_size != config.model.vocab_size && !has_teacher(config))
      return wrong_reference(config,
                             fmt::format("has a vocabulary of {}, and the model one of {}; name a model with "
                                         "the same tokenizer",
                                         out.model.vocab_size, config.model.vocab_size));
    // Sizes of one family pad the same vocabulary to other sizes.
    if (out.model.vocab_size < config.objective.top_k && has_teacher(config))
      return wrong_reference(config,
                             fmt::format("has a vocabulary of {}, fewer than objective.top_k, {}; lower it",
                                         out.model.vocab_size, config.objective.top_k));
    TRY(check_same_tokenizer(config));
    if (out.model.score.on())
      return wrong_reference(config, "gives scores or labels; name a model that predicts tokens");
    if (out.train.sequence_length > out.model.longest_sequence())
      return wrong_reference(config,
                             fmt::format("reads at most {}, and train.sequence_length is {}; shorten it",
                                         longest_sequence_text(out.model), out.train.sequence_length));
  }
  if (!can_pack(out.model.family))
    return wrong_reference(config,
                           fmt::format("is a {} model, whose positions are for whole rows; name another",
                                       name(out.model.family)));
  out.lora = {};
  // With a teacher the rest says which of its numbers are wanted.
  if (!has_teacher(config)) out.objective = {};
  out.objective.teacher.clear();
  if (has_teacher(config) && out.model.vocab_size > config.model.vocab_size)
    out.objective.teacher_columns = config.model.vocab_size;
  out.data.packing = true;
  out.data.rows_are_shared = true;
  out.data.units.shares = false;
  const std::vector<u32> gpus = config.machine.gpus();
  out.machine.executor = gpus.empty() ? "cpu" : fmt::format("cuda:{}", gpus.front());
  out.machine.nodes = 1, out.machine.node = 0;
  out.machine.file.clear();
  out.memory.sweeps = 0;
  out.memory.home = HomePolicy::automatic;
  out.memory.chunk_size = Bytes{0};
  // output.dir may not be there yet; the caches are.
  out.memory.swap_dir = config.memory.swap_dir.empty() ? data_cache_directory(config) + "/reference-swap"
                                                       : config.memory.swap_dir + "-reference";
  // Always the same: how many rows are multiplied together may change last bits.
  out.train.per_device_train_batch_size = 1;
  out.train.gradient_accumulation_steps = 1;
  return out;
}

std::string hash_text(const std::string& text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

// RETURNS: a hash of everything that the numbers of a text depend on.
Result<std::string> reference_identity(const Config& pass) {
  TRY_ASSIGN(const std::string weights, weights_fingerprint(pass.model_directory));
  std::string text = fmt::format("{} {} {} {}\n{}", reference_version, weights, name(pass.train.precision),
                                 pass.machine.gpus().empty() ? "cpu" : "cuda",
                                 hf_config_text(pass.model, pass.train.precision));
  if (const DivergenceRule rule = objective_rule(pass.objective).divergence; rule.on())
    text += fmt::format("\ntop {} of {} at {}", rule.top_k, rule.columns, rule.temperature);
  return hash_text(text);
}

// The same, and the texts with their places in rows.
std::string references_key(const std::string& identity, const Config& pass, const TokenCache& cache) {
  return hash_text(
      fmt::format("{} {} {} {}", identity, packing_version, cache.content(), pass.train.sequence_length));
}

struct PlannedPass {
  Job job;
  Plan plan;
};
Result<PlannedPass> plan_pass(const Config& pass) {
  const bool distributions = objective_rule(pass.objective).divergence.on();
  TRY_ASSIGN(Job job,
             make_forward_job(pass, distributions ? TargetOutput::distributions : TargetOutput::logps));
  PlanOptions options = job.options;
  TRY_ASSIGN(options.budgets.disk, disk_budget(pass));
  Result<Plan> plan = make_plan(job.graph, options);
  if (!plan) return explain_disk(job, options, plan.error());
  return PlannedPass{std::move(job), *std::move(plan)};
}

class Pass {
 public:
  Pass(const ReferenceRequest& request, const Config& config, const TokenCache& cache)
      : request_(request), config_(config), cache_(cache), numbers_(numbers_of(request.config)) {}

  Result<void> make(const std::string& path, const std::string& key) {
    const u64 documents = cache_.counts().documents;
    const auto document = [&](u64 i) { return cache_.document(i); };
    TRY_ASSIGN(rows_, PackedRows::pack(cache_, documents, document,
                                       {.row_places = config_.train.sequence_length,
                                        .open_rows = 1,
                                        .sequences = request_.config.data.units.sequences}));
    TRY_ASSIGN(writer_, TokenReferencesWriter::create(path, key, cache_.counts().tokens, numbers_));
    if (!writer_) return {};  // another process has made the file
    u64 row = 0;
    while (row < rows_.rows() && rows_.tokens_of(row).end <= writer_->tokens()) ++row;
    TRY(writer_->keep(row > 0 ? rows_.tokens_of(row - 1).end : 0));
    if (row < rows_.rows()) TRY(run_from(row));
    TRY(zeros_up_to(cache_.counts().tokens));
    return writer_->finish();
  }

 private:
  Result<void> run_from(u64 row) {
    TRY_ASSIGN(PlannedPass planned, plan_pass(config_));
    PassRows source(rows_, planned.job.graph, planned.plan.micro_batches / planned.plan.sweeps);
    TRY_ASSIGN(const std::unique_ptr<Session> session,
               Session::create(planned.job, std::move(planned.plan), source,
                               {.own_swap_dir = true, .loads_weights = true}));
    TRY(load_weights(config_.model_directory, session->graph(), session->state()));
    return run_rows(*session, source, row, [&](u64 done, std::span<const float> numbers) -> Result<void> {
      TRY(write_row(done, numbers));
      show();
      return {};
    });
  }

  // `numbers`: of the row's places.
  Result<void> write_row(u64 row, std::span<const float> numbers) {
    const PackedRows::Range range = rows_.tokens_of(row);
    TRY(zeros_up_to(range.begin));
    // A row that goes on with a document that was cut begins with the last target of the row before.
    const u64 begin = writer_->tokens();
    tokens_.assign((range.end - begin) * numbers_, 0);
    TRY(rows_.for_targets(row, [&](u32 place, u64 token) {
      std::ranges::copy(numbers.subspan(u64{place} * numbers_, numbers_),
                        tokens_.begin() + static_cast<i64>((token - begin) * numbers_));
    }));
    return writer_->append(tokens_);
  }

  // Tokens of documents that are in no row.
  Result<void> zeros_up_to(u64 token) {
    if (token <= writer_->tokens()) return {};
    tokens_.assign((token - writer_->tokens()) * numbers_, 0);
    return writer_->append(tokens_);
  }

  void show() {
    if (request_.quiet) return;
    const double all = static_cast<double>(cache_.counts().tokens),
                 share = static_cast<double>(writer_->tokens()) / all;
    line_.show(word(),
               fmt::format(" {} {} {}, {} of {} tokens", word(), bar(line_.screen(), share, 20, Ink::cyan),
                           percent_text(share), count_text(share * all), count_text(all)),
               has_teacher(request_.config) ? "distributions of the teacher ..."
                                            : "log-probabilities of the reference model ...");
  }
  std::string word() const { return has_teacher(request_.config) ? "teacher pass" : "reference pass"; }

  const ReferenceRequest& request_;
  const Config& config_;
  const TokenCache& cache_;
  const u32 numbers_;  // of a token
  PackedRows rows_;
  std::unique_ptr<TokenReferencesWriter> writer_;
  std::vector<float> tokens_;
  StatusLine line_;
};

// Rollouts whose log-probabilities are not known were sampled by the reference model: by which else?
Result<void> check_samples(const Config& config) {
  const std::string& reference = config.objective.reference;
  if (reference.empty())
    return Error{ErrorKind::usage,
                 "data: rollouts have no \"logprobs\"; name the model that they were sampled from with "
                 "objective.reference, or a model directory to start from"};
  if (reference == config.model_directory && !config.lora.adapter.empty())
    return Error{ErrorKind::usage,
                 fmt::format("data: rollouts have no \"logprobs\", and without {} the model did not sample "
                             "them; merge the adapter with  tidepool export  and start from that",
                             config.lora.adapter)};
  if (reference != config.model_directory && objective_rule(config.objective).reference)
    return Error{ErrorKind::usage,
                 "data: rollouts have no \"logprobs\", so objective.reference is taken for the model that "
                 "sampled them, and with objective.beta it is also the model to stay near to; write the "
                 "logprobs into the data, or leave one of the two keys out"};
  return {};
}

Result<bool> needs_references(const Config& config, const TokenCache& cache) {
  if (has_teacher(config)) return true;
  const bool samples = cache.counts().unknown_logps > 0;
  if (samples) TRY(check_samples(config));
  return samples || objective_rule(config.objective).reference;
}

}  // namespace

Result<std::optional<Plan>> plan_references(const Config& config) {
  if (!objective_rule(config.objective).reference && !has_teacher(config)) return std::optional<Plan>();
  TRY_ASSIGN(const Config pass, config_of_pass(config));
  TRY_ASSIGN(PlannedPass planned, plan_pass(pass));
  return std::optional(std::move(planned.plan));
}

Result<std::string> attach_references(const ReferenceRequest& request,
                                      std::span<TokenCache* const> all_caches) {
  std::vector<TokenCache*> caches;
  for (TokenCache* const cache : all_caches) {
    TRY_ASSIGN(const bool needed, needs_references(request.config, *cache));
    if (needed) caches.push_back(cache);
  }
  if (caches.empty()) return std::string();
  TRY_ASSIGN(const Config pass, config_of_pass(request.config));
  TRY_ASSIGN(const std::string identity, reference_identity(pass));
  for (TokenCache* const cache : caches) {
    const std::string key = references_key(identity, pass, *cache);
    const std::string path = TokenReferences::path(cache->directory(), key);
    const u64 tokens = cache->counts().tokens;
    const u32 numbers = numbers_of(request.config);
    TRY_ASSIGN(std::unique_ptr<TokenReferences> found, TokenReferences::open(path, key, tokens, numbers));
    const double began = steady_seconds();
    const bool made = !found;
    if (made) {
      TRY(Pass(request, pass, *cache).make(path, key));
      TRY_ASSIGN(found, TokenReferences::open(path, key, tokens, numbers));
      if (!found)
        return Error{ErrorKind::io, fmt::format("{}: was removed while it was made; start again", path)};
    }
    request.say(fmt::format(
        "{} of {} by {} ({} {})",
        has_teacher(request.config) ? "teacher: distributions" : "reference: log-probabilities",
        counted_text(tokens, "token"), pass.model_directory,
        made ? fmt::format("made in {} as", seconds_text(steady_seconds() - began)) : "found in", path));
    cache->attach(std::move(found));
  }
  return identity;
}

}  // namespace tidepool
