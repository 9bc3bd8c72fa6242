// StateJournal is the format of a swap file from which a killed run resumes; docs/state-file.md describes it.
//
//   head        what the file is: magic, format, sizes, a description (JSON), its checksum; written once
//   area 0, 1   commits, in turn: each chunk's version, checksum and slot; the step; a payload
//   frames      the slots, and what else the plan keeps on disk
//
// A commit is written after the data that it counts on is durable, and counts once it is durable itself. Its
// checksum tells a whole commit from one that was torn: then the other area has the commit before it, whose
// slots have not been written to since.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Format 1 has two slots per chunk. Format 2 may have more, and marks say so with a bit that readers of
// format 1 do not know.
inline constexpr u32 journal_format_max = 2;
constexpr u32 journal_slots_max(u32 format) { return format == 1 ? 2 : 4; }
constexpr u32 journal_format(u32 slots) { return slots <= journal_slots_max(1) ? 1 : 2; }

struct JournalHead {
  u32 format = 1;
  u64 area_bytes = 0;       // of each of the two areas; a multiple of frame_alignment
  u64 frames_bytes = 0;     // of all frames
  std::string description;  // JSON: whose state it is, and which chunk is where

  u64 areas_begin() const;
  u64 area(u64 sequence) const { return areas_begin() + sequence % 2 * area_bytes; }
  u64 frames_begin() const { return areas_begin() + 2 * area_bytes; }
  u64 file_bytes() const { return frames_begin() + frames_bytes; }
};

struct ChunkMark {
  u64 version = 0;     // writes so far; the checksum is seeded with it
  u64 sum = 0;         // XXH3-64 of the content
  u32 slot = 0;        // below journal_slots_max()
  bool zeros = false;  // the content is zeros, and has no checksum
  bool operator==(const ChunkMark&) const = default;
};

struct StateCommit {
  u64 sequence = 0;  // from 1
  u64 step = 0;      // finished optimizer steps
  std::vector<ChunkMark> chunks;
  std::string payload;
};

// Bytes of a commit, without the padding to whole pages.
u64 commit_bytes(u64 chunks, u64 payload);

// REQUIRES: out.size() == head.areas_begin(); it is filled to its end.
void encode_head(const JournalHead& head, std::span<std::byte> out);
// RETURNS: nullopt if the bytes are of another kind of file.
// Errors: bad_input if the head is damaged, or of another format. `path` is for messages.
Result<std::optional<JournalHead>> decode_head(std::span<const std::byte>, const std::string& path);
// Length of the head that begins with these bytes (at least frame_alignment of them); 0: it is no head.
u64 head_bytes(std::span<const std::byte> first);

// Bytes before the marks, which begin at this offset of a commit; the payload follows them.
inline constexpr u64 commit_marks_begin = 40;
inline constexpr u64 commit_mark_bytes = 24;
// Writes the numbers before the marks, one mark, and, once all is in place, the checksum at the end.
void encode_commit_begin(std::span<std::byte> commit, u64 sequence, u64 step, u64 chunks, u64 payload);
void encode_mark(std::span<std::byte> commit, u64 number, const ChunkMark&);
void seal_commit(std::span<std::byte> commit);

// RETURNS: the commit in an area; nullopt if there is none, or it was torn.
std::optional<StateCommit> decode_commit(std::span<const std::byte> area);
// True if a commit was begun here, whole, torn or damaged.
bool has_commit(std::span<const std::byte> area);

struct FoundState {
  std::string path;
  JournalHead head;
  StateCommit commit;           // sequence 0: nothing was committed yet
  bool newest_is_torn = false;  // the other area holds a torn commit, or a damaged one
};

// Reads bytes of a file, all of which are inside it.
using ReadRange = std::function<Result<std::vector<std::byte>>(u64 begin, u64 bytes)>;
// Reads head and areas of a file of `file_bytes` bytes.
// RETURNS: nullopt if the file is of another kind.
// Errors: those of `read`; bad_input as decode_head(), if the file is shorter than its head says, or if both
// commits are damaged.
Result<std::optional<FoundState>> find_state(const ReadRange& read, u64 file_bytes, const std::string& path);
// As find_state(), without a lock. RETURNS: nullopt also if there is no file. Errors: io if it cannot be
// read.
Result<std::optional<FoundState>> read_state_file(const std::string& path);

}  // namespace tidepool
