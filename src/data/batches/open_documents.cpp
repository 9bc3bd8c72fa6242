// Documents need an encoder for all sources, and per source a record shape and a token cache.
#include "data/batches/open_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "base/text/units.h"
#include "data/batches/make_cache.h"
#include "data/documents/decode_stream.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {

namespace {

std::optional<RecordShape> shape_of(const DataConfig& config) {
  switch (config.units.documents) {
    case Documents::any:
      break;
    case Documents::labelled:
      return RecordShape::labelled;
    case Documents::pairs:
    case Documents::prompted_pairs:
    case Documents::scored_pairs:
      return RecordShape::preference;
    case Documents::judged:
      return RecordShape::judged;
    case Documents::rollouts:
      return RecordShape::rollouts;
    case Documents::token_labels:
      return RecordShape::token_labels;
    case Documents::distributions:
      return RecordShape::distributions;
  }
  if (config.labelled) return RecordShape::labelled;
  if (config.records == "auto") return std::nullopt;
  const std::optional<RecordShape> named = shape_named(config.records);
  CHECK(named, config.records);
  return named;
}

DocumentFormat format_of(FileKind kind) {
  switch (kind) {
    case FileKind::records:
      return DocumentFormat::records;
    case FileKind::text:
      return DocumentFormat::text;
    case FileKind::tokens:
      break;
  }
  CHECK(false, static_cast<u32>(kind));  // token files are no documents
}

LossOn loss_on(const DataConfig& config) {
  constexpr std::array<std::pair<std::string_view, LossOn>, 3> rows = {
      {{"answers", LossOn::answers}, {"last_answer", LossOn::last_answer}, {"all", LossOn::everything}}};
  const auto row = std::ranges::find(rows, config.loss, &std::pair<std::string_view, LossOn>::first);
  CHECK(row != rows.end(), config.loss);
  return row->second;
}

OnBadRecord on_bad_record(const DataConfig& config) {
  return config.on_bad_record == "skip" ? OnBadRecord::skip : OnBadRecord::error;
}

// Shape of a source's records: as configured, or detected from the first record, which also tells whether a
// completion is text or messages. None if there are no records, or if the first one is malformed, which is
// reported when it is read.
std::optional<RecordShape> shape_of(const SourceFiles& files, const DataConfig& config) {
  if (!files.holds(FileKind::records)) return std::nullopt;
  const auto named = shape_of(config);
  if (named && !leaves_form_open(*named)) return named;
  std::vector<DocumentFile> records;
  for (size_t i = 0; i < files.found.size(); ++i) {
    if (files.kinds[i] == FileKind::records)
      records.push_back({files.found[i].path, DocumentFormat::records});
  }
  const auto bytes = create_byte_encoder();
  RawDocuments raw(std::move(records), named, *bytes, on_bad_record(config));
  return raw.next() ? raw.shape() : named;
}

// True if the first record that says so is one of messages. False if there is none.
bool begins_with_messages(const SourceFiles& files, RecordShape shape) {
  std::vector<DocumentFile> records;
  for (const FoundFile& file : files.found) records.push_back({file.path, DocumentFormat::records});
  const auto bytes = create_byte_encoder();
  RawDocuments raw(std::move(records), shape, *bytes);
  for (auto next = raw.next(); next && *next; next = raw.next()) {
    const Result<Record> record = parse_record((*next)->content, shape, (*next)->place);
    if (!record) continue;
    if (const auto* judged = std::get_if<JudgedRecord>(&*record))
      return std::holds_alternative<ChatRecord>(judged->answer);
    const auto* answer = std::get_if<Answer>(&std::get<RolloutsRecord>(*record).completions[0].answer);
    if (answer == nullptr) continue;  // token ids
    return std::holds_alternative<ChatRecord>(*answer);
  }
  return false;
}

bool holds_ids(std::optional<RecordShape> shape) {
  return shape == RecordShape::tokens || shape == RecordShape::distributions;
}

bool goes_through_template(const SourceFiles& files, const DataConfig& config) {
  const auto shape = shape_of(files, config);
  if (shape == RecordShape::judged || shape == RecordShape::rollouts)
    return begins_with_messages(files, *shape);
  return shape == RecordShape::messages || shape == RecordShape::sharegpt || shape == RecordShape::alpaca ||
         shape == RecordShape::message_completion || shape == RecordShape::message_preference;
}

// `row_tokens`: tokens of a row; 0: not known, and no text is cut.
CacheRequest request_for(const SourceFiles& files, const DataConfig& config, const OpenedEncoder& encoder,
                         u32 vocab_size, u32 row_tokens) {
  CacheRequest out{.files = {},
                   .shape = shape_of(config),
                   .text = *encoder.text,
                   .chat = goes_through_template(files, config) ? encoder.chat.get() : nullptr,
                   .settings = {},
                   .on_bad = on_bad_record(config),
                   .identity = encoder.identity};
  for (size_t i = 0; i < files.found.size(); ++i)
    out.files.push_back({files.found[i].path, format_of(files.kinds[i])});
  out.settings = {.loss = loss_on(config),
                  .end_token = config.end_token ? encoder.end_token : std::nullopt,
                  .vocab_size = vocab_size,
                  .labelled = config.labelled,
                  .text_tokens_max = row_tokens,
                  .units = config.units};
  return out;
}

// Checks that the model has a row for every token. If both come from one directory, the directory is
// malformed; else the config names the wrong tokenizer.
Result<void> check_rows(const OpenedEncoder& encoder, const DataConfig& config,
                        const std::string& model_directory, u32 vocab_size) {
  const u32 tokens = encoder.text->vocab_size();
  if (tokens <= vocab_size) return {};
  if (config.tokenizer.empty() && has_tokenizer(config, model_directory)) {
    const Result<ModelConfig> model = read_model_directory(model_directory);
    if (model && model->vocab_size == vocab_size)
      return Error{ErrorKind::bad_input, fmt::format("{}: has token ids up to {}, but config.json beside it "
                                                     "says vocab_size {}; name the model's own "
                                                     "tokenizer with data.tokenizer",
                                                     encoder.name, tokens - 1, vocab_size)};
  }
  return Error{ErrorKind::usage,
               fmt::format("{}: has token ids up to {}, but model.vocab_size is {}; {}", encoder.name,
                           tokens - 1, vocab_size,
                           config.tokenizer.empty() ? fmt::format("set vocab_size to {} or more", tokens)
                                                    : "name the model's own tokenizer with data.tokenizer")};
}

Result<OpenedEncoder> checked_encoder(const std::vector<SourceFiles>& sources, const DataConfig& config,
                                      const std::string& model_directory, u32 vocab_size) {
  const bool text = std::ranges::any_of(sources, [&](const SourceFiles& s) {
    return s.holds(FileKind::text) || !holds_ids(shape_of(s, config));
  });
  if (text && !has_tokenizer(config, model_directory)) TRY(check_no_other_tokenizer(model_directory));
  const bool chats =
      std::ranges::any_of(sources, [&](const SourceFiles& s) { return goes_through_template(s, config); });
  TRY_ASSIGN(OpenedEncoder encoder,
             open_encoder(config, model_directory, chats ? ChatTemplateUse::yes : ChatTemplateUse::no));
  TRY(check_rows(encoder, config, model_directory, vocab_size));
  return encoder;
}

std::string note_of(const MadeCache& made) {
  const CacheCounts& counts = made.cache->counts();
  const double share =
      counts.tokens == 0 ? 0 : static_cast<double>(counts.learned) / static_cast<double>(counts.tokens);
  const std::string left_out =
      counts.without_loss > 0
          ? fmt::format("; {} with nothing to learn left out", counted_text(counts.without_loss, "document"))
          : "";
  return fmt::format("data: {} of {}, {:.1f}% of them learned{} ({} {})",
                     counted_text(counts.documents, "document"), counted_text(counts.tokens, "token"),
                     100 * share, left_out,
                     !made.made      ? "found in"
                     : made.replaced ? "the existing cache has an older format: tokenized again into"
                                     : "tokenized into",
                     made.cache->directory());
}

void add_notes(std::vector<std::string>& notes, const BadRecords& bad) {
  if (bad.count == 0) return;
  notes.push_back(
      fmt::format("data: {} left out (data.on_bad_record: skip){}",
                  bad.count == 1 ? "1 bad record is" : fmt::format("{} bad records are", bad.count),
                  bad.count > bad.first.size() ? ", such as" : ""));
  for (const std::string& message : bad.first) notes.push_back("data: left out: " + message);
}

// True if documents get no end token. It is reported, because the model would never learn to end a text.
// Chats have their template's end.
bool lacks_end(const CacheRequest& request, const SourceFiles& files, const DataConfig& config,
               const std::string& model_directory) {
  if (!config.end_token || request.settings.end_token || request.chat != nullptr || config.labelled)
    return false;
  const bool texts = files.holds(FileKind::text) || !holds_ids(shape_of(files, config));
  return texts && has_tokenizer(config, model_directory);
}

// Adds the runs of one sequence. A character whose tokens lie on both sides of a border belongs to the second
// run.
void add_runs(const TextEncoder& encoder, std::span<const u32> tokens, ShownDocument& out) {
  DecodeStream text(encoder, {});
  const size_t first = out.runs.size();
  for (size_t t = 0; t < tokens.size(); ++t) {
    const bool learned = t > 0 && is_learned(tokens[t]);  // the first token is no target
    if (out.runs.size() == first || out.runs.back().learned != learned) out.runs.push_back({learned, 0, ""});
    out.runs.back().text += text.push(id_of_token(tokens[t]));
    out.runs.back().tokens += 1;
    out.learned += learned;
  }
  if (out.runs.size() > first) out.runs.back().text += text.finish();
}

// The sequences of a unit, each behind its name.
void add_unit(const CacheRequest& request, std::span<const u32> tokens, double value, ShownDocument& out) {
  const UnitSettings& units = request.settings.units;
  std::string first = "[chosen] ", second = "\n[rejected] ";
  if (units.documents == Documents::judged)
    first = value > 0 ? "[desirable] " : "[undesirable] ", second = "\n[to another prompt] ";
  if (units.documents == Documents::rollouts) first = fmt::format("[advantage {:.4g}] ", value);
  const auto border = std::ranges::find_if(tokens, begins_sequence);
  const auto at = static_cast<size_t>(border - tokens.begin());
  for (const auto& [name, sequence] : {std::pair{first, tokens.first(at)}, {second, tokens.subspan(at)}}) {
    if (sequence.empty()) continue;
    out.runs.push_back({false, 0, name});
    add_runs(request.text, units.scored() ? sequence.first(sequence.size() - 1) : sequence, out);
    if (units.scored()) out.runs.push_back({true, 1, " [score]"}), ++out.learned;
  }
}

// Each token that has a label with the label behind it.
void add_labelled_tokens(const CacheRequest& request, std::span<const u32> tokens,
                         std::span<const float> numbers, ShownDocument& out) {
  DecodeStream text(request.text, {});
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const bool learned = is_learned(tokens[t + 1]);
    std::string piece = text.push(id_of_token(tokens[t]));
    if (learned) {
      const auto label = static_cast<u32>(numbers[t + 1]);
      piece += fmt::format("[{}]", request.settings.labelled->name(label));
    }
    if (out.runs.empty() || out.runs.back().learned != learned) out.runs.push_back({learned, 0, ""});
    out.runs.back().text += piece;
    out.runs.back().tokens += 1;
    out.learned += learned;
  }
  if (!out.runs.empty()) out.runs.back().text += text.finish();
}

