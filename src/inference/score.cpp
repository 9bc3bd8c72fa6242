// score_documents() runs forward passes over whole documents, and writes what they tell behind the lines from
// which the documents come.
#include "inference/score.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json/object.hpp>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>

#include "base/json/text.h"
#include "base/steady_seconds.h"
#include "base/text/units.h"
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

enum class LineKind : u8 { records, rollouts, pairs };

// RETURNS: what the first line that can be read shows.
Result<LineKind> kind_of(const std::string& file) {
  Lines lines(file, RecordShape::text, OnBadRecord::error);  // of a given shape, so none is looked for
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

// RETURNS: the text of an object in JSON without its member `key`.
std::string without_member(const std::string& line, std::string_view key) {
  const std::string quoted_key = fmt::format("\"{}\"", key);
  size_t begin = 0;  // of the member, behind '{' or ','
  u32 depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if ((c == '{' || c == '[') && ++depth == 1) begin = i + 1;
    const bool ends = depth == 1 && (c == ',' || c == '}');
    if (c == '}' || c == ']') --depth;
    if (!ends) continue;
    const size_t name = line.find_first_not_of(" \t", begin);
    if (line.compare(name, quoted_key.size(), quoted_key) != 0) {
      begin = i + 1;
      continue;
    }
    // With the comma behind it; the last one with the comma before it.
    const size_t from = c == ',' || line[begin - 1] == '{' ? begin : begin - 1;
    return line.substr(0, from) + line.substr(c == ',' ? i + 1 : i);
  }
  return line;
}

std::string list_of(const std::vector<float>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

// LineWriter takes the log-probabilities or scores of documents, and writes them behind their lines.
class LineWriter {
 public:
  // `shape`: of the file's records; none: the first one's.
  LineWriter(const ScoreRequest& request, Told told, const std::string& file,
             std::optional<RecordShape> shape, OnBadRecord on_bad)
      : request_(request),
        told_(told),
        rollouts_(shape == RecordShape::rollouts),
        file_(file),
        lines_(file, shape, on_bad) {}

  // `record`: from which the document comes; never less than before. `told`: of each target.
  Result<void> add(u64 record, std::vector<float> told) {
    TRY(finish_up_to(record));
    documents_.push_back(std::move(told));
    return {};
  }
  Result<void> finish() { return finish_up_to(all_records); }
  u64 lines() const { return written_; }

 private:
  static constexpr u64 all_records = ~u64{0};

  Result<void> finish_up_to(u64 record) {
    for (; next_ < record; ++next_) {
      TRY_ASSIGN(const std::optional<RawDocument> line, lines_.next());
      if (!line && record == all_records) return {};
      if (!line)
        return Error{ErrorKind::bad_input,
                     fmt::format("{}: has changed while it was read; start again", file_)};
      // A line without documents was left out, or has nothing to learn.
      if (!documents_.empty()) TRY(write(*line));
      documents_.clear();
    }
    return {};
  }

  Result<void> write(const RawDocument& line) {
    TRY_ASSIGN(const json::value parsed, parse_json(line.content, ErrorKind::bad_input, line.place));
    const std::vector<std::pair<std::string, std::string>> fields = told_fields();
    std::string text = line.content;
    for (const auto& [key, value] : fields)
      if (parsed.get_object().contains(key)) text = without_member(text, key);
    text.erase(text.find_last_of('}'));
    for (const auto& [key, value] : fields) {
      const bool alone = text.find_last_not_of(" \t") == text.find('{');
      text += fmt::format("{}\"{}\": {}", alone ? "" : ", ", key, value);
    }
    ++written_;
    return request_.take(text + "}");
  }

  std::vector<std::pair<std::string, std::string>> told_fields() const {
    if (told_ == Told::scores) {
      std::vector<float> scores;
      for (const std::vector<float>& document : documents_) scores.push_back(document[0]);
      if (rollouts_ || scores.size() > 1) return {{"rewards", list_of(scores)}};
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
  const std::string file_;
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

  // Tokenizes the file.
  Result<void> open() {
    TRY_ASSIGN(const LineKind kind, kind_of(file_));
    if (kind == LineKind::pairs)
      return Error{
          ErrorKind::usage,
          fmt::format("{}: holds pairs; compare them with  tidepool eval  and an objective of pairs, or "
                      "write each answer as \"prompt\" and \"completion\"",
                      file_)};
    config_.data.validation = {file_};
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
    LineWriter lines(request_, told_, file_, shape_,
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

  // Cuts the log-probabilities or scores of a row by its documents.
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
  std::optional<RecordShape> shape_;  // none: the first record's
  std::optional<HeldOutFiles> files_;
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
  std::deque<FilePass> passes;
  for (const std::string& file : request.data) {
    passes.emplace_back(request, place, config, told, file);
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
