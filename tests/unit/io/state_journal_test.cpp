#include "io/state_journal.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "io/disk.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::state_journal_test {

using ::testing::HasSubstr;
using Content = std::vector<std::byte>;

JournalHead head_of(u64 description_bytes = 10'000) {
  JournalHead head{.area_bytes = 3 * frame_alignment, .frames_bytes = 4 * frame_alignment};
  for (u64 i = 0; i < description_bytes; ++i) head.description += static_cast<char>('a' + i * i % 26);
  return head;
}

Content encoded(const JournalHead& head) {
  Content out(head.areas_begin(), std::byte{0x77});
  encode_head(head, out);
  return out;
}

StateCommit commit_of(u64 sequence, u64 chunks = 150) {
  StateCommit commit{.sequence = sequence, .step = 10 * sequence, .payload = fmt::format("of {}", sequence)};
  commit.payload.resize(5000, static_cast<char>('a' + sequence));
  for (u64 i = 0; i < chunks; ++i)
    commit.chunks.push_back({.version = sequence + i,
                             .sum = i % 4 == 3 ? 0 : (sequence + i) * 0x9e3779b97f4a7c15,
                             .slot = static_cast<u32>(i + sequence) % journal_slots_max(2),
                             .zeros = i % 4 == 3});
  return commit;
}

// The commit in an area of zeros.
Content area_of(const StateCommit& commit, u64 area_bytes = 3 * frame_alignment) {
  Content area(area_bytes);
  const std::span<std::byte> out(area.data(), commit_bytes(commit.chunks.size(), commit.payload.size()));
  encode_commit_begin(out, commit.sequence, commit.step, commit.chunks.size(), commit.payload.size());
  for (u64 i = 0; i < commit.chunks.size(); ++i) encode_mark(out, i, commit.chunks[i]);
  std::ranges::copy(
      std::as_bytes(std::span(commit.payload)),
      out.begin() + static_cast<i64>(commit_marks_begin + commit.chunks.size() * commit_mark_bytes));
  seal_commit(out);
  return area;
}

void expect_equal(const StateCommit& got, const StateCommit& wanted) {
  EXPECT_EQ(got.sequence, wanted.sequence);
  EXPECT_EQ(got.step, wanted.step);
  EXPECT_EQ(got.chunks, wanted.chunks);
  EXPECT_EQ(got.payload, wanted.payload);
}

// A whole file. Sequence 0: that area is empty.
Content file_of(const JournalHead& head, u64 first, u64 second) {
  Content file = encoded(head);
  for (const u64 sequence : {first, second}) {
    const Content area =
        sequence == 0 ? Content(head.area_bytes) : area_of(commit_of(sequence), head.area_bytes);
    file.insert(file.end(), area.begin(), area.end());
  }
  file.resize(head.file_bytes());
  return file;
}

Result<std::optional<FoundState>> find(const Content& file) {
  const auto read = [&](u64 begin, u64 bytes) -> Result<Content> {
    EXPECT_LE(begin + bytes, file.size()) << "reads beyond the end";
    return Content(file.begin() + static_cast<i64>(begin), file.begin() + static_cast<i64>(begin + bytes));
  };
  return find_state(read, file.size(), "a file");
}