// Decodes a document for display. `numbers`: of its tokens, if the objective has some.
ShownDocument shown_document(const CacheRequest& request, std::span<const u32> tokens,
                             std::span<const float> numbers, double value) {
  ShownDocument out{.place = "", .tokens = tokens.size(), .runs = {}};
  if (request.settings.units.on()) {
    add_unit(request, tokens, value, out);
    return out;
  }
  if (request.settings.units.documents == Documents::token_labels) {
    add_labelled_tokens(request, tokens, numbers, out);
    return out;
  }
  const std::optional<ScoreHead>& labelled = request.settings.labelled;
  add_runs(request.text, labelled ? tokens.first(tokens.size() - 1) : tokens, out);
  if (labelled) {
    const u32 label = id_of_token(tokens.back());
    out.runs.push_back({true, 1, fmt::format(" [label {}: {}]", label, labelled->name(label))});
    ++out.learned;
  }
  return out;
}

// Adds the documents of a row one by one.
void add_shown(const CacheRequest& request, const RawDocument& document, const EncodedDocument& encoded,
               std::vector<ShownDocument>& out) {
  const size_t count = std::max<size_t>(encoded.ends.size(), 1);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = i < encoded.ends.size() ? encoded.ends[i] : encoded.tokens.size();
    const size_t width = request.settings.units.numbers;
    ShownDocument one = shown_document(request, std::span(encoded.tokens).subspan(at, end - at),
                                       std::span(encoded.numbers).subspan(at * width, (end - at) * width),
                                       i < encoded.values.size() ? encoded.values[i] : 0);
    one.place = document.place;
    if (!document.last) one.place += " (its beginning)";
    if (count > 1) one.place += fmt::format(" (document {} of {})", i + 1, count);
    out.push_back(std::move(one));
    at = end;
  }
}

