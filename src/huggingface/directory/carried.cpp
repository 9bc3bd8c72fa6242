#include "huggingface/directory/carried.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/errno_text.h"
#include "base/fd.h"
#include "base/files/hashed_file.h"
#include "base/open_file.h"
#include "base/read_file.h"
#include "base/text/hash.h"
#include "base/text/path_text.h"
#include "base/write_file.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> tokenizer_names = {"tokenizer.json",
                                                              "tokenizer_config.json",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "vocab.json",
                                                              "merges.txt",
                                                              "vocab.txt",
                                                              "tokenizer.model",
                                                              "spiece.model",
                                                              "tekken.json",
                                                              "tokenizer.model.v3",
                                                              chat_template_file,
                                                              "chat_template.json"};

constexpr std::array<const char*, 3> processor_names = {
    "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json"};

struct Source {
  Fd fd;
  u64 bytes = 0;
  u32 mode = 0;
};

// Links are refused: carried_file() has already resolved permitted links, so a link found here was created in
// between.
// A file whose content is known is compared with its hash.
Result<Source> open_source(const std::string& path, bool is_known) {
  RegularFile file = is_known ? open_to_read(path) : open_own_to_read(path);
  if (!file) return Error{ErrorKind::io, fmt::format("{}: cannot open: {}", path, file.reason())};
  Source out{.fd = std::move(file.fd)};
  struct stat st {};
  if (::fstat(out.fd.get(), &st) != 0)
    return Error{ErrorKind::io, fmt::format("{}: cannot stat: {}", path, errno_text(errno))};
  out.bytes = static_cast<u64>(st.st_size);
  out.mode = st.st_mode & 0777;
  return out;
}

Result<void> stream(HashedFile& out, const CarriedFile& file, std::span<std::byte> buffer) {
  if (file.path.empty()) return out.append(file.text);
  TRY_ASSIGN(const Source in, open_source(file.path, file.xxh3.has_value()));
  TRY(out.set_mode(in.mode));
  for (u64 at = 0; at < in.bytes;) {
    const auto piece = buffer.first(std::min<u64>(buffer.size(), in.bytes - at));
    TRY(read_exactly(in.fd, file.path, at, piece, ErrorKind::io));
    TRY(out.append(piece));
    at += piece.size();
  }
  return {};
}

// Folder that links of `directory` must stay in: the directory itself, or, for a snapshot in Hugging Face's
// cache, its whole repository.
fs::path link_room(const std::string& directory) {
  std::error_code unused;
  const fs::path whole = fs::canonical(directory, unused);
  const bool snapshot = whole.parent_path().filename() == "snapshots";
  return snapshot ? whole.parent_path().parent_path() : whole;
}

// Subfolder of `directory` that the file belongs in; empty: none.
std::string folder_of(const std::string& directory, std::string_view name) {
  return name.starts_with(template_folder)
             ? fmt::format("{}/{}", directory, template_folder.substr(0, template_folder.size() - 1))
             : "";
}

Result<ListedFile> write_as(Files& files, const std::string& directory, const std::string& name,
                            const CarriedFile& file, std::span<std::byte> buffer) {
  const std::string folder = folder_of(directory, name);
  if (!folder.empty()) TRY(files.make_directory(folder));
  TRY_ASSIGN(HashedFile out, HashedFile::create(files, directory, name, Bytes{0}));
  TRY(stream(out, file, buffer));
  TRY_ASSIGN(ListedFile entry, out.finish());
  if (file.xxh3 && *file.xxh3 != entry.xxh3)
    return Error{ErrorKind::corrupt_checkpoint,
                 fmt::format("{}: XXH3 is {}, was {}: the file was changed or damaged since the run kept it",
                             file.path, hash_text(entry.xxh3), hash_text(*file.xxh3))};
  if (!folder.empty()) TRY(files.sync_directory(folder));
  return entry;
}

