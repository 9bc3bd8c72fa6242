#include "run/commits/branch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <random>

#include "base/json/text.h"
#include "base/open_file.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "base/write_file.h"

namespace tidepool {
namespace {

namespace json = boost::json;

constexpr u64 branches_max = 1000, branch_file_bytes_max = mib;
// The steps come first, in fields of fixed width: so they are written in place, into one sector.
constexpr std::string_view before_step = "{\"step\": ", before_begun = ", \"begun\": ";
constexpr u64 step_digits = 20;
constexpr u64 step_offset = before_step.size();
constexpr u64 begun_offset = step_offset + step_digits + before_begun.size();

std::string text_of(const BranchNote& note) {
  json::array branches;
  for (const BranchNote::Branch& b : note.branches)
    branches.push_back(json::object{{"id", b.id}, {"from", b.from}});
  const std::string rest = json_text(
      json::object{{"swap_dir", note.swap_dir}, {"branches", std::move(branches)}}, JsonStyle::line);
  return fmt::format("{}{:>{}}{}{:>{}}, {}\n", before_step, note.step, step_digits, before_begun, note.begun,
                     step_digits, rest.substr(1));
}

std::optional<BranchNote> note_of(const json::value& all) {
  const auto number = [](const json::value* v) -> std::optional<u64> {
    if (v == nullptr || !v->is_int64() || v->get_int64() < 0) return std::nullopt;
    return static_cast<u64>(v->get_int64());
  };
  if (!all.is_object()) return std::nullopt;
  const json::object& object = all.get_object();
  const std::optional<u64> step = number(object.if_contains("step"));
  const std::optional<u64> begun = number(object.if_contains("begun"));
  const json::value* swap_dir = object.if_contains("swap_dir");
  const json::value* branches = object.if_contains("branches");
  if (!step || !begun || swap_dir == nullptr || !swap_dir->is_string() || branches == nullptr ||
      !branches->is_array() || branches->get_array().empty())
    return std::nullopt;
  BranchNote note{
      .step = *step, .begun = *begun, .swap_dir = std::string(std::string_view(swap_dir->get_string()))};
  for (const json::value& from : branches->get_array()) {
    const json::value* id = from.is_object() ? from.get_object().if_contains("id") : nullptr;
    const std::optional<u64> begins =
        from.is_object() ? number(from.get_object().if_contains("from")) : std::nullopt;
    if (id == nullptr || !id->is_string() || !begins) return std::nullopt;
    note.branches.push_back({std::string(std::string_view(id->get_string())), *begins});
  }
  return note;
}

}  // namespace

bool BranchNote::knows(const std::string& id) const {
  return std::ranges::find(branches, id, &Branch::id) != branches.end();
}

std::optional<u64> BranchNote::left_at(const std::string& id) const {
  const auto at = std::ranges::find(branches, id, &Branch::id);
  if (at == branches.end() || at + 1 == branches.end()) return std::nullopt;
  return std::ranges::min_element(at + 1, branches.end(), {}, &Branch::from)->from;
}

void BranchNote::follow(const std::string& id, u64 committed) {
  const auto at = std::ranges::find(branches, id, &Branch::id);
  if (at == branches.end())
    begin(id, committed);
  else
    branches.erase(at + 1, branches.end());
  step = begun = committed;
}

void BranchNote::begin(std::string id, u64 from) {
  branches.push_back({std::move(id), from});
  if (branches.size() > branches_max) branches.erase(branches.begin());
  step = begun = 0;
}

std::string BranchNote::committed_steps() const {
  if (begun <= step) return fmt::format("steps up to {}", step);
  return step == 0 ? fmt::format("perhaps steps up to {}", begun)
                   : fmt::format("steps up to {}, perhaps {},", step, begun);
}

std::string new_branch_id() {
  std::random_device chance;
  return fmt::format("{:08x}{:08x}", chance(), chance());
}

Result<std::optional<BranchNote>> read_branch_note(const std::string& run_dir) {
  const std::string path = run_dir + "/" + branch_file_name;
  if (!is_named(path)) return std::optional<BranchNote>();
  TRY_ASSIGN(const std::string text, read_small_file(path, branch_file_bytes_max, ErrorKind::bad_input));
  const Result<json::value> all = parse_json(text, ErrorKind::bad_input, path);
  std::optional<BranchNote> note = all ? note_of(*all) : std::nullopt;
  if (note) return note;
  return Error{
      ErrorKind::bad_input,
      fmt::format("{}: is damaged, so what this run has committed is unknown: bring its swap file and "
                  "its checkpoints back if they are elsewhere, then remove {}, and resume",
                  path, path)};
}

Result<BranchFile> BranchFile::write(const std::string& run_dir, const BranchNote& note) {
  const std::string path = run_dir + "/" + branch_file_name;
  TRY(replace_file(path, text_of(note), FileUse::run));
  RegularFile file = open_to_write(path, 0);
  if (!file) return cannot_write("open", path, file, FileUse::run);
  BranchFile out;
  out.fd_ = std::move(file.fd);
  return out;
}

void BranchFile::begins(u64 step) { write_step(step, begun_offset); }
void BranchFile::committed(u64 step) { write_step(step, step_offset); }

void BranchFile::write_step(u64 step, u64 offset) {
  if (!fd_) return;
  std::array<char, step_digits> digits;
  fmt::format_to_n(digits.data(), digits.size(), "{:>{}}", step, step_digits);
  while (::pwrite(fd_.get(), digits.data(), digits.size(), static_cast<off_t>(offset)) < 0 &&
         errno == EINTR) {
  }
}

}  // namespace tidepool
