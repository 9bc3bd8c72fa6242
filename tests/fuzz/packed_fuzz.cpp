// Fuzzes files of text, plain or compressed with gzip or zstd, read up to a limit, because a bomb would
// unpack to gigabytes. Reading in pieces of any size gives the same text, and lines are the text between line
// ends.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "data/files/byte_stream.h"
#include "data/files/line_reader.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

constexpr size_t text_bytes_max = 64 * kib;

struct Text {
  std::string bytes;
  bool whole = false;  // neither damaged nor longer than the limit
};

Text read(const std::string& path, size_t piece_bytes) {
  Text out;
  const auto stream = open_byte_stream(path).value();
  while (out.bytes.size() < text_bytes_max) {
    std::string piece(piece_bytes, '\0');
    const Result<size_t> got = stream->read(std::span(piece));
    if (!got) return check_refusal(got.error()), out;
    CHECK(*got <= piece.size(), *got);
    out.bytes.append(piece, 0, *got);
    out.whole = *got == 0;
    if (out.whole) break;
  }
  return out;
}

std::string lines_of(std::string_view text) {
  std::string out;
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (first && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    out.append(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line).append("\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

void packed(std::string_view input) {
  const std::string path = file("fuzz.txt", input);
  if (const Result<void> readable = check_readable_kind(path); !readable) check_refusal(readable.error());
  const Text whole = read(path, 16 * kib), pieces = read(path, 777);
  CHECK(whole.whole == pieces.whole);
  const size_t both = std::min(whole.bytes.size(), pieces.bytes.size());
  CHECK(whole.bytes.compare(0, both, pieces.bytes, 0, both) == 0);
  if (packing_of(path).value() == Packed::no) CHECK(whole.bytes == input);
  if (!whole.whole) return;
  CHECK(whole.bytes == pieces.bytes);

  LineReader reader = LineReader::open(path).value();
  std::string lines;
  while (const std::optional<std::string> line = reader.next().value()) lines += *line + "\n";
  CHECK(lines == lines_of(whole.bytes));
}

}  // namespace tidepool::fuzz