// Names of chat templates in their folder, in alphabetical order. Skips names that a manifest could not hold.
std::vector<std::string> named_templates(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code unused;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder_of(directory, template_folder), unused)) {
    const std::string name = std::string(template_folder) + entry.path().filename().string();
    if (name.ends_with(".jinja") && is_file_name(name)) out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

Result<std::vector<CarriedFile>> those_that_exist(const std::string& directory,
                                                  const std::vector<std::string>& names) {
  std::vector<CarriedFile> out;
  for (const std::string& name : names) {
    TRY_ASSIGN(std::optional<CarriedFile> file, carried_file(directory, name));
    if (file) out.push_back(std::move(*file));
  }
  return out;
}

}  // namespace

bool is_tokenizer_file(std::string_view name) {
  return name.starts_with(template_folder) ||
         std::ranges::find(tokenizer_names, name) != tokenizer_names.end();
}

Result<std::optional<CarriedFile>> carried_file(const std::string& directory, std::string_view name) {
  CarriedFile out{.name = std::string(name), .path = fmt::format("{}/{}", directory, name), .text = {}};
  if (!is_named(out.path)) return std::optional<CarriedFile>();
  TRY(open_input(out.path, ErrorKind::bad_input));  // refuses a directory, a pipe, a Git LFS pointer
  std::error_code unused;
  const fs::path target = fs::canonical(out.path, unused);
  if (!is_within(target, link_room(directory)))
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: is a link to {}, outside of the model directory, and would be copied from "
                             "there: replace the link by a copy of the file, or remove the link",
                             out.path, target.string())};
  if (target != fs::canonical(directory, unused) / name) out.path = target.string();
  return std::optional(std::move(out));
}

Result<std::vector<CarriedFile>> carried_files(const std::string& directory) {
  std::vector<std::string> names = {generation_config_file};
  names.insert(names.end(), tokenizer_names.begin(), tokenizer_names.end());
  for (std::string& name : named_templates(directory)) names.push_back(std::move(name));
  return those_that_exist(directory, names);
}

Result<std::vector<CarriedFile>> processor_files(const std::string& directory) {
  return those_that_exist(directory, {processor_names.begin(), processor_names.end()});
}

Result<ListedFile> write_carried(Files& files, const std::string& directory, const CarriedFile& file,
                                 std::span<std::byte> buffer) {
  return write_as(files, directory, file.name, file, buffer);
}

Result<ListedFile> replace_carried_file(Files& files, const std::string& directory, const CarriedFile& file,
                                        std::span<std::byte> buffer) {
  const std::string temporary = file.name + ".tmp";
  TRY(check_can_be_file(directory + "/" + file.name));
  TRY_ASSIGN(ListedFile entry, write_as(files, directory, temporary, file, buffer));
  TRY(files.rename(directory + "/" + temporary, directory + "/" + file.name));
  if (const std::string folder = folder_of(directory, file.name); !folder.empty())
    TRY(files.sync_directory(folder));
  entry.file = file.name;
  return entry;
}

Result<void> write_kept_list(Files& files, const std::string& directory, std::span<const ListedFile> list,
                             std::span<std::byte> buffer) {
  TRY(replace_carried_file(files, directory,
                           {.name = kept_list_file, .path = {}, .text = kept_list_text(list)}, buffer));
  return files.sync_directory(directory);
}

Result<void> replace_carried(Files& files, const std::string& directory, const std::vector<CarriedFile>& all,
                             std::span<std::byte> buffer) {
  TRY(files.make_directory(directory));
  TRY_ASSIGN(const std::vector<CarriedFile> there, carried_files(directory));
  for (const CarriedFile& old : there) {
    const bool stays = std::ranges::any_of(all, [&](const CarriedFile& f) { return f.name == old.name; });
    if (!stays) TRY(files.remove(directory + "/" + old.name));
  }
  std::vector<ListedFile> list;
  for (const CarriedFile& file : all) {
    TRY_ASSIGN(ListedFile entry, replace_carried_file(files, directory, file, buffer));
    list.push_back(std::move(entry));
  }
  return write_kept_list(files, directory, list, buffer);
}

}  // namespace tidepool
