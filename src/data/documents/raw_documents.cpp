#include "data/documents/raw_documents.h"

#include <utility>

namespace tidepool {

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
  std::optional<RawDocument> out = std::exchange(ahead_, std::nullopt);
  if (!out) {
    TRY_ASSIGN(out, read());
  }
  if (!out) return out;
  if (!before_) {
    TRY_ASSIGN(ahead_, read());
    before_ = ahead_ ? ahead_->content : out->content;
  }
  out->neighbour = std::exchange(*before_, out->content);
  return out;
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
