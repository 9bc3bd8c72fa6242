// ByteStream has one class per packing, plain, gzip and zstd, and names other packings that it refuses.
#include "data/files/byte_stream.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/read_file.h"

namespace tidepool {

namespace {

constexpr size_t buffer_bytes = 128 * kib;
constexpr int zstd_window_log_max = 27;  // 128 MiB, the default limit of the command line tool

Error bad_stream(const std::string& path, u64 offset, std::string_view text) {
  return {ErrorKind::bad_input, fmt::format("{}: byte {}: {}", path, offset, text)};
}

// Stream of an uncompressed file.
class FileStream final : public ByteStream {
 public:
  FileStream(std::string path, InputFile input) : path_(std::move(path)), input_(std::move(input)) {}

  Result<size_t> read(std::span<char> out) override {
    const u64 bytes = std::min<u64>(out.size(), input_.bytes - at_);
    TRY(read_exactly(input_.fd, path_, at_, std::as_writable_bytes(out.first(bytes)), ErrorKind::io));
    at_ += bytes;
    return bytes;
  }
  u64 bytes_read() const override { return at_; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const InputFile input_;
  u64 at_ = 0;
};

// Base of both decompressors: holds compressed bytes that were read but not used yet.
class Unpacking : public ByteStream {
 public:
  explicit Unpacking(std::unique_ptr<FileStream> file) : file_(std::move(file)), buffer_(buffer_bytes) {}
  u64 bytes_read() const override { return file_->bytes_read(); }

 protected:
  std::span<char> packed() { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void used(size_t bytes) { begin_ += bytes; }
  // RETURNS: false at the end of the file.
  Result<bool> refill() {
    TRY_ASSIGN(end_, file_->read(buffer_));
    begin_ = 0;
    return end_ > 0;
  }
  Error fault(std::string_view text) const {
    return bad_stream(file_->path(), file_->bytes_read() - (end_ - begin_), text);
  }

 private:
  const std::unique_ptr<FileStream> file_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
};

// Decompresses one gzip member, or several in sequence, as `cat a.gz b.gz` makes; zeros may follow, to fill a
// block.
class GzipStream final : public Unpacking {
 public:
  explicit GzipStream(std::unique_ptr<FileStream> file) : Unpacking(std::move(file)) {
    good_ = inflateInit2(&z_, 15 + 16) == Z_OK;  // the largest window, a gzip header
  }
  ~GzipStream() override { inflateEnd(&z_); }

  Result<size_t> read(std::span<char> out) override {
    if (!good_) return Error{ErrorKind::internal, "zlib has no memory"};
    while (!out.empty()) {
      if (packed().empty()) {
        TRY_ASSIGN(const bool more, refill());
        if (!more && inside_) return fault("the gzip data ends in the middle; the file was cut off");
        if (!more) return 0;
      }
      if (between_ && skip_zeros()) continue;
      between_ = false;
      TRY_ASSIGN(const size_t made, inflate_some(out));
      if (made > 0) return made;
    }
    return 0;
  }

 private:
  bool skip_zeros() {
    const std::span from = packed();
    const auto zeros = std::ranges::find_if(from, [](char c) { return c != 0; }) - from.begin();
    used(static_cast<size_t>(zeros));
    return zeros > 0;
  }

  Result<size_t> inflate_some(std::span<char> out) {
    const std::span from = packed();
    z_.next_in = reinterpret_cast<Bytef*>(from.data());
    z_.avail_in = static_cast<uInt>(from.size());
    z_.next_out = reinterpret_cast<Bytef*>(out.data());
    z_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1 << 30));
    const size_t room = z_.avail_out;
    const int code = ::inflate(&z_, Z_NO_FLUSH);
    used(from.size() - z_.avail_in);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      return fault(fmt::format("the gzip data is damaged: {}", z_.msg ? z_.msg : "no gzip data"));
    inside_ = code != Z_STREAM_END;
    between_ = !inside_;
    if (between_) inflateReset(&z_);
    return room - z_.avail_out;
  }

  z_stream z_{};
  bool good_ = false, inside_ = true;
  bool between_ = false;  // between members: the next byte is a zero, or begins a member
};

class ZstdStream final : public Unpacking {
 public:
  explicit ZstdStream(std::unique_ptr<FileStream> file)
      : Unpacking(std::move(file)), z_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (z_) ZSTD_DCtx_setParameter(z_.get(), ZSTD_d_windowLogMax, zstd_window_log_max);
  }

  Result<size_t> read(std::span<char> out) override {
    if (!z_) return Error{ErrorKind::internal, "zstd has no memory"};
    while (!out.empty()) {
      if (packed().empty() && !has_more_) {
        TRY_ASSIGN(const bool more, refill());
        if (!more && inside_) return fault("the zstd data ends in the middle; the file was cut off");
        if (!more) return 0;
      }
      ZSTD_inBuffer from{packed().data(), packed().size(), 0};
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      const size_t code = ZSTD_decompressStream(z_.get(), &to, &from);
      used(from.pos);
      if (ZSTD_isError(code))
        return fault(fmt::format("the zstd data is damaged: {}", ZSTD_getErrorName(code)));
      inside_ = code != 0;
      has_more_ = to.pos == to.size && inside_;  // the decoder may hold output that did not fit
      if (to.pos > 0) return to.pos;
    }
    return 0;
  }

