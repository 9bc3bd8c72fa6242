// score_documents() runs forward passes over whole documents, and writes what they tell behind the lines from
// which the documents come.
#include "inference/score.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <boost/json/object.hpp>
#include <cmath>
#include <numeric>

#include "base/json/text.h"
#include "base/steady_seconds.h"
#include "data/batches/packing.h"
#include "data/documents/raw_documents.h"
#include "data/files/source_files.h"
#include "inference/evaluation_place.h"
#include "inference/forward_only.h"
#include "inference/retry_rotated.h"
#include "run/open_data.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/signals.h"
#include "run/references/pass_rows.h"

namespace tidepool {
namespace {

namespace json = boost::json;

// The records of one file, in order.
class Lines {
 public:
  Lines(const std::string& file, std::optional<RecordShape> shape, OnBadRecord on_bad)
      : bytes_(create_byte_encoder()), raw_({{file, DocumentFormat::records}}, shape, *bytes_, on_bad) {}
  Result<std::optional<RawDocument>> next() { return raw_.next(); }

 private:
  const std::unique_ptr<const TextEncoder> bytes_;
  RawDocuments raw_;
};

Result<bool> holds_rollouts(const std::string& file) {
  Lines lines(file, RecordShape::text, OnBadRecord::error);
  TRY_ASSIGN(const std::optional<RawDocument> first, lines.next());
  if (!first) return false;
  const Result<json::value> parsed = parse_json(first->content, ErrorKind::bad_input, first->place);
  return parsed && parsed->is_object() &&
         (parsed->get_object().contains("completions") || parsed->get_object().contains("completion_ids"));
}

std::string list_of(const std::vector<float>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

// Takes what is told of documents, and gives the lines with it.
class LineWriter {
 public:
  // `shape`: of the file's records; none: the first one's.
  LineWriter(const ScoreRequest& request, Told told, const std::string& file,
             std::optional<RecordShape> shape, OnBadRecord on_bad)
      : request_(request),
        told_(told),
        rollouts_(shape == RecordShape::rollouts),
        lines_(file, shape, on_bad) {}

  // `record`: from which the document comes; never less than before. `told`: of each target.
  Result<void> add(u64 record, std::vector<float> told) {
    TRY(finish_up_to(record));
    documents_.push_back(std::move(told));
    return {};
  }
  Result<void> finish() { return finish_up_to(~u64{0}); }
  u64 lines() const { return written_; }

 private:
  Result<void> finish_up_to(u64 record) {
    for (; next_ < record; ++next_) {
      TRY_ASSIGN(const std::optional<RawDocument> line, lines_.next());
      if (!line) return {};
      // A line without documents was left out, or has nothing to learn.
      if (!documents_.empty()) TRY(write(*line));
      documents_.clear();
    }
    return {};
  }

  Result<void> write(const RawDocument& line) {
    TRY_ASSIGN(json::value parsed, parse_json(line.content, ErrorKind::bad_input, line.place));
    const std::vector<std::pair<std::string, std::string>> fields = told_fields();
    json::object& object = parsed.get_object();
    std::string text = line.content;
    for (const auto& [key, value] : fields) {
      if (!object.contains(key)) continue;
      object.erase(key);
      text = json_text(object, JsonStyle::line);
    }
    text.erase(text.find_last_of('}'));
    for (const auto& [key, value] : fields)
      text +=
          fmt::format("{}\"{}\": {}", text.find_last_not_of(" \t") == text.find('{') ? "" : ", ", key, value);
    ++written_;
    return request_.take(text + "}");
  }

  std::vector<std::pair<std::string, std::string>> told_fields() const {
    if (told_ == Told::scores) {
      std::vector<float> scores;
      for (const std::vector<float>& document : documents_) scores.push_back(document[0]);
      if (rollouts_) return {{"rewards", list_of(scores)}};
      return {{"reward", fmt::format("{}", scores[0])}};
    }
    if (rollouts_) {
      std::vector<std::string> lists;
      for (const std::vector<float>& document : documents_) lists.push_back(list_of(document));
      return {{"logprobs", fmt::format("[{}]", fmt::join(lists, ", "))}};
    }
    std::vector<float> all;
    for (const std::vector<float>& document : documents_)
      all.insert(all.end(), document.begin(), document.end());
    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
    std::vector<std::pair<std::string, std::string>> out = {
        {"logprob", json_number(sum)},
        {"tokens", fmt::format("{}", all.size())},
        {"perplexity", json_number(std::exp(-sum / static_cast<double>(all.size())))}};
    if (request_.by_token) out.emplace_back("token_logprobs", list_of(all));
    return out;
  }

  const ScoreRequest& request_;
  const Told told_;
  const bool rollouts_;
  Lines lines_;
  u64 next_ = 0, written_ = 0;
  std::vector<std::vector<float>> documents_;  // of record next_
};

// Forward passes over the documents of one file.
class FilePass {
 public:
  FilePass(const ScoreRequest& request, const EvaluationPlace& place, const Config& config, Told told,
           const std::string& file)
      : request_(request), place_(place), config_(config), told_(told), file_(file) {}

  Result<void> run(Scored& out) {
    TRY_ASSIGN(const bool rollouts, holds_rollouts(file_));
    config_.data.validation = {file_};
    config_.data.units.documents = rollouts ? Documents::rollouts : Documents::any;
    if (rollouts) config_.data.records = "auto";
    TRY_ASSIGN(const HeldOutFiles files,
               open_held_out(config_, {.quiet = request_.quiet, .kept_model = place_.of_run}));
    for (const std::string& note : files.notes()) request_.note(note);
    cache_ = files.caches().at(0);
    std::optional<RecordShape> shape = shape_named(config_.data.records);
    if (rollouts) shape = RecordShape::rollouts;
    LineWriter lines(request_, told_, file_, shape,
                     config_.data.on_bad_record == "skip" ? OnBadRecord::skip : OnBadRecord::error);
    TRY(pass(lines, out));
    TRY(lines.finish());
    out.lines += lines.lines();
    return {};
  }

 private:
  Result<void> pass(LineWriter& lines, Scored& out) {
    TRY_ASSIGN(ForwardPlan forward, plan_forward(config_, told_));
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
    const Result<void> ran = run_rows(*session, source, 0, [&](u64 row, std::span<const float> told) {
      return take_row(rows, row, told, lines, out);
    });
    if (!ran && session->busy()) leave_now(ran.error());
    out.seconds += steady_seconds() - began;
    return ran;
  }

  // Cuts what is told of a row into what is told of its documents.
  Result<void> take_row(const PackedRows& rows, u64 row, std::span<const float> told, LineWriter& lines,
                        Scored& out) {
    const PackedRows::Range range = rows.tokens_of(row);
    std::vector<float> by_token(range.end - range.begin);
    TRY(rows.for_targets(row, [&](u32 place, u64 token) { by_token[token - range.begin] = told[place]; }));
    std::vector<u32> tokens;
    while (document_ < cache_->counts().documents) {
      TRY_ASSIGN(const TokenCache::Document document, cache_->document(document_));
      if (document.first >= range.end) break;
      tokens.resize(document.tokens);
      TRY(cache_->read(document.first, tokens));
      std::vector<float> of_document;
      for (u64 t = 1; t < tokens.size(); ++t)
        if (is_learned(tokens[t])) of_document.push_back(by_token[document.first + t - range.begin]);
      out.tokens += document.tokens;
      TRY(lines.add(static_cast<u64>(document.value), std::move(of_document)));
      ++document_;
    }
    request_.progress(range.end, cache_->counts().tokens);
    return {};
  }

  const ScoreRequest& request_;
  const EvaluationPlace& place_;
  Config config_;
  const Told told_;
  const std::string file_;
  TokenCache* cache_ = nullptr;
  u64 document_ = 0;
};

// RETURNS: what the model tells of a document.
Result<Told> told_by(const Config& config, const std::string& weights) {
  const u32 labels = config.model.score.labels;
  if (labels > 1)
    return Error{
        ErrorKind::usage,
        fmt::format("{}: gives {} labels, and neither probabilities of tokens nor one score; evaluate it "
                    "with  tidepool eval",
                    weights, labels)};
  return labels == 1 ? Told::scores : Told::logps;
}

Result<Scored> score_once(const ScoreRequest& request, std::string& reading) {
  const EvaluateRequest as_evaluation = {
      .source = request.source, .overrides = request.overrides, .data = request.data, .note = request.note};
  TRY_ASSIGN(EvaluationPlace place, find_evaluation_place(as_evaluation, reading));
  Config config = place.config;
  config.memory.swap_dir = place.swap_dir;
  TRY_ASSIGN(const Told told, told_by(config, place.weights));
  TRY(make_forward_only(config, request.overrides, request.note));
  config.objective = {};
  config.data.labelled.reset();
  config.data.rows_are_shared = true;
  const u32 places = config.train.sequence_length;
  config.data.units = {
      .sequences = 1, .sequence_tokens_max = places + (told == Told::scores ? 0 : 1), .scoring = told};
  reading.clear();
  Scored out = {.weights = place.weights};
  for (const std::string& file : request.data) TRY(FilePass(request, place, config, told, file).run(out));
  return out;
}

}  // namespace

Result<Scored> score_documents(const ScoreRequest& request) {
  // Ends at once on a signal: there is nothing to save. The handler is needed to remove the swap file.
  const StopSignals signals(StopSignals::at_once(""));
  return retry_rotated(request.note, [&](std::string& reading) { return score_once(request, reading); });
}

}  // namespace tidepool