Result<void> show_first(const CacheRequest& request, u64 count, ShownDocuments& out) {
  RawDocuments raw(request.files, request.shape, request.text, request.on_bad);
  const DocumentEncoder documents(request.text, request.chat, request.settings);
  BadRecords bad;
  for (u64 shown = 0; shown < count;) {
    TRY_ASSIGN(const std::optional<RawDocument> document, raw.next());
    if (!document) break;
    const Result<EncodedDocument> done = documents.encode(*document, raw.shape().value_or(RecordShape::text));
    if (!done && may_leave_out(request.on_bad, *document, done.error())) {
      bad.add(done.error().message);
      continue;
    }
    if (!done) return done.error();
    if (!document->last) raw.skip_rest();
    add_shown(request, *document, *done, out.documents);
    ++shown;
  }
  BadRecords all = raw.bad();
  all.add(bad);
  add_notes(out.notes, all);
  return {};
}

}  // namespace

Result<OpenedDocuments> open_documents(const std::vector<SourceFiles>& sources, const DataConfig& config,
                                       u32 vocab_size, u32 row_tokens, const DataPlace& place) {
  CHECK(!place.cache.empty(), config.train.size());
  TRY_ASSIGN(const OpenedEncoder encoder,
             checked_encoder(sources, config, place.model_directory, vocab_size));
  OpenedDocuments out{.sources = {}, .notes = encoder.notes};
  for (size_t i = 0; i < sources.size(); ++i) {
    const CacheRequest request = request_for(sources[i], config, encoder, vocab_size, row_tokens);
    TRY_ASSIGN(MadeCache made, open_or_make_cache(request, place));
    out.notes.push_back(note_of(made));
    add_notes(out.notes, made.cache->bad_records());
    if (lacks_end(request, sources[i], config, place.model_directory))
      out.notes.push_back(fmt::format(
          "data: texts get no end token, because no file beside {} has eos_token or eos_token_id; give "
          "tokenizer_config.json an eos_token, or set data.end_token: false",
          encoder.name));
    const bool mixed = !config.weights.empty();
    out.sources.push_back(
        {std::move(made.cache), mixed ? config.weights[i] : 1, mixed ? config.train[i] : ""});
  }
  return out;
}

Result<ShownDocuments> first_documents(const std::vector<SourceFiles>& sources, const DataConfig& config,
                                       u32 vocab_size, u32 row_tokens, const std::string& model_directory,
                                       u64 count) {
  TRY_ASSIGN(const OpenedEncoder encoder, checked_encoder(sources, config, model_directory, vocab_size));
  ShownDocuments out{.documents = {}, .notes = encoder.notes};
  for (const SourceFiles& files : sources)
    TRY(show_first(request_for(files, config, encoder, vocab_size, row_tokens), count, out));
  return out;
}

}  // namespace tidepool