void flip(Content& content, u64 bit) {
  content[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
}

// ---- the head

TEST(JournalHeads, ComeBackAsTheyWere) {
  for (const u64 description : {0u, 1u, 4039u, 4040u, 4041u, 50'000u}) {
    const JournalHead head = head_of(description);
    const Content bytes = encoded(head);
    EXPECT_EQ(bytes.size() % frame_alignment, 0u);
    EXPECT_EQ(head_bytes(std::span(bytes).first(frame_alignment)), bytes.size());
    const auto back = decode_head(bytes, "a file");
    ASSERT_TRUE(back && *back) << description;
    EXPECT_EQ((*back)->area_bytes, head.area_bytes);
    EXPECT_EQ((*back)->frames_bytes, head.frames_bytes);
    EXPECT_EQ((*back)->description, head.description);
  }
}

TEST(JournalHeads, LayTheirFileOutWithoutOverlap) {
  const JournalHead head = head_of();
  EXPECT_EQ(head.area(2), head.areas_begin());
  EXPECT_EQ(head.area(1), head.areas_begin() + head.area_bytes);
  EXPECT_EQ(head.frames_begin(), head.areas_begin() + 2 * head.area_bytes);
  EXPECT_EQ(head.file_bytes(), head.frames_begin() + head.frames_bytes);
}

TEST(JournalHeads, OfOtherFilesAreNoHeads) {
  for (const std::byte b : {std::byte{0}, std::byte{0xff}, std::byte{'T'}}) {
    const Content other(frame_alignment, b);
    EXPECT_EQ(head_bytes(other), 0u);
    const auto decoded = decode_head(other, "a file");
    ASSERT_TRUE(decoded);
    EXPECT_FALSE(*decoded);
  }
}

TEST(JournalHeads, WithAnyBitFlippedAreNamedAsDamaged) {
  const JournalHead head = head_of(200);
  const u64 used = 8 * (48 + 200 + 8);
  for (u64 bit = 0; bit < used; ++bit) {
    Content bytes = encoded(head);
    flip(bytes, bit);
    const auto decoded = decode_head(bytes, "x/tidepool.swap");
    ASSERT_FALSE(decoded) << bit;
    EXPECT_EQ(decoded.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(decoded.error().message, HasSubstr("x/tidepool.swap"));
    EXPECT_THAT(decoded.error().message, HasSubstr("Nothing was changed"));
  }
}

TEST(JournalHeads, HaveAFormatThatTellsHowManySlotsThereAre) {
  EXPECT_EQ(journal_format(2), 1u);
  EXPECT_EQ(journal_format(3), 2u);
  JournalHead head = head_of();
  head.format = 2;
  const auto back = decode_head(encoded(head), "a file");
  ASSERT_TRUE(back && *back);
  EXPECT_EQ((*back)->format, 2u);
}

// One damaged copy of the magic must not make the file one that anybody may overwrite.
TEST(JournalHeads, AreKnownByEitherMagic) {
  for (const u64 at : {0u, 40u}) {
    Content file = file_of(head_of(), 2, 1);
    std::fill_n(file.begin() + static_cast<i64>(at), 8, std::byte{0});
    const auto found = find(file);
    ASSERT_FALSE(found) << at;
    EXPECT_THAT(found.error().message, HasSubstr("head is damaged"));
  }
}

TEST(JournalHeads, OfAFutureFormatSayWhoCanReadThem) {
  for (const u64 format : {3u, 999u}) {
    Content file = file_of(head_of(), 2, 1);
    std::memcpy(file.data() + 8, &format, sizeof format);
    const auto found = find(file);
    ASSERT_FALSE(found) << format;
    EXPECT_EQ(found.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(found.error().message, HasSubstr(fmt::format("has format {}", format)));
    EXPECT_THAT(found.error().message, HasSubstr("resume with the version that wrote it"));
  }
}

// ---- commits

TEST(JournalCommits, ComeBackAsTheyWere) {
  for (const u64 chunks : {0u, 1u, 150u}) {
    const StateCommit commit = commit_of(7, chunks);
    const auto back = decode_commit(area_of(commit));
    ASSERT_TRUE(back) << chunks;
    expect_equal(*back, commit);
  }
}

TEST(JournalCommits, FillAnAreaToItsLastByte) {
  StateCommit commit = commit_of(3);
  commit.payload.resize(3 * frame_alignment - commit_bytes(commit.chunks.size(), 0));
  const auto back = decode_commit(area_of(commit));
  ASSERT_TRUE(back);
  expect_equal(*back, commit);
}

TEST(JournalCommits, AreNotFoundInAnEmptyArea) {
  const Content area(2 * frame_alignment);
  EXPECT_FALSE(decode_commit(area));
  EXPECT_FALSE(has_commit(area));
  EXPECT_TRUE(has_commit(area_of(commit_of(1))));
}

// The area holds the commit before the last one, or nothing, wherever the new one was not written.
TEST(JournalCommits, TornAtAnySectorDoNotCount) {
  for (const u64 before : {0u, 5u}) {
    const Content older = before == 0 ? Content(3 * frame_alignment) : area_of(commit_of(before));
    const Content newer = area_of(commit_of(7));
    const u64 sectors = div_up(commit_bytes(150, 5000), sector_bytes);
    const auto torn = [&](auto&& is_new) {
      Content area = older;
      for (u64 s = 0; s < sectors; ++s)
        if (is_new(s))
          std::copy_n(newer.begin() + static_cast<i64>(s * sector_bytes), sector_bytes,
                      area.begin() + static_cast<i64>(s * sector_bytes));
      return area;
    };
    for (u64 cut = 0; cut < sectors; ++cut) {
      if (cut > 0) {
        EXPECT_FALSE(decode_commit(torn([&](u64 s) { return s < cut; }))) << before << " up to " << cut;
        EXPECT_FALSE(decode_commit(torn([&](u64 s) { return s >= cut; }))) << before << " from " << cut;
      }
      EXPECT_FALSE(decode_commit(torn([&](u64 s) { return s != cut; }))) << before << " all but " << cut;
      EXPECT_FALSE(decode_commit(torn([&](u64 s) { return s == cut; }))) << before << " only " << cut;
    }
    ASSERT_TRUE(decode_commit(torn([](u64) { return true; })));
  }
}

TEST(JournalCommits, WithAnyBitFlippedDoNotCount) {
  const StateCommit commit = commit_of(4, 3);
  const Content area = area_of(commit);
  for (u64 bit = 0; bit < 8 * commit_bytes(3, commit.payload.size()); bit += 1 + bit / 999) {
    Content flipped = area;
    flip(flipped, bit);
    EXPECT_FALSE(decode_commit(flipped)) << bit;
    EXPECT_TRUE(has_commit(flipped)) << bit;
  }
}

// ---- the file

TEST(StateFiles, TheNewerOfTwoCommitsCounts) {
  const JournalHead head = head_of();
  for (const auto& [first, second] : {std::pair{2u, 1u}, {2u, 3u}, {4u, 3u}, {0u, 1u}}) {
    const auto found = find(file_of(head, first, second));
    ASSERT_TRUE(found && *found);
    expect_equal((*found)->commit, commit_of(std::max(first, second)));
    EXPECT_EQ((*found)->head.description, head.description);
    EXPECT_FALSE((*found)->newest_is_torn);
  }
}

TEST(StateFiles, WithoutACommitSayThatThereIsNone) {
  const auto found = find(file_of(head_of(), 0, 0));
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->commit.sequence, 0u);
  EXPECT_FALSE((*found)->newest_is_torn);
}

TEST(StateFiles, ATornCommitLeavesTheOneBefore) {
  const JournalHead head = head_of();
  Content file = file_of(head, 2, 3);
  flip(file, 8 * (head.area(3) + 100));
  const auto found = find(file);
  ASSERT_TRUE(found && *found);
  expect_equal((*found)->commit, commit_of(2));
  EXPECT_TRUE((*found)->newest_is_torn);
  flip(file, 8 * (head.area(2) + 100));
  const auto none = find(file);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("both of its commits are damaged"));
}

TEST(StateFiles, ATornFirstCommitIsNone) {
  const JournalHead head = head_of();
  Content file = file_of(head, 0, 1);
  flip(file, 8 * (head.area(1) + 100));
  const auto found = find(file);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->commit.sequence, 0u);
  EXPECT_TRUE((*found)->newest_is_torn);
}

TEST(StateFiles, CutOffAnywhereAreNamed) {
  const JournalHead head = head_of();
  const Content whole = file_of(head, 2, 1);
  for (u64 bytes = 0; bytes < whole.size(); bytes += sector_bytes) {
    const auto found = find(Content(whole.begin(), whole.begin() + static_cast<i64>(bytes)));
    if (bytes < frame_alignment) {
      ASSERT_TRUE(found) << bytes;
      EXPECT_FALSE(*found) << bytes;
      continue;
    }
    ASSERT_FALSE(found) << bytes;
    EXPECT_EQ(found.error().kind, ErrorKind::bad_input);
  }
}

TEST(StateFiles, AreReadFromTheFileSystem) {
  const test::ScratchDir dir;
  const std::string path = dir / "state";
  const auto none = read_state_file(path);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  const auto directory = read_state_file(dir.path());
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, HasSubstr(dir.path() + " is a directory, not a regular file"));
  const Content file = file_of(head_of(), 2, 3);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  const auto found = read_state_file(path);
  ASSERT_TRUE(found && *found);
  expect_equal((*found)->commit, commit_of(3));
  EXPECT_EQ((*found)->path, path);
  std::filesystem::resize_file(path, file.size() - 1);
  const auto cut = read_state_file(path);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr(path + ": the file is shorter than it says"));
}

}  // namespace tidepool::state_journal_test
