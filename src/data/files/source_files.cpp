#include "data/files/source_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/files/byte_stream.h"
#include "data/files/token_file.h"

namespace tidepool {

namespace {

Result<FileKind> kind_of(const FoundFile& file, DataFormat format, bool tokenizer) {
  const std::string& path = file.path;
  const std::string name = without_packing(path);
  TRY_ASSIGN(const Packed packed, packing_of(path));
  const FileKind text = tokenizer || packed != Packed::no ? FileKind::text : FileKind::tokens;
  const bool binary = has_ending(name, ".bin") || has_ending(name, ".npy");
  switch (format) {
    case DataFormat::jsonl:
      TRY(check_readable_kind(path));
      return FileKind::records;
    case DataFormat::text:
      return text;
    case DataFormat::automatic:
      break;
    default:
      return FileKind::tokens;
  }
  // In a directory, a .json file is text; a .json file that is named explicitly holds records.
  const bool meant = file.by != FoundBy::directory;
  if (is_jsonl(path) || (meant && has_ending(name, ".json"))) {
    TRY(check_readable_kind(path));
    return FileKind::records;
  }
  if (binary && packed != Packed::no)
    return bad_input(fmt::format("{}: a token file must not be compressed; unpack it", path));
  if (binary) return FileKind::tokens;
  // llm.c files are recognised by their first bytes, under any name.
  if (packed == Packed::no) {
    TRY_ASSIGN(const TokenFile tokens, TokenFile::open(path, DataFormat::automatic));
    if (tokens.format() != DataFormat::text) return FileKind::tokens;
  }
  TRY(check_readable_kind(path));
  return text;
}

// Refuses .json files in a directory if records are configured: they would be learned as text, with all
// brackets.
Result<void> check_no_json_is_text(const SourceFiles& files, const DataConfig& config) {
  if (config.records == "auto" || config.format != DataFormat::automatic) return {};
  for (size_t i = 0; i < files.found.size(); ++i) {
    const std::string& path = files.found[i].path;
    if (files.kinds[i] == FileKind::records || !has_ending(without_packing(path), ".json")) continue;
    return Error{
        ErrorKind::usage,
        fmt::format("data.records: is {}, but {}, found in a folder, would be text: name .json files "
                    "themselves or by a pattern (*.json), or set data.format: jsonl",
                    config.records, path)};
  }
  return {};
}

Result<void> check_records_are_there(const std::vector<SourceFiles>& sources, const DataConfig& config) {
  if (config.records == "auto") return {};
  if (std::ranges::any_of(sources, [](const SourceFiles& s) { return s.holds(FileKind::records); }))
    return {};
  return Error{
      ErrorKind::usage,
      fmt::format("data.records: is {}, but nothing in data.train is read as records (the first file "
                  "is {}): leave data.records out for text and tokens, or set data.format: jsonl",
                  config.records, sources[0].found[0].path)};
}

bool is_empty(const FoundFile& file) {
  std::error_code unused;
  return std::filesystem::file_size(file.path, unused) == 0;
}

// Drops empty files of directories and patterns. If all files are empty they stay, and reading them reports
// it.
std::vector<FoundFile> without_empty(std::vector<FoundFile> found) {
  const auto passed_over = [](const FoundFile& f) { return f.by != FoundBy::name && is_empty(f); };
  if (!std::ranges::all_of(found, passed_over)) std::erase_if(found, passed_over);
  return found;
}

}  // namespace

bool is_jsonl(const std::string& path) {
  const std::string name = without_packing(path);
  return has_ending(name, ".jsonl") || has_ending(name, ".ndjson");
}

Result<SourceFiles> files_of(std::vector<FoundFile> found, const DataConfig& config, bool tokenizer) {
  SourceFiles out{.found = without_empty(std::move(found)), .kinds = {}};
  for (const FoundFile& file : out.found) {
    TRY_ASSIGN(const FileKind kind, kind_of(file, config.format, tokenizer));
    out.kinds.push_back(kind);
  }
  TRY(check_no_json_is_text(out, config));
  if (out.holds(FileKind::tokens) && (out.holds(FileKind::text) || out.holds(FileKind::records))) {
    const size_t tokens =
        static_cast<size_t>(std::ranges::find(out.kinds, FileKind::tokens) - out.kinds.begin());
    const size_t other = static_cast<size_t>(
        std::ranges::find_if(out.kinds, [](FileKind k) { return k != FileKind::tokens; }) -
        out.kinds.begin());
    return bad_input(fmt::format(
        "{}: holds tokens, or text without a tokenizer, but {} holds documents; a run takes only one "
        "kind: name files of one kind, or {}",
        out.found[tokens].path, out.found[other].path,
        out.kinds[other] == FileKind::text ? "unpack the text, or name a tokenizer with data.tokenizer"
                                           : "set data.format for all files"));
  }
  return out;
}

Result<std::vector<SourceFiles>> all_sources(const DataConfig& config, bool tokenizer) {
  std::vector<SourceFiles> out;
  if (config.weights.empty()) {
    TRY_ASSIGN(std::vector<FoundFile> found, find_files(config.train));
    TRY_ASSIGN(SourceFiles files, files_of(std::move(found), config, tokenizer));
    out.push_back(std::move(files));
  }
  for (size_t i = 0; i < config.weights.size(); ++i) {
    TRY_ASSIGN(std::vector<FoundFile> found, find_files({config.train[i]}));
    TRY_ASSIGN(SourceFiles files, files_of(std::move(found), config, tokenizer));
    out.push_back(std::move(files));
  }
  TRY(check_records_are_there(out, config));
  return out;
}

Result<bool> may_share_rows(const DataConfig& config, bool tokenizer, HeldOutAlone alone) {
  const auto holds_documents = [](const SourceFiles& s) { return !s.holds(FileKind::tokens); };
  if (alone == HeldOutAlone::no || config.validation.empty()) {
    TRY_ASSIGN(const std::vector<SourceFiles> sources, all_sources(config, tokenizer));
    if (std::ranges::any_of(sources, holds_documents)) return true;
  }
  if (config.validation.empty()) return false;
  TRY_ASSIGN(std::vector<FoundFile> found, find_files(config.validation));
  TRY_ASSIGN(const SourceFiles held_out, files_of(std::move(found), config, tokenizer));
  return holds_documents(held_out);
}

}  // namespace tidepool
