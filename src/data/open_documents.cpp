#include "data/open_documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/make_cache.h"
#include "tidepool/check.h"

namespace tidepool {

namespace {

std::optional<RecordShape> shape_of(const DataConfig& config) {
  const auto at = std::ranges::find(record_kinds, config.records) - record_kinds.begin();
  CHECK(at < static_cast<i64>(record_kinds.size()), config.records);
  if (at == 0) return std::nullopt;
  return static_cast<RecordShape>(at - 1);
}

CacheRequest request_for(const SourceFiles& files, const DataConfig& config, const OpenedEncoder& encoder,
                         u32 vocab_size) {
  CacheRequest out{.files = {},
                   .shape = shape_of(config),
                   .text = *encoder.text,
                   .chat = encoder.chat.get(),
                   .settings = {},
                   .identity = encoder.identity};
  for (size_t i = 0; i < files.found.size(); ++i)
    out.files.push_back({files.found[i].path, files.kinds[i] == FileKind::records});
  const auto loss = std::ranges::find(loss_kinds, config.loss) - loss_kinds.begin();
  out.settings = {.loss = static_cast<LossOn>(loss),
                  .end_token = config.end_token ? encoder.end_token : std::nullopt,
                  .vocab_size = vocab_size};
  return out;
}

Result<OpenedEncoder> checked_encoder(const DataConfig& config, const std::string& model_directory,
                                      u32 vocab_size) {
  TRY_ASSIGN(OpenedEncoder encoder, open_encoder(config, model_directory));
  if (encoder.text->vocab_size() > vocab_size)
    return Error{
        ErrorKind::usage,
        fmt::format("{}: has token ids up to {}, but model.vocab_size is {}; is it the model's tokenizer?",
                    encoder.name, encoder.text->vocab_size() - 1, vocab_size)};
  return encoder;
}

std::string files_text(const SourceFiles& files) {
  if (files.found.empty()) return "";
  const size_t more = files.found.size() - 1;
  return files.found[0].path + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string note_of(const MadeCache& made) {
  const CacheCounts& counts = made.cache->counts();
  const double share =
      counts.tokens == 0 ? 0 : static_cast<double>(counts.learned) / static_cast<double>(counts.tokens);
  const std::string left_out =
      counts.without_loss > 0
          ? fmt::format("; {} documents with nothing to learn left out", counts.without_loss)
          : "";
  return fmt::format("data: {} documents of {} tokens, {:.1f}% of them learned{} ({} {})", counts.documents,
                     counts.tokens, 100 * share, left_out, made.made ? "tokenized into" : "found in",
                     made.cache->directory());
}

}  // namespace

Result<OpenedDocuments> open_documents(const std::vector<SourceFiles>& sources, const DataConfig& config,
                                       u32 vocab_size, const DataPlace& place) {
  CHECK(!place.cache.empty(), config.train.size());
  TRY_ASSIGN(const OpenedEncoder encoder, checked_encoder(config, place.model_directory, vocab_size));
  OpenedDocuments out;
  for (size_t i = 0; i < sources.size(); ++i) {
    TRY_ASSIGN(MadeCache made,
               open_or_make_cache(request_for(sources[i], config, encoder, vocab_size), place));
    out.notes.push_back(note_of(made));
    const bool mixed = !config.weights.empty();
    out.sources.push_back({std::move(made.cache), mixed ? config.weights[i] : 1, mixed ? config.train[i] : "",
                           files_text(sources[i])});
  }
  return out;
}

Result<std::vector<ShownDocument>> first_documents(const std::vector<SourceFiles>& sources,
                                                   const DataConfig& config, u32 vocab_size,
                                                   const std::string& model_directory, u64 count) {
  TRY_ASSIGN(const OpenedEncoder encoder, checked_encoder(config, model_directory, vocab_size));
  std::vector<ShownDocument> out;
  for (const SourceFiles& files : sources) {
    const CacheRequest request = request_for(files, config, encoder, vocab_size);
    RawDocuments raw(request.files, request.shape, request.text);
    const DocumentEncoder documents(request.text, request.chat, request.settings);
    for (u64 i = 0; i < count; ++i) {
      TRY_ASSIGN(const std::optional<RawDocument> document, raw.next());
      if (!document) break;
      std::vector<u32> tokens;
      TRY(documents.encode(*document, raw.shape().value_or(RecordShape::text), tokens));
      ShownDocument shown{.place = document->place, .tokens = tokens.size()};
      for (size_t at = 0; at < tokens.size();) {
        const auto learned_at = [&](size_t t) { return t > 0 && is_learned(tokens[t]); };
        std::vector<u32> ids;
        const bool learned = learned_at(at);
        for (; at < tokens.size() && learned_at(at) == learned; ++at) ids.push_back(id_of_token(tokens[at]));
        shown.learned += learned ? ids.size() : 0;
        shown.runs.push_back({learned, ids.size(), encoder.text->decode(ids)});
      }
      out.push_back(std::move(shown));
    }
  }
  return out;
}

}  // namespace tidepool
