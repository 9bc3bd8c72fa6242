// score_documents() runs forward passes over whole documents, and writes what they tell behind the lines from
// which the documents come.
#include "inference/score.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <deque>
#include <optional>

#include "base/json/text.h"
#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "data/batches/packing.h"
#include "data/files/source_files.h"
#include "inference/evaluation_place.h"
#include "inference/forward_only.h"
#include "inference/retry_rotated.h"
#include "inference/scored_lines.h"
#include "run/open_data.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/signals.h"
#include "run/references/pass_rows.h"

namespace tidepool {
namespace {

namespace json = boost::json;

enum class LineKind : u8 { records, rollouts, pairs };

// RETURNS: what the first line that can be read shows.
Result<LineKind> kind_of(const std::string& file) {
  RecordsOfFile lines(file, RecordShape::text,
                      OnBadRecord::error);  // of a given shape, so none is looked for
  while (true) {
    TRY_ASSIGN(const std::optional<RawDocument> line, lines.next());
    if (!line) return LineKind::records;
    const Result<json::value> parsed = parse_json(line->content, ErrorKind::bad_input, line->place);
    if (!parsed || !parsed->is_object()) continue;
    const json::object& object = parsed->get_object();
    if (object.contains("completions") || object.contains("completion_ids")) return LineKind::rollouts;
    return object.contains("rejected") ? LineKind::pairs : LineKind::records;
  }
}

// Forward passes over the documents of one file.
class FilePass {
 public:
  FilePass(const ScoreRequest& request, const EvaluationPlace& place, const Config& config,
           TargetOutput output, const std::string& file)
      : request_(request), place_(place), config_(config), output_(output), file_(file) {}

  // Tokenizes the file.
  Result<void> open() {
    if (!is_jsonl(file_))
      return Error{ErrorKind::usage,
                   fmt::format("{}: score takes JSONL (*.jsonl or *.ndjson, also compressed): write each "
                               "document as a line {{\"text\": ...}}",
                               file_)};
    TRY_ASSIGN(const LineKind kind, kind_of(file_));
    if (kind == LineKind::pairs)
      return Error{
          ErrorKind::usage,
          fmt::format("{}: holds pairs; compare them with  tidepool eval  and an objective of pairs, or "
                      "write each answer as \"prompt\" and \"completion\"",
                      file_)};
    config_.data.validation = {file_};
    if (kind == LineKind::rollouts && output_ == TargetOutput::distributions)
      return Error{
          ErrorKind::usage,
          fmt::format("{}: holds rollouts; write each completion as \"prompt\" and \"completion\"", file_)};
    if (kind == LineKind::rollouts) {
      config_.data.units.documents = Documents::rollouts;
      config_.data.records = "auto";
      config_.data.loss = "answers";
    }
    shape_ = kind == LineKind::rollouts ? RecordShape::rollouts : shape_named(config_.data.records);
    TRY_ASSIGN(HeldOutFiles files,
               open_held_out(config_, {.quiet = request_.quiet, .kept_model = place_.of_run}));
    files_.emplace(std::move(files));
    cache_ = files_->caches().at(0);
    if (const BadRecords& bad = cache_->bad_records(); bad.count > 0)
      request_.note(fmt::format("{}: {} left out; the first: {}", file_,
                                counted_text(bad.count, "bad record"), bad.first.front()));
    return {};
  }

  // REQUIRES: open().
  Result<void> run(Scored& out) {
    ScoredLines lines(request_, output_, file_, shape_,
                      config_.data.on_bad_record == "skip" ? OnBadRecord::skip : OnBadRecord::error);
    TRY(pass(lines, out));
    TRY(lines.finish());
    out.lines += lines.lines();
    return {};
  }

 private:
  Result<void> pass(ScoredLines& lines, Scored& out) {
    TRY_ASSIGN(ForwardPlan forward, plan_forward(config_, output_));
    const u64 documents = cache_->counts().documents;
    TRY_ASSIGN(const PackedRows rows,
               PackedRows::pack(*cache_, documents, [&](u64 i) { return cache_->document(i); },
                                {.row_places = config_.train.sequence_length,
                                 .together = forward.job.graph.batch.packed,
                                 .open_rows = 1,
                                 .sequences = 1}));
    PassRows source(rows, forward.job.graph, forward.plan.micro_batches / forward.plan.sweeps);
    TRY_ASSIGN(const std::unique_ptr<Session> session,
               open_forward(std::move(forward), source, place_.weights, request_.note));
    const double began = steady_seconds();
    const Result<void> ran = run_rows(*session, source, 0, [&](u64 row, std::span<const float> outputs) {
      return take_row(rows, row, outputs, lines, out);
    });
    if (!ran && session->busy()) leave_now(ran.error());
    out.seconds += steady_seconds() - began;
    return ran;
  }

