#include "data/documents/raw_documents.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/json/text.h"

namespace tidepool {

namespace {

constexpr u32 ahead_max = 4096;  // records with one prompt in a row

// RETURNS: the prompt as JSON; empty: the record cannot be read.
std::string prompt_of(const RawDocument& record) {
  const auto parsed = parse_json(record.content, ErrorKind::bad_input, record.place);
  if (!parsed || !parsed->is_object()) return {};
  const boost::json::value* prompt = parsed->get_object().if_contains("prompt");
  return prompt == nullptr ? std::string() : boost::json::serialize(*prompt);
}

}  // namespace

RawDocuments::RawDocuments(std::vector<DocumentFile> files, std::optional<RecordShape> named,
                           const TextEncoder& encoder, OnBadRecord on_bad)
    : reader_(std::move(files), {.cut = [&encoder](std::string_view text) { return encoder.cut(text); },
                                 .advice = "make several documents of it, as JSONL with \"text\""}),
      named_(named),
      shape_(named && leaves_form_open(*named) ? std::nullopt : named),
      on_bad_(on_bad) {}

Result<std::optional<RawDocument>> RawDocuments::next() {
  return named_ == RecordShape::judged ? read_beside_neighbour() : read();
}

Result<std::optional<RawDocument>> RawDocuments::read_beside_neighbour() {
  if (!begun_) TRY(read_ahead());
  begun_ = true;
  std::optional<RawDocument> out;
  if (ahead_.empty()) {
    TRY_ASSIGN(out, read());
  } else {
    out = std::move(ahead_.front());
    ahead_.pop_front();
  }
  if (!out) return out;
  std::string prompt = prompt_of(*out);
  // The answer to the last record's prompt serves if that is another prompt.
  if (prompt != last_.prompt && !last_.prompt.empty()) other_ = last_;
  out->neighbour = other_.line;
  // A record that cannot be read lends no answer.
  if (!prompt.empty()) last_ = {out->content, std::move(prompt)};
  return out;
}

// Reads up to the first record with another prompt than the first.
Result<void> RawDocuments::read_ahead() {
  std::string first;
  for (u32 i = 0; i < ahead_max && other_.line.empty(); ++i) {
    TRY_ASSIGN(std::optional<RawDocument> next, read());
    if (!next) break;
    std::string prompt = prompt_of(*next);
    if (first.empty()) first = prompt;
    if (!prompt.empty() && prompt != first) other_ = {next->content, std::move(prompt)};
    ahead_.push_back(std::move(*next));
  }
  return {};
}

Result<std::optional<RawDocument>> RawDocuments::read() {
  while (true) {
    RawDocument out;
    TRY_ASSIGN(const bool found, reader_.next(out));
    if (!found) return std::optional<RawDocument>();
    if (out.record && !shape_) {
      const Result<RecordShape> shape = recognise_record(out.content, out.place, named_);
      if (!shape && on_bad_ == OnBadRecord::error) return shape.error();
      if (!shape) {
        bad_.add(shape.error().message);
        continue;
      }
      shape_ = *shape;
    }
    return std::optional<RawDocument>(std::move(out));
  }
}

}  // namespace tidepool
