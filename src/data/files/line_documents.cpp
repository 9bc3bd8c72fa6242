// Formats whose documents are lines: plain lines, and the records of JSONL.
#include <fmt/format.h>

#include "data/files/document_reader.h"
#include "data/files/line_reader.h"

namespace tidepool {
namespace {

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

class LineDocuments final : public FileDocuments {
 public:
  LineDocuments(std::string path, LineReader lines, bool records)
      : path_(std::move(path)), lines_(std::move(lines)), records_(records) {}

  Result<bool> next(RawDocument& out) override {
    while (true) {
      TRY_ASSIGN(std::optional<std::string> line, lines_.next());
      if (!line) return false;
      if (records_ && lines_.line() == 1) TRY(check_records(*line));
      if (records_ ? line->find_first_not_of(" \t\r") == line->npos : line->empty()) continue;
      out.content = std::move(*line);
      out.place = fmt::format("{}:{}", path_, lines_.line());
      out.record = records_;
      out.first = out.last = true;
      return true;
    }
  }
  u64 bytes_read() const override { return lines_.bytes_read(); }

 private:
  Result<void> check_records(std::string_view first_line) const {
    TRY(check_readable_content(path_, first_line));
    if (!begins_utf16(first_line)) return {};
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: is UTF-16, but JSONL must be UTF-8; convert it, for example with  iconv -f "
                             "UTF-16 -t UTF-8 FILE > OUT",
                             path_)};
  }

  const std::string path_;
  LineReader lines_;
  const bool records_;
};

constexpr u64 plain_line_bytes_max = 256 * mib;  // as of a text without a place to cut

Result<std::unique_ptr<FileDocuments>> open_as(const std::string& path, bool records) {
  TRY_ASSIGN(LineReader lines,
             LineReader::open(path, records ? LineReader::record_bytes_max : plain_line_bytes_max));
  return std::unique_ptr<FileDocuments>(std::make_unique<LineDocuments>(path, std::move(lines), records));
}

}  // namespace

Result<std::unique_ptr<FileDocuments>> open_lines(const std::string& path, const TextCuts&) {
  return open_as(path, false);
}
Result<std::unique_ptr<FileDocuments>> open_records(const std::string& path, const TextCuts&) {
  return open_as(path, true);
}

}  // namespace tidepool
