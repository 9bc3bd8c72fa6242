#include "data/documents/raw_documents.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidepool {

namespace {

constexpr size_t read_bytes = 1 * mib;
constexpr size_t uncut_bytes_max = 256 * mib;  // of a text without a place to cut

// True if a line is UTF-16: it has a byte order mark, or zeros beside ASCII. Then no line of the file is
// JSON.
bool begins_utf16(std::string_view first_line) {
  if (first_line.starts_with("\xff\xfe") || first_line.starts_with("\xfe\xff")) return true;
  const std::string_view begin = first_line.substr(0, 4);
  const auto is_zero_in_turn = [&](size_t first) {
    for (size_t i = 0; i < begin.size(); ++i)
      if ((begin[i] == 0) != (i % 2 == first)) return false;
    return begin.size() >= 2;
  };
  return is_zero_in_turn(0) || is_zero_in_turn(1);
}

}  // namespace

RawDocuments::RawDocuments(std::vector<File> files, std::optional<RecordShape> named,
                           const TextEncoder& encoder, OnBadRecord on_bad)
    : files_(std::move(files)),
      named_(named),
      shape_(named == RecordShape::completion ? std::nullopt : named),
      encoder_(encoder),
      on_bad_(on_bad) {}

u64 RawDocuments::bytes_read() const {
  return bytes_before_ + (lines_ ? lines_->bytes_read() : text_ ? text_->bytes_read() : 0);
}

Result<bool> RawDocuments::open_next() {
  bytes_before_ = bytes_read();
  lines_.reset();
  text_.reset();
  if (next_file_ == files_.size()) return false;
  const File& file = files_[next_file_++];
  if (file.records) {
    TRY_ASSIGN(LineReader lines, LineReader::open(file.path));
    lines_.emplace(std::move(lines));
  } else {
    TRY_ASSIGN(text_, open_byte_stream(file.path));
    part_first_ = true;
    text_ended_ = false;
    window_ = part_bytes;
  }
  return true;
}

Result<std::optional<RawDocument>> RawDocuments::next() {
  while (true) {
    if (lines_ || text_) {
      TRY_ASSIGN(std::optional<RawDocument> found, lines_ ? next_line() : next_part());
      if (found) return found;
    }
    TRY_ASSIGN(const bool more, open_next());
    if (!more) return std::optional<RawDocument>();
  }
}

Result<std::optional<RawDocument>> RawDocuments::next_line() {
  while (true) {
    TRY_ASSIGN(std::optional<std::string> line, lines_->next());
    if (!line) return std::optional<RawDocument>();
    const std::string& path = files_[next_file_ - 1].path;
    if (lines_->line() == 1) TRY(check_readable_content(path, *line));
    if (lines_->line() == 1 && begins_utf16(*line))
      return Error{
          ErrorKind::bad_input,
          fmt::format("{}: is UTF-16, but JSONL must be UTF-8; convert it, for example with  iconv -f "
                      "UTF-16 -t UTF-8 FILE > OUT",
                      path)};
    if (line->find_first_not_of(" \t\r") == line->npos) continue;
    RawDocument out{
        .content = std::move(*line), .place = fmt::format("{}:{}", path, lines_->line()), .record = true};
    if (!shape_) {
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

void RawDocuments::skip_rest() {
  if (!text_) return;
  text_ended_ = true;
  buffer_.clear();
  at_ = 0;
}

// RETURNS: length of the next part in the buffer; 0 if unknown yet, or if nothing is left. A part that is not
// the last is only cut when more text follows, so the last part is known to be last. Each search for a cut
// looks at twice as many bytes.
size_t RawDocuments::part_size() {
  const std::string_view left = std::string_view(buffer_).substr(at_);
  for (; window_ < left.size(); window_ *= 2) {
    if (const size_t cut = encoder_.cut(left.substr(0, window_)); cut > 0) return cut;
  }
  return text_ended_ ? left.size() : 0;
}

Result<void> RawDocuments::read_more() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + read_bytes);
  const Result<size_t> got = text_->read(std::span(buffer_).subspan(had));
  buffer_.resize(had + (got ? *got : 0));
  if (!got) return got.error();
  text_ended_ = *got == 0;
  return {};
}

Result<std::optional<RawDocument>> RawDocuments::next_part() {
  const std::string& path = files_[next_file_ - 1].path;
  while (true) {
    if (const size_t bytes = part_size(); bytes > 0) {
      RawDocument out{.content = buffer_.substr(at_, bytes),
                      .place = path,
                      .first = part_first_,
                      .last = text_ended_ && at_ + bytes == buffer_.size()};
      at_ += bytes;
      window_ = part_bytes;
      part_first_ = false;
      return std::optional<RawDocument>(std::move(out));
    }
    if (text_ended_) return std::optional<RawDocument>();
    if (buffer_.size() - at_ > uncut_bytes_max)
      return Error{ErrorKind::bad_input, fmt::format("{}: {} bytes of text without a place where this "
                                                     "tokenizer allows a cut; make several documents "
                                                     "of it, as JSONL with \"text\"",
                                                     path, buffer_.size() - at_)};
    TRY(read_more());
  }
}

}  // namespace tidepool