  // Cuts the outputs of a row by its documents.
  Result<void> take_row(const PackedRows& rows, u64 row, std::span<const float> outputs, ScoredLines& lines,
                        Scored& out) {
    const PackedRows::Range range = rows.tokens_of(row);
    const size_t width = outputs.size() / config_.train.sequence_length;
    std::vector<u32> places(range.end - range.begin);  // by token
    TRY(rows.for_targets(row, [&](u32 place, u64 token) { places[token - range.begin] = place; }));
    while (document_ < cache_->counts().documents) {
      TRY_ASSIGN(const TokenCache::Document document, cache_->document(document_));
      if (document.first >= range.end) break;
      ScoredDocument scored;
      scored.tokens.resize(document.tokens);
      TRY(cache_->read(document.first, scored.tokens));
      for (u64 t = 1; t < document.tokens; ++t) {
        if (!is_learned(scored.tokens[t])) continue;
        const auto of_token = outputs.subspan(places[document.first + t - range.begin] * width, width);
        scored.outputs.insert(scored.outputs.end(), of_token.begin(), of_token.end());
      }
      out.tokens += document.tokens;
      TRY(lines.add(static_cast<u64>(document.value), std::move(scored)));
      ++document_;
    }
    request_.progress(range.end, cache_->counts().tokens);
    return {};
  }

  const ScoreRequest& request_;
  const EvaluationPlace& place_;
  Config config_;
  const TargetOutput output_;
  const std::string file_;
  std::optional<RecordShape> shape_;  // none: the first record's
  std::optional<HeldOutFiles> files_;
  TokenCache* cache_ = nullptr;
  u64 document_ = 0;
};

// RETURNS: what is asked of the model.
Result<TargetOutput> output_of(const ScoreRequest& request, const Config& config,
                               const std::string& weights) {
  const u32 labels = config.model.score.labels;
  if (labels > 1)
    return Error{
        ErrorKind::usage,
        fmt::format("{}: gives {} labels, and neither probabilities of tokens nor one score; evaluate it "
                    "with  tidepool eval",
                    weights, labels)};
  if (labels == 1 && request.top_k > 0)
    return Error{
        ErrorKind::usage,
        fmt::format("{}: is a reward model, which has no distributions; leave --top-k out", weights)};
  if (request.top_k > config.model.vocab_size)
    return Error{ErrorKind::usage, fmt::format("--top-k: {} is more than the {} tokens of the vocabulary",
                                               request.top_k, config.model.vocab_size)};
  return labels == 1         ? TargetOutput::scores
         : request.top_k > 0 ? TargetOutput::distributions
                             : TargetOutput::logps;
}

Result<Scored> score_once(const ScoreRequest& request, std::string& reading) {
  const EvaluateRequest as_evaluation = {
      .source = request.source, .overrides = request.overrides, .data = request.data, .note = request.note};
  TRY_ASSIGN(EvaluationPlace place, find_evaluation_place(as_evaluation, reading));
  Config config = place.config;
  config.memory.swap_dir = place.swap_dir;
  TRY_ASSIGN(const TargetOutput output, output_of(request, config, place.weights));
  TRY(make_forward_only(config, request.overrides, request.note));
  config.objective = {};
  if (output == TargetOutput::distributions)
    config.objective = {
        .type = ObjectiveType::distill, .top_k = request.top_k, .temperature = request.temperature};
  config.data.labelled.reset();
  config.data.rows_are_shared = true;
  const u32 places = config.train.sequence_length;
  config.data.units = {.sequences = 1,
                       .sequence_tokens_max = places + (output == TargetOutput::scores ? 0 : 1),
                       .scoring = output};
  reading.clear();
  Scored out = {.weights = place.weights};
  std::deque<FilePass> passes;
  for (const std::string& file : request.data) {
    passes.emplace_back(request, place, config, output, file);
    TRY(passes.back().open());
  }
  for (FilePass& pass : passes) TRY(pass.run(out));
  return out;
}

}  // namespace

Result<Scored> score_documents(const ScoreRequest& request) {
  // Ends at once on a signal: there is nothing to save. The handler is needed to remove the swap file.
  const StopSignals signals(StopSignals::at_once(""));
  return retry_rotated(request.note, [&](std::string& reading) { return score_once(request, reading); });
}

}  // namespace tidepool
