// Reads the formats of token files, all little-endian. llm.c: 256 x int32 {magic, version, tokens, 0 ...},
// then ids; magic 20240520 version 1 holds uint16, 20240801 version 7 uint32. nanoGPT: uint16 and nothing
// else. .npy: NumPy's format, with one dimension of integers.
#include "data/files/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/read_file.h"
#include "base/text/utf8.h"
#include "data/files/find_files.h"

namespace tidepool {

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

namespace {

constexpr u64 llmc_header_bytes = 256 * 4;

struct LlmcKind {
  i32 magic;
  i32 version;
  u32 token_bytes;
};
constexpr std::array<LlmcKind, 2> llmc_kinds = {{{20240520, 1, 2}, {20240801, 7, 4}}};

Error bad_file(const std::string& path, std::string_view text) {
  return {ErrorKind::bad_input, fmt::format("{}: {}", path, text)};
}

// ids[i] as a number; each id has `width` bytes.
u64 token_at(const std::byte* ids, size_t i, u32 width) {
  u64 id = 0;
  std::memcpy(&id, ids + i * width, width);
  return id;
}

}  // namespace

Result<TokenFile> TokenFile::open(const std::string& path, DataFormat format) {
  TokenFile out;
  out.path_ = path;
  out.format_ = format;
  TRY_ASSIGN(InputFile input, open_input(path, ErrorKind::bad_input));
  out.file_ = std::move(input.fd);
  TRY(out.recognise(Bytes{input.bytes}));
  return out;
}

// Error: io, because the size was checked on opening: an early end now is not a fault of the content.
Result<void> TokenFile::read_bytes(u64 offset, std::span<std::byte> out) const {
  return read_exactly(file_, path_, offset, out, ErrorKind::io);
}

Result<void> TokenFile::recognise(Bytes size) {
  i32 magic = 0;
  if (size.value >= sizeof magic) TRY(read_bytes(0, std::as_writable_bytes(std::span(&magic, 1))));
  if (format_ == DataFormat::automatic) {
    const bool llmc = std::ranges::find(llmc_kinds, magic, &LlmcKind::magic) != llmc_kinds.end();
    const bool npy = has_ending(path_, ".npy");
    format_ = llmc                        ? DataFormat::llmc
              : npy                       ? DataFormat::npy
              : has_ending(path_, ".bin") ? DataFormat::nanogpt
                                          : DataFormat::text;
  }
  if (format_ == DataFormat::llmc) return recognise_llmc(size);
  if (format_ == DataFormat::npy) return recognise_npy(size);

  token_bytes_ = format_ == DataFormat::nanogpt ? 2 : 1;
  if (size.value % token_bytes_ != 0) {
    return bad_file(
        path_,
        fmt::format("{} bytes are not a whole number of uint16 tokens; if this is no nanoGPT file, set "
                    "data.format",
                    size.value));
  }
  tokens_ = size.value / token_bytes_;
  return {};
}

Result<void> TokenFile::recognise_llmc(Bytes size) {
  if (size.value < llmc_header_bytes) {
    return bad_file(
        path_, fmt::format("{} bytes are too few for the 1024-byte header of an llm.c file", size.value));
  }
  std::array<i32, 3> header{};  // magic, version, tokens
  TRY(read_bytes(0, std::as_writable_bytes(std::span(header))));
  const auto kind = std::ranges::find(llmc_kinds, header[0], &LlmcKind::magic);
  if (kind == llmc_kinds.end() || kind->version != header[1]) {
    return bad_file(
        path_, fmt::format("magic {} version {} is not an llm.c token file; known are 20240520 version 1 and "
                           "20240801 version 7",
                           header[0], header[1]));
  }
  header_bytes_ = llmc_header_bytes;
  token_bytes_ = kind->token_bytes;
  tokens_ = static_cast<u32>(header[2]);
  if (size.value != header_bytes_ + tokens_ * token_bytes_) {
    return bad_file(
        path_,
        fmt::format("its header promises {} tokens, so {} bytes, but the file has {}; it is cut off or "
                    "damaged, make it again",
                    tokens_, header_bytes_ + tokens_ * token_bytes_, size.value));
  }
  return {};
}

// Reads "\x93NUMPY", the version, the header's length as u16 (version 1) or u32, and the header: a Python
// dict as text.
Result<void> TokenFile::recognise_npy(Bytes size) {
  constexpr std::string_view magic = "\x93NUMPY";
  std::array<char, 12> front{};
  const size_t front_bytes = std::min<u64>(front.size(), size.value);
  TRY(read_bytes(0, std::as_writable_bytes(std::span(front).first(front_bytes))));
  const u8 version = static_cast<u8>(front[6]);
  if (front_bytes < front.size() || std::string_view(front.data(), magic.size()) != magic || version < 1 ||
      version > 3)
    return bad_file(path_, "is not a .npy file of version 1, 2 or 3");
  u32 header_size = 0;
  const u32 width = version == 1 ? 2 : 4;
  std::memcpy(&header_size, front.data() + 8, width);
  if (header_size > 64 * kib || 8 + width + header_size > size.value)
    return bad_file(path_, fmt::format("its header of {} bytes does not fit into it", header_size));
  std::string header(header_size, '\0');
  TRY(read_bytes(8 + width, std::as_writable_bytes(std::span(header))));
  header_bytes_ = 8 + width + header_size;
  TRY(read_npy_header(header));
  if (size.value != header_bytes_ + tokens_ * token_bytes_)
    return bad_file(
        path_,
        fmt::format(
            "its header promises {} tokens of {} bytes, but {} bytes follow it; it is cut off or damaged",
            tokens_, token_bytes_, size.value - header_bytes_));
  return {};
}

Result<void> TokenFile::read_npy_header(std::string_view header) {
  const auto after = [&](std::string_view key) {
    const size_t at = header.find(key);
    std::string_view rest = at == header.npos ? "" : header.substr(at + key.size());
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    return rest;
  };
  struct Kind {
    std::string_view descr;
    u32 bytes;
  };
  constexpr std::array<Kind, 7> kinds = {
      {{"'|u1'", 1}, {"'<u2'", 2}, {"'<u4'", 4}, {"'<i4'", 4}, {"'<u8'", 8}, {"'<i8'", 8}, {"'<i2'", 0}}};
  const std::string_view descr = after("'descr':");
  const auto kind = std::ranges::find_if(kinds, [&](const Kind& k) { return descr.starts_with(k.descr); });
  if (kind == kinds.end() || kind->bytes == 0)
    return bad_file(
        path_,
        fmt::format("its elements are {}, not |u1, <u2, <u4, <i4, <u8 or <i8; save it with .astype('uint32')",
                    descr.substr(0, descr.find(','))));
  std::string_view shape = after("'shape':");
  u64 count = 0;
  const char* begin = shape.data() + (shape.empty() ? 0 : 1);
  const auto [end, error] = std::from_chars(begin, shape.data() + shape.size(), count);
  std::string_view rest(end, static_cast<size_t>(shape.data() + shape.size() - end));
  while (rest.starts_with(' ') || rest.starts_with(',')) rest.remove_prefix(1);
  if (!shape.starts_with('(') || error != std::errc() || !rest.starts_with(')') || count > (u64{1} << 50))
    return bad_file(path_, "its shape is not one dimension; save it with .reshape(-1)");
  token_bytes_ = kind->bytes;
  tokens_ = count;
  return {};
}

Error TokenFile::bad_token(u64 token, u64 id, u32 vocab_size) const {
  // Labels that are left out of the loss are -100, which as tokens have no meaning.
  const i64 as_signed = token_bytes_ == 8   ? static_cast<i64>(id)
                        : token_bytes_ == 4 ? static_cast<i32>(static_cast<u32>(id))
                                            : static_cast<i64>(id);
  if (as_signed < 0)
    return bad_file(
        path_, fmt::format("token {} at byte offset {} is {}, which is no token id; correct the file", token,
                           header_bytes_ + token * token_bytes_, as_signed));
  return bad_file(
      path_, fmt::format("token {} at byte offset {} is {}, but model.vocab_size is {}; raise vocab_size or "
                         "correct the file",
                         token, header_bytes_ + token * token_bytes_, id, vocab_size));
}

Result<void> TokenFile::read(u64 first, std::span<i32> out, u32 vocab_size) const {
  std::array<std::byte, 16 * kib> buffer;  // on the stack: threads share nothing and nothing is allocated
  while (!out.empty()) {
    const size_t count = std::min(out.size(), buffer.size() / token_bytes_);
    TRY(read_bytes(header_bytes_ + first * token_bytes_, std::span(buffer).first(count * token_bytes_)));
    for (size_t i = 0; i < count; ++i) {
      const u64 id = token_at(buffer.data(), i, token_bytes_);
      if (id >= vocab_size) return bad_token(first + i, id, vocab_size);
      out[i] = static_cast<i32>(id);
    }
    out = out.subspan(count);
    first += count;
  }
  return {};
}

Result<void> TokenFile::scan_piece_at(u64 first, std::span<const std::byte> piece, u32 vocab_size) const {
  const size_t count = piece.size() / token_bytes_;
  for (size_t i = 0; i < count; ++i) {
    const u64 id = token_at(piece.data(), i, token_bytes_);
    if (id >= vocab_size) return bad_token(first + i, id, vocab_size);
  }
  return {};
}

Result<void> TokenFile::scan(u32 vocab_size,
                             const std::function<void(std::span<const std::byte>)>& visit) const {
  const u64 bytes = tokens_ * token_bytes_;
  const bool text = format_ == DataFormat::text;
  // Skips a whole number of pieces after each piece that is read.
  const u64 stride = text ? scan_piece.value
                          : round_up(div_up(bytes, scan_limit.value / scan_piece.value), scan_piece.value);
  std::vector<std::byte> buffer(std::min(scan_piece.value, bytes));
  Utf8Checker utf8;
  for (u64 offset = 0; offset < bytes; offset += std::max(stride, scan_piece.value)) {
    const std::span piece = std::span(buffer).first(std::min(scan_piece.value, bytes - offset));
    TRY(read_bytes(header_bytes_ + offset, piece));
    if (!text) {
      TRY(scan_piece_at(offset / token_bytes_, piece, vocab_size));
    } else if (const auto bad = utf8.feed(piece)) {
      const u64 at = utf8.character(*bad);
      std::byte byte{};
      TRY(read_bytes(header_bytes_ + at, std::span(&byte, 1)));
      return bad_file(
          path_,
          fmt::format("not UTF-8 at byte offset {} (0x{:02x}); convert it (for example with iconv), or set "
                      "data.format if these are token ids",
                      at, static_cast<u32>(byte)));
    }
    visit(piece);
  }
  if (const auto at = utf8.finish(); text && at) {
    return bad_file(path_,
                    fmt::format("ends in the middle of a UTF-8 character that began at byte offset {}", *at));
  }
  return {};
}

}  // namespace tidepool
