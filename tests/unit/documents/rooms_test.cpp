// Rooms: the table of docs/architecture/rooms.md, cmake/rooms.cmake, the folders and every #include agree.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "tests/support/places.h"

namespace tidepool::rooms_test {

using Names = std::set<std::string>;
using Rooms = std::map<std::string, Names>;  // rooms that each may include directly

constexpr size_t files_max = 40;
constexpr size_t lines_max = 450;

const std::filesystem::path& source_root() {
  static const std::filesystem::path path = source_file("");
  return path;
}

std::string source_text(const std::string& name) {
  const Result<std::string> text = read_small_file((source_root() / name).string(), mib, ErrorKind::io);
  EXPECT_TRUE(text) << name;
  return text ? *text : std::string();
}

Names all_matches(const std::string& text, const std::regex& pattern) {
  Names out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) out.insert((*at)[1]);
  return out;
}

bool is_folder(const std::string& name) { return std::filesystem::is_directory(source_root() / name); }

struct Row {
  std::string room;
  Names below;
};

// RETURNS: rows of the page's table: | `room` | content | `room`, `room` |
std::vector<Row> rows_of_architecture() {
  const std::string section = source_text("docs/architecture/rooms.md");
  EXPECT_FALSE(section.empty());
  static const std::regex row(R"(\n\| `([^`]+)` \|[^|\n]*\|([^|\n]*)\|)");
  static const std::regex quoted("`([^`]+)`");
  std::vector<Row> out;
  for (std::sregex_iterator at(section.begin(), section.end(), row), end; at != end; ++at)
    out.push_back({(*at)[1], all_matches((*at)[2], quoted)});
  return out;
}

Rooms rooms_of_cmake() {
  const std::string text = source_text("cmake/rooms.cmake");
  static const std::regex call(R"(\n *tidepool_room\(([a-z_/]+)([^)]*)\))");
  static const std::regex word("([^ \n]+)");
  Rooms out;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
    const std::string arguments = (*at)[2];
    Names& links = out[(*at)[1]];
    for (const std::string& link : all_matches(arguments.substr(arguments.find("LINKS") + 5), word))
      if (is_folder(link)) links.insert(link);
  }
  return out;
}

// Operations of kernels, styles of model, objectives and optimizers lie in folders below their room's folder.
std::string room_of(const std::filesystem::path& file) {
  const std::string folder = std::filesystem::relative(file, source_root()).parent_path().string();
  for (const char* room : {"kernels", "src/model", "src/objectives", "src/optimizers"})
    if (folder.starts_with(std::string(room) + "/")) return room;
  return folder;
}

bool is_source(const std::filesystem::path& file) {
  static const Names endings = {".cpp", ".h", ".cu"};
  return endings.contains(file.extension().string());
}

std::vector<std::filesystem::path> sources() {
  std::vector<std::filesystem::path> out;
  for (const char* top : {"include", "chunk_manager", "kernels", "io", "src"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_root() / top))
      if (entry.is_regular_file() && is_source(entry.path())) out.push_back(entry.path());
  return out;
}

// RETURNS: the room of an included header; empty: not ours.
std::string included_room(const std::string& name) {
  for (const char* base : {"include", "src", "."}) {
    const std::filesystem::path path = source_root() / base / name;
    if (std::filesystem::is_regular_file(path)) return room_of(path.lexically_normal());
  }
  return {};
}

TEST(Rooms, TableOfArchitectureMatchesCMake) {
  const Rooms built = rooms_of_cmake();
  ASSERT_FALSE(built.empty());
  Names listed;
  for (const Row& row : rows_of_architecture()) {
    listed.insert(row.room);
    if (const auto room = built.find(row.room); room != built.end())
      EXPECT_EQ(row.below, room->second) << row.room;
    else
      EXPECT_TRUE(row.room.ends_with("/cuda") || row.room == "src/net/mpi")
          << row.room << " is in docs/architecture/rooms.md and not in CMake";
  }
  for (const auto& [room, links] : built) EXPECT_TRUE(listed.contains(room)) << room << " is missing";
}

TEST(Rooms, EveryFolderOfSourcesIsARow) {
  Names folders, listed;
  for (const auto& file : sources()) folders.insert(room_of(file));
  for (const Row& row : rows_of_architecture()) listed.insert(row.room);
  EXPECT_EQ(folders, listed);
}

TEST(Rooms, RoomsIncludeOnlyRoomsThatTheyStandOn) {
  Rooms reachable;
  for (const Row& row : rows_of_architecture()) {
    Names& reached = reachable[row.room];
    reached.insert(row.room);
    for (const std::string& below : row.below) {
      ASSERT_TRUE(reachable.contains(below)) << row.room << " stands above " << below;
      reached.insert(reachable[below].begin(), reachable[below].end());
    }
  }
  static const std::regex include("\n#include \"([^\"]+)\"");
  for (const auto& file : sources()) {
    const std::string name = std::filesystem::relative(file, source_root()).string();
    if (name == "src/cli/main.cpp") continue;  // wires the program: GPUs if built with CUDA
    for (const std::string& header : all_matches("\n" + source_text(name), include)) {
      const std::string room = included_room(header);
      EXPECT_TRUE(room.empty() || reachable[room_of(file)].contains(room))
          << name << " includes " << header << ", and its room may not include " << room;
    }
  }
}

// "src/planner" of "src/planner/verify"; "kernels" of "kernels".
std::string folder_of(const std::string& room) {
  const size_t end = room.find('/', room.starts_with("src/") ? 4 : 0);
  return room.substr(0, end);
}

// Rooms have no cycle; their folders neither, although a folder may have rooms far apart.
TEST(Rooms, FoldersIncludeEachOtherOneWay) {
  static const std::regex include("\n#include \"([^\"]+)\"");
  std::map<std::pair<std::string, std::string>, std::string> example;  // by folder and included folder
  for (const auto& file : sources()) {
    const std::string name = std::filesystem::relative(file, source_root()).string();
    for (const std::string& header : all_matches("\n" + source_text(name), include)) {
      const std::string from = folder_of(room_of(file)), to = folder_of(included_room(header));
      if (!to.empty() && to != from) example.try_emplace({from, to}, name + " includes " + header);
    }
  }
  for (const auto& [pair, said] : example) {
    const auto back = example.find({pair.second, pair.first});
    EXPECT_TRUE(back == example.end()) << said << ", and " << (back == example.end() ? "" : back->second);
  }
}

TEST(Rooms, EveryUnitTestIsInAFolderThatCMakeBuilds) {
  static const std::regex call(R"(\ntidepool_unit_tests\(([a-z_]+))");
  const Names built = all_matches(source_text("tests/CMakeLists.txt"), call);
  ASSERT_FALSE(built.empty());
  const std::filesystem::path unit = source_root() / "tests/unit";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(unit)) {
    if (!entry.is_regular_file()) continue;
    const std::string folder = std::filesystem::relative(entry.path().parent_path(), unit).string();
    EXPECT_TRUE(built.contains(folder)) << entry.path() << ": no test executable has this file";
  }
}

TEST(Rooms, HaveFewFilesAndNoLongOnes) {
  std::map<std::string, size_t> files;  // by folder
  for (const auto& file : sources()) {
    ++files[file.parent_path().string()];
    const std::string text = source_text(std::filesystem::relative(file, source_root()).string());
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), lines_max) << file;
  }
  for (const auto& [folder, count] : files) EXPECT_LE(count, files_max) << folder;
}

}  // namespace tidepool::rooms_test