 private:
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> z_;
  bool inside_ = true, has_more_ = false;
};

Packed packing_from(std::span<const unsigned char> magic) {
  constexpr std::array<unsigned char, 2> gzip = {0x1f, 0x8b};
  constexpr std::array<unsigned char, 4> zstd = {0x28, 0xb5, 0x2f, 0xfd};
  if (magic.size() >= 4 && std::equal(zstd.begin(), zstd.end(), magic.begin())) return Packed::zstd;
  if (magic.size() >= 2 && std::equal(gzip.begin(), gzip.end(), magic.begin())) return Packed::gzip;
  return Packed::no;
}

Result<Packed> packing_of_input(const std::string& path, const InputFile& input) {
  std::array<unsigned char, 4> magic{};
  const std::span begin = std::span(magic).first(std::min<u64>(magic.size(), input.bytes));
  TRY(read_exactly(input.fd, path, 0, std::as_writable_bytes(begin), ErrorKind::io));
  return packing_from(begin);
}

struct Foreign {
  std::string_view magic;
  const char *what, *instead;
};
constexpr const char* as_jsonl =
    "write it as JSONL, for example with pandas: read_parquet(FILE).to_json(OUT, orient=\"records\", "
    "lines=True)";
constexpr Foreign foreign_files[] = {
    {"PAR1", "Parquet", as_jsonl},
    {"ARROW1", "Arrow", "write it as JSONL, for example with datasets: Dataset.from_file(FILE).to_json(OUT)"},
    {{"\xff\xff\xff\xff", 4},
     "Arrow",
     "write it as JSONL, for example with datasets: Dataset.from_file(FILE).to_json(OUT)"},
    {"Obj\1", "Avro", "write it as JSONL"},
    {"\x89HDF", "HDF5", "write it as JSONL"},
    {"SQLite format 3", "an SQLite database", "write it as JSONL"},
    {"\x93NUMPY", "an array of NumPy", "name it with the ending .npy if it holds token ids"},
    {"\x80\2", "a Python pickle", "write it as JSONL"},
    {"\x80\3", "a Python pickle", "write it as JSONL"},
    {"\x80\4", "a Python pickle", "write it as JSONL"},
    {"\x80\5", "a Python pickle", "write it as JSONL"},
    {"7z\xbc\xaf", "a 7z archive", "unpack it"},
    {"Rar!", "a RAR archive", "unpack it"},
    {"\x04\x22\x4d\x18", "lz4", "unpack it, or pack it with gzip or zstd"},
    {{"\xfd"
      "7zXZ\0",
      6},
     "xz",
     "unpack it, or pack it with gzip or zstd"},
    {"BZh", "bzip2", "unpack it, or pack it with gzip or zstd"},
    {"PK\3\4", "a zip archive", "unpack it"},
    {"%PDF-", "a PDF", "turn it into text, for example with pdftotext"},
};

}  // namespace

Result<Packed> packing_of(const std::string& path) {
  TRY_ASSIGN(const InputFile input, open_input(path, ErrorKind::bad_input));
  return packing_of_input(path, input);
}

Result<void> check_readable_kind(const std::string& path) {
  TRY_ASSIGN(const InputFile input, open_input(path, ErrorKind::bad_input));
  std::array<char, 16> begin{};
  const std::span magic = std::span(begin).first(std::min<u64>(begin.size(), input.bytes));
  TRY(read_exactly(input.fd, path, 0, std::as_writable_bytes(magic), ErrorKind::io));
  return check_readable_content(path, std::string_view(magic.data(), magic.size()));
}

Result<void> check_readable_content(const std::string& path, std::string_view content) {
  for (const Foreign& foreign : foreign_files)
    if (content.starts_with(foreign.magic))
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: is {}, which is not supported; {}", path, foreign.what, foreign.instead)};
  return {};
}

Result<std::unique_ptr<ByteStream>> open_byte_stream(const std::string& path) {
  TRY_ASSIGN(InputFile input, open_input(path, ErrorKind::bad_input));
  TRY_ASSIGN(const Packed packed, packing_of_input(path, input));
  auto file = std::make_unique<FileStream>(path, std::move(input));
  if (packed == Packed::gzip)
    return std::unique_ptr<ByteStream>(std::make_unique<GzipStream>(std::move(file)));
  if (packed == Packed::zstd)
    return std::unique_ptr<ByteStream>(std::make_unique<ZstdStream>(std::move(file)));
  return std::unique_ptr<ByteStream>(std::move(file));
}

}  // namespace tidepool
