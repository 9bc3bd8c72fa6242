#include "data/batches/make_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/read_file.h"

namespace tidepool {

namespace fs = std::filesystem;

namespace {

constexpr u64 sample_bytes = 64 * kib;  // from each end of a file, for the cache key
// Amount that is read and encoded together, per core: eight parts of a text, so that all cores finish at
// about the same time.
constexpr size_t core_bytes = 8 * DocumentReader::part_bytes, core_documents = 2048;

// The words of earlier versions, so that their caches are found.
std::string_view format_key(DocumentFormat format) {
  switch (format) {
    case DocumentFormat::text:
      return "false";
    case DocumentFormat::records:
      return "true";
    case DocumentFormat::lines:
      return "lines";
  }
  return "";
}

Result<std::string> sample_of(const DocumentFile& file) {
  TRY_ASSIGN(const InputFile input, open_input(file.path, ErrorKind::bad_input));
  struct stat st {};
  if (::fstat(input.fd.get(), &st) != 0)
    return Error{ErrorKind::io, fmt::format("{}: cannot stat", file.path)};
  std::vector<std::byte> bytes(std::min(2 * sample_bytes, input.bytes));
  const u64 head = std::min(sample_bytes, bytes.size());
  TRY(read_exactly(input.fd, file.path, 0, std::span(bytes).first(head), ErrorKind::io));
  TRY(read_exactly(input.fd, file.path, input.bytes - (bytes.size() - head), std::span(bytes).subspan(head),
                   ErrorKind::io));
  return fmt::format("{} {} {} {}.{} {:x}\n", fs::path(file.path).filename().string(),
                     format_key(file.format), input.bytes, st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                     XXH3_64bits(bytes.data(), bytes.size()));
}

// One batch of raw documents, encoded to tokens in the same order.
class Batch {
 public:
  Batch(CorePool* pool, OnBadRecord on_bad, const UnitSettings& units)
      : pool_(pool),
        cores_(pool ? pool->workers() : 1),
        on_bad_(on_bad),
        scoring_(units.scoring != TargetOutput::nothing),
        numbers_(units.numbers) {}
  bool full() const { return bytes_ >= cores_ * core_bytes || documents_.size() == cores_ * core_documents; }
  void add(RawDocument document) {
    bytes_ += document.content.size();
    documents_.push_back(std::move(document));
  }

  // Encodes all documents.
  // Error: the first in the documents' order, whatever thread found it. With OnBadRecord::skip, errors of
  // records are added to `bad` instead, and those records have no tokens.
  Result<void> encode(const DocumentEncoder& encoder, RecordShape shape, BadRecords& bad) {
    std::vector<EncodedDocument> encoded(documents_.size());
    std::vector<Result<void>> results(documents_.size());
    const auto one = [&](u32 i, u32) {
      Result<EncodedDocument> made = encoder.encode(documents_[i], shape);
      if (made) encoded[i] = std::move(*made);
      if (!made) results[i] = made.error();
    };
    if (pool_) {
      parallel_for(*pool_, Priority::normal, static_cast<u32>(documents_.size()), one);
    } else {
      for (u32 i = 0; i < documents_.size(); ++i) one(i, 0);
    }
    encoded_ = std::move(encoded);
    left_out_.assign(documents_.size(), false);
    for (size_t i = 0; i < results.size(); ++i) {
      left_out_[i] = !results[i] && may_leave_out(on_bad_, documents_[i], results[i].error());
      if (left_out_[i]) bad.add(results[i].error().message);
      if (!left_out_[i]) TRY(std::move(results[i]));
    }
    return {};
  }

  Result<void> write(TokenCacheWriter& writer) {
    for (size_t i = 0; i < documents_.size(); ++i, ++record_) {
      if (left_out_[i]) continue;
      const EncodedDocument& d = encoded_[i];
      const std::span<const u32> tokens = d.tokens;
      const size_t width = numbers_;
      const std::span<const float> numbers = d.numbers;
      size_t at = 0;
      for (size_t n = 0; n < d.ends.size(); ++n) {
        const size_t count = d.ends[n] - at;
        TRY(writer.append(tokens.subspan(at, count), numbers.subspan(at * width, count * width)));
        TRY(writer.end_document(scoring_           ? static_cast<double>(record_)
                                : d.values.empty() ? 0
                                                   : d.values[n],
                                d.shared.empty() ? SharedPrompt{} : d.shared[n]));
        at = d.ends[n];
      }
      TRY(writer.append(tokens.subspan(at), numbers.subspan(at * width)));
    }
    documents_.clear();
    bytes_ = 0;
    return {};
  }

