// Opens the shards of model.safetensors.index.json: {"metadata": {...}, "weight_map": {tensor: file}}.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <map>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {
namespace json = boost::json;
namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

// True for a file name beside the index: a path must not lead out of the directory.
bool is_plain_name(std::string_view file) {
  constexpr std::size_t bytes_max =
      255;  // Linux's limit; a longer name is a fault of the index, not of the disk
  return !file.empty() && file.size() <= bytes_max && file != "." && file != ".." &&
         file.find('/') == std::string_view::npos && file.find('\0') == std::string_view::npos;
}

Result<WeightMap> read_weight_map(const std::string& index_path, ErrorKind error_kind) {
  TRY_ASSIGN(const std::string text, read_small_file(index_path, safetensors_header_bytes_max, error_kind));
  TRY_ASSIGN(const json::value root, parse_json(text, error_kind, index_path));
  const json::value* map = root.is_object() ? root.get_object().if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object())
    return Error{error_kind, fmt::format("{}: has no weight_map", index_path)};
  WeightMap out;
  for (const auto& [tensor, file] : map->get_object()) {
    if (!file.is_string() || !is_plain_name(std::string_view(file.get_string()))) {
      return Error{error_kind, fmt::format("{}: tensor {}: needs the name of a file in this directory",
                                           index_path, std::string_view(tensor))};
    }
    out.emplace(tensor, std::string_view(file.get_string()));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<SafetensorsModel>> SafetensorsModel::open(const std::string& directory,
                                                                 ErrorKind error_kind,
                                                                 const std::string& file_name) {
  std::unique_ptr<SafetensorsModel> self(new SafetensorsModel);
  self->error_kind_ = error_kind;
  const std::string index_path = directory + "/" + file_name + ".index.json";
  const std::string single_path = directory + "/" + file_name;
  if (!is_named(single_path) && is_named(index_path)) {
    TRY(self->open_shards(directory, index_path, error_kind));
    return self;
  }
  TRY_ASSIGN(auto file, SafetensorsFile::open(single_path, error_kind));
  self->files_.push_back(std::move(file));
  return self;
}

Result<void> SafetensorsModel::open_shards(const std::string& directory, const std::string& index_path,
                                           ErrorKind error_kind) {
  TRY_ASSIGN(const WeightMap map, read_weight_map(index_path, error_kind));
  if (map.empty()) return Error{error_kind, fmt::format("{}: weight_map: names no tensor", index_path)};
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [tensor, file] : map) {
    const SafetensorsFile*& shard = opened[file];
    if (shard == nullptr) {
      Result<std::unique_ptr<SafetensorsFile>> fresh =
          SafetensorsFile::open(directory + "/" + file, error_kind);
      if (!fresh)
        return Error{fresh.error().kind,
                     fmt::format("{} (for tensor {} of {})", fresh.error().message, tensor, index_path)};
      shard = fresh->get();
      files_.push_back(std::move(*fresh));
    }
    if (shard->find(tensor) == nullptr) {
      return Error{error_kind, fmt::format("{}: tensor {} is missing, although {} lists it here",
                                           shard->path(), tensor, index_path)};
    }
  }
  // Refuses a tensor that is in two shards: the order of shards would decide which one counts.
  for (const auto& file : files_) {
    for (const StoredTensor& t : file->tensors()) {
      const auto at = map.find(t.name);
      if (at != map.end() && opened[at->second] == file.get()) continue;
      return Error{error_kind,
                   fmt::format("{}: tensor {} is {} {}", file->path(), t.name,
                               at == map.end() ? "not listed in" : "listed for another file in", index_path)};
    }
  }
  return {};
}

Result<void> SafetensorsModel::rename(const std::function<std::string(const std::string&)>& name_of) {
  std::map<std::string_view, const StoredTensor*> named;
  for (const auto& file : files_) {
    file->rename(name_of);
    for (const StoredTensor& t : file->tensors()) {
      const auto [at, fresh] = named.emplace(t.name, &t);
      if (fresh) continue;
      return Error{
          error_kind_,
          fmt::format("{}: tensors {} and {} are one tensor of the model: remove the one that does not "
                      "belong to it",
                      file->path(), at->second->name_in_file(), t.name_in_file())};
    }
  }
  return {};
}

SafetensorsModel::Location SafetensorsModel::find(std::string_view name) const {
  for (const auto& file : files_) {
    if (const StoredTensor* t = file->find(name)) return {file.get(), t};
  }
  return {};
}

}  // namespace tidepool
