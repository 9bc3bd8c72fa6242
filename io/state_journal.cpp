#include "io/state_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/open_file.h"
#include "io/disk_error.h"

namespace tidepool {
namespace {

constexpr std::array<char, 8> head_magic = {'T', 'P', 'S', 'T', 'A', 'T', 'E', '\n'};
constexpr std::array<char, 8> commit_magic = {'T', 'P', 'R', 'E', 'C', 'O', 'R', 'D'};
constexpr u64 description_begin = 48, sum_bytes = 8;
constexpr u64 description_max = gib, area_max = gib;

// Values are little-endian, as on every machine that Tidepool runs on.
template <class T>
void put(std::span<std::byte> out, u64 at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const std::byte> from, u64 at) {
  T value{};
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

u64 hash(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

bool is(std::span<const std::byte> bytes, u64 at, const std::array<char, 8>& magic) {
  return bytes.size() >= at + magic.size() && std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

// The magic stands twice, so that one damaged copy does not make the file one of another kind.
bool is_head(std::span<const std::byte> first) {
  return is(first, 0, head_magic) || is(first, 40, head_magic);
}

Error damaged(const std::string& path, const std::string& what) {
  return {ErrorKind::bad_input, fmt::format("{}: {}. Nothing was changed", path, what)};
}

Result<std::vector<std::byte>> read_range(int fd, u64 begin, u64 bytes, const std::string& path) {
  std::vector<std::byte> out(bytes);
  for (u64 at = 0; at < bytes;) {
    const ssize_t got = ::pread(fd, out.data() + at, bytes - at, static_cast<off_t>(begin + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("cannot read", path, errno);
    if (got == 0) return damaged(path, "the file is shorter than it says: it was cut off");
    at += static_cast<u64>(got);
  }
  return out;
}

}  // namespace

u64 JournalHead::areas_begin() const {
  return round_up(description_begin + description.size() + sum_bytes, frame_alignment);
}

void encode_head(const JournalHead& head, std::span<std::byte> out) {
  CHECK(out.size() == head.areas_begin(), out.size());
  std::ranges::fill(out, std::byte{0});
  put(out, 0, head_magic);
  put(out, 8, u64{head.format});
  put(out, 16, head.area_bytes);
  put(out, 24, head.frames_bytes);
  put(out, 32, u64{head.description.size()});
  put(out, 40, head_magic);
  std::memcpy(out.data() + description_begin, head.description.data(), head.description.size());
  put(out, description_begin + head.description.size(),
      hash(out.first(description_begin + head.description.size())));
}

u64 head_bytes(std::span<const std::byte> first) {
  if (first.size() < description_begin || !is_head(first)) return 0;
  return round_up(description_begin + std::min(get<u64>(first, 32), description_max) + sum_bytes,
                  frame_alignment);
}

Result<std::optional<JournalHead>> decode_head(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < description_begin || !is_head(bytes)) return std::optional<JournalHead>();
  const u64 format = get<u64>(bytes, 8);
  if (is(bytes, 0, head_magic) && is(bytes, 40, head_magic) && format > journal_format_max && format < 1000)
    return Error{
        ErrorKind::bad_input,
        fmt::format(
            "{}: has format {}, and this Tidepool reads formats up to {}: resume with the version that "
            "wrote it. Nothing was changed",
            path, format, journal_format_max)};
  JournalHead head{.format = static_cast<u32>(format),
                   .area_bytes = get<u64>(bytes, 16),
                   .frames_bytes = get<u64>(bytes, 24)};
  const u64 description = get<u64>(bytes, 32);
  const bool whole =
      description <= description_max && bytes.size() >= description_begin + description + sum_bytes &&
      get<u64>(bytes, description_begin + description) == hash(bytes.first(description_begin + description));
  if (!whole || format == 0 || format > journal_format_max || head.area_bytes % frame_alignment != 0 ||
      head.area_bytes > area_max)
    return damaged(path, "its head is damaged, so the committed state cannot be found in it");
  head.description.assign(reinterpret_cast<const char*>(bytes.data()) + description_begin, description);
  return std::optional(std::move(head));
}

u64 commit_bytes(u64 chunks, u64 payload) {
  return commit_marks_begin + chunks * commit_mark_bytes + payload + sum_bytes;
}

void encode_commit_begin(std::span<std::byte> commit, u64 sequence, u64 step, u64 chunks, u64 payload) {
  CHECK(commit.size() == commit_bytes(chunks, payload), commit.size(), chunks, payload);
  put(commit, 0, commit_magic);
  put(commit, 8, sequence);
  put(commit, 16, step);
  put(commit, 24, chunks);
  put(commit, 32, payload);
}

void encode_mark(std::span<std::byte> commit, u64 number, const ChunkMark& mark) {
  const u64 at = commit_marks_begin + number * commit_mark_bytes;
  put(commit, at, mark.version);
  put(commit, at + 8, mark.sum);
  put(commit, at + 16, u64{mark.slot & 1} | (mark.zeros ? 2u : 0u) | u64{mark.slot >> 1} << 2);
}

void seal_commit(std::span<std::byte> commit) {
  put(commit, commit.size() - sum_bytes, hash(commit.first(commit.size() - sum_bytes)));
}

// Areas are zeros until a commit is written.
bool has_commit(std::span<const std::byte> area) {
  const auto numbers = area.first(std::min<u64>(area.size(), commit_marks_begin));
  return std::ranges::any_of(numbers, [](std::byte b) { return b != std::byte{0}; });
}

std::optional<StateCommit> decode_commit(std::span<const std::byte> area) {
  if (!is(area, 0, commit_magic) || area.size() < commit_marks_begin + sum_bytes) return std::nullopt;
  const u64 chunks = get<u64>(area, 24), payload = get<u64>(area, 32);
  if (chunks > area.size() / commit_mark_bytes || payload > area.size()) return std::nullopt;
  const u64 bytes = commit_bytes(chunks, payload);
  if (bytes > area.size() || get<u64>(area, bytes - sum_bytes) != hash(area.first(bytes - sum_bytes)))
    return std::nullopt;
  StateCommit commit{.sequence = get<u64>(area, 8), .step = get<u64>(area, 16)};
  for (u64 i = 0; i < chunks; ++i) {
    const u64 at = commit_marks_begin + i * commit_mark_bytes, flags = get<u64>(area, at + 16);
    commit.chunks.push_back({.version = get<u64>(area, at),
                             .sum = get<u64>(area, at + 8),
                             .slot = static_cast<u32>((flags & 1) | (flags >> 2 & 1) << 1),
                             .zeros = (flags & 2) != 0});
  }
  commit.payload.assign(
      reinterpret_cast<const char*>(area.data()) + commit_marks_begin + chunks * commit_mark_bytes, payload);
  return commit;
}

Result<std::optional<FoundState>> find_state(const ReadRange& read, u64 size, const std::string& path) {
  if (size < frame_alignment) return std::optional<FoundState>();
  TRY_ASSIGN(std::vector<std::byte> first, read(0, frame_alignment));
  const u64 bytes = head_bytes(first);
  if (bytes == 0) return std::optional<FoundState>();
  if (bytes > size) return damaged(path, "its head is damaged, so the committed state cannot be found in it");
  TRY_ASSIGN(first, read(0, bytes));
  TRY_ASSIGN(std::optional<JournalHead> head, decode_head(first, path));
  if (!head) return std::optional<FoundState>();
  if (head->frames_begin() > size || size - head->frames_begin() < head->frames_bytes)
    return damaged(path, "the file is shorter than it says: it was cut off");
  FoundState found{.path = path, .head = *head};
  u32 begun = 0, whole = 0;
  for (const u64 area : {u64{0}, u64{1}}) {
    TRY_ASSIGN(const std::vector<std::byte> content, read(head->area(area), head->area_bytes));
    begun += has_commit(content);
    std::optional<StateCommit> commit = decode_commit(content);
    if (!commit) continue;
    ++whole;
    if (commit->sequence > found.commit.sequence) found.commit = *std::move(commit);
  }
  found.newest_is_torn = begun > whole;
  if (begun == 2 && whole == 0) return damaged(path, "both of its commits are damaged");
  return std::optional(std::move(found));
}

Result<std::optional<FoundState>> read_state_file(const std::string& path) {
  const RegularFile file = open_own_to_read(path);
  if (!file.irregular.empty()) return not_a_swap_file(path, file.irregular);
  if (!file) {
    if (file.error_number == ENOENT || file.error_number == ENOTDIR) return std::optional<FoundState>();
    return file_error("cannot read", path, file.error_number);
  }
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) return file_error("cannot read", path, errno);
  return find_state([&](u64 begin, u64 bytes) { return read_range(file.fd.get(), begin, bytes, path); },
                    static_cast<u64>(info.st_size), path);
}

}  // namespace tidepool
