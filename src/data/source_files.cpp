#include "data/source_files.h"

#include <fmt/format.h>

#include "data/byte_stream.h"
#include "data/token_file.h"

namespace tidepool {

namespace {

Error bad(std::string text) { return {ErrorKind::bad_input, std::move(text)}; }

std::string without_packing(std::string path) {
  for (const std::string_view end : {".gz", ".zst", ".zstd"}) {
    if (path.ends_with(end)) return path.substr(0, path.size() - end.size());
  }
  return path;
}

Result<FileKind> kind_of(const FoundFile& file, DataFormat format, bool tokenizer) {
  const std::string& path = file.path;
  const std::string name = without_packing(path);
  TRY_ASSIGN(const Packed packed, packing_of(path));
  const FileKind text = tokenizer || packed != Packed::no ? FileKind::text : FileKind::tokens;
  const bool binary = name.ends_with(".bin") || name.ends_with(".npy");
  switch (format) {
    case DataFormat::jsonl:
      return FileKind::records;
    case DataFormat::text:
      return text;
    case DataFormat::automatic:
      break;
    default:
      return FileKind::tokens;
  }
  // In a folder of text a .json is text like the rest; who names one means what it holds.
  if (is_jsonl(path) || (file.named && name.ends_with(".json"))) return FileKind::records;
  if (binary && packed != Packed::no)
    return bad(fmt::format("{}: token files are read as they lie; unpack it", path));
  if (binary) return FileKind::tokens;
  // llm.c files are known by what they begin with, whatever they are called.
  if (packed == Packed::no) {
    TRY_ASSIGN(const TokenFile tokens, TokenFile::open(path, DataFormat::automatic));
    if (tokens.format() != DataFormat::text) return FileKind::tokens;
  }
  TRY(check_readable_kind(path));
  return text;
}

}  // namespace

bool is_jsonl(const std::string& path) {
  const std::string name = without_packing(path);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

Result<SourceFiles> files_of(const std::vector<std::string>& entries, const DataConfig& config,
                             bool tokenizer) {
  SourceFiles out;
  TRY_ASSIGN(out.found, find_files(entries));
  for (const FoundFile& file : out.found) {
    TRY_ASSIGN(const FileKind kind, kind_of(file, config.format, tokenizer));
    out.kinds.push_back(kind);
  }
  // Somebody's folder of text may hold lines of JSON too: they are text like the rest of it.
  if (out.holds(FileKind::tokens) && config.format == DataFormat::automatic) {
    for (size_t i = 0; i < out.found.size(); ++i) {
      if (out.kinds[i] == FileKind::records && !out.found[i].named) out.kinds[i] = FileKind::tokens;
    }
  }
  if (out.holds(FileKind::tokens) && (out.holds(FileKind::text) || out.holds(FileKind::records))) {
    const size_t tokens =
        static_cast<size_t>(std::ranges::find(out.kinds, FileKind::tokens) - out.kinds.begin());
    const size_t other = static_cast<size_t>(
        std::ranges::find_if(out.kinds, [](FileKind k) { return k != FileKind::tokens; }) -
        out.kinds.begin());
    return bad(fmt::format(
        "{}: is tokens, or text without a tokenizer, and {} is documents; one run takes the one or the other",
        out.found[tokens].path, out.found[other].path));
  }
  return out;
}

Result<std::vector<SourceFiles>> all_sources(const DataConfig& config, bool tokenizer) {
  std::vector<SourceFiles> out;
  if (config.weights.empty()) {
    TRY_ASSIGN(SourceFiles files, files_of(config.train, config, tokenizer));
    out.push_back(std::move(files));
  }
  for (size_t i = 0; i < config.weights.size(); ++i) {
    TRY_ASSIGN(SourceFiles files, files_of({config.train[i]}, config, tokenizer));
    out.push_back(std::move(files));
  }
  return out;
}

}  // namespace tidepool