 private:
  std::vector<RawDocument> documents_;
  std::vector<EncodedDocument> encoded_;
  std::vector<bool> left_out_;
  size_t bytes_ = 0;
  CorePool* const pool_;
  const size_t cores_;
  const OnBadRecord on_bad_;
  const bool scoring_;
  const u32 numbers_;  // of a token
  u64 record_ = 0;     // of the records of all batches
};

Result<void> encode_all(const CacheRequest& request, const DataPlace& place, TokenCacheWriter& writer) {
  RawDocuments source(request.files, request.shape, request.text, request.on_bad);
  const DocumentEncoder encoder(request.text, request.chat, request.settings);
  DataProgress progress;
  for (const DocumentFile& file : request.files) {
    std::error_code unused;
    progress.bytes_total += fs::file_size(file.path, unused);
  }
  Batch batch(place.pool, request.on_bad, request.settings.units);
  BadRecords bad;
  for (bool more = true; more;) {
    TRY_ASSIGN(std::optional<RawDocument> document, source.next());
    more = document.has_value();
    if (more) batch.add(std::move(*document));
    if (more && !batch.full()) continue;
    TRY(batch.encode(encoder, source.shape().value_or(RecordShape::text), bad));
    TRY(batch.write(writer));
    progress.bytes = source.bytes_read();
    progress.documents = writer.counts().documents;
    progress.tokens = writer.counts().tokens;
    place.progress(progress);
  }
  BadRecords all = source.bad();  // records before the first one with a known shape
  all.add(bad);
  writer.set_bad_records(std::move(all));
  return {};
}

CacheParts parts_of(const UnitSettings& units) {
  return {.values = units.scored() || units.scoring != TargetOutput::nothing ||
                    units.documents == Documents::judged || units.documents == Documents::rollouts,
          .shared = units.on() && units.scoring == TargetOutput::nothing,
          .numbers = units.numbers};
}

Error nothing_to_learn(const CacheRequest& request, const CacheCounts& counts, const BadRecords& bad) {
  const size_t others = request.files.size() - 1;
  const std::string files = request.files[0].path + (others > 0 ? fmt::format(" and {} more", others) : "");
  if (bad.count > 0)
    return {
        ErrorKind::bad_input,
        fmt::format(
            "{}: data.on_bad_record: skip left out all of its records{}; the first of {} left out: {}", files,
            counts.without_loss > 0 ? fmt::format(" but {} with nothing to learn", counts.without_loss) : "",
            bad.count, bad.first.front())};
  if (counts.without_loss == 0)
    return {ErrorKind::bad_input,
            fmt::format("{}: holds no document; name files that hold documents", files)};
  return {
      ErrorKind::bad_input,
      request.settings.labelled
          ? fmt::format("{}: all of its {} texts are empty; a text with a label needs a token", files,
                        counts.without_loss)
          : fmt::format(
                "{}: no document has anything to learn ({} have none): a text needs two tokens, a chat an "
                "answer; see data.loss, and look at them with  tidepool tokenize CONFIG --show 3",
                files, counts.without_loss)};
}

}  // namespace

Result<std::string> cache_key(const CacheRequest& request) {
  std::string text =
      fmt::format("{}\n{}\n{} {} {} {}\n", encoding_version, request.identity,
                  request.shape ? name_of(*request.shape) : "auto", static_cast<int>(request.settings.loss),
                  request.settings.end_token ? static_cast<i64>(*request.settings.end_token) : -1,
                  request.chat ? request.chat->fingerprint() : "no chat template");
  if (request.on_bad == OnBadRecord::skip) text += "bad records are left out\n";
  if (const auto& labelled = request.settings.labelled)
    text += fmt::format("{} labels {}, texts of {}\n", labelled->labels, fmt::join(labelled->names, "\n"),
                        request.settings.text_tokens_max);
  if (const u32 numbers = request.settings.units.numbers; numbers > 0)
    text += fmt::format("{} numbers of a token\n", numbers);
  if (request.settings.units.documents == Documents::distributions)
    text += fmt::format("temperature {}\n", request.settings.units.temperature);
  if (const UnitSettings& units = request.settings.units; units.on()) {
    text += fmt::format("units {}, sequences of {}\n", static_cast<int>(units.documents),
                        units.sequence_tokens_max);
    if (parts_of(units).shared) text += "shared prompts are known\n";
    if (units.scoring != TargetOutput::nothing)
      text += fmt::format("scored {}\n", static_cast<int>(units.scoring));
    if (units.documents >= Documents::judged)
      text += fmt::format("{} of them, advantages {} {}\n", units.sequences, units.advantages.leave_one_out,
                          units.advantages.scaled);
  }
  for (const DocumentFile& file : request.files) {
    TRY_ASSIGN(const std::string sample, sample_of(file));
    text += sample;
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

Result<MadeCache> open_or_make_cache(const CacheRequest& request, const DataPlace& place) {
  TRY_ASSIGN(const std::string key, cache_key(request));
  const std::string directory = fmt::format("{}/{}", place.cache, key);
  MadeCache out;
  std::error_code unused;
  if (is_old_cache(directory)) {
    fs::remove_all(directory, unused);  // a process that has it open can read on
    out.replaced = true;
  }
  if (!fs::exists(directory, unused)) {
    if (place.use == DataUse::counting)
      return Error{ErrorKind::usage, fmt::format("{}: is not tokenized yet", request.files[0].path)};
    remove_unfinished_caches(place.cache);
    TRY_ASSIGN(const std::unique_ptr<TokenCacheWriter> writer,
               TokenCacheWriter::create(directory, key, parts_of(request.settings.units)));
    TRY(encode_all(request, place, *writer));
    if (writer->counts().documents == 0)
      return nothing_to_learn(request, writer->counts(), writer->bad_records());
    TRY(writer->finish());
    out.made = true;
  }
  TRY_ASSIGN(out.cache, TokenCache::open(directory, key));
  return out;
}

}  // namespace tidepool
