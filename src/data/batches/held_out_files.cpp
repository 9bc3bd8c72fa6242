#include "data/batches/held_out_files.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "data/batches/open_dataset.h"
#include "data/documents/open_encoder.h"
#include "data/files/find_files.h"

namespace tidepool {

namespace {

// Config that reads all sequences of the files, in order. `name` is for messages.
DataConfig config_of(const DataConfig& config, const std::string& name) {
  DataConfig out = config;
  out.train = {name};
  out.validation.clear();
  out.weights.clear();
  out.validation_fraction = 0;
  out.shuffle = false;
  return out;
}

std::string joined(const std::vector<std::string>& entries) {
  return entries.size() == 1 ? entries[0] : fmt::format("{} and {} more", entries[0], entries.size() - 1);
}

}  // namespace

Result<HeldOutFiles> HeldOutFiles::open(const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                        const DataPlace& place) {
  CHECK(!config.validation.empty(), config.train.size());
  TRY_ASSIGN(std::vector<FoundFile> found, find_files(config.validation, "data.validation"));
  HeldOutFiles out;
  TRY_ASSIGN(out.files_, files_of(std::move(found), config, has_tokenizer(config, place.model_directory)));
  const SourceFiles& all = out.files_;
  DataPlace here = place;
  here.short_files = true;
  const auto add = [&](const std::string& name, SourceFiles files) -> Result<void> {
    TRY_ASSIGN(std::unique_ptr<Dataset> part, open_sources({std::move(files)}, config_of(config, name),
                                                           vocab_size, sequence_length, 0, here));
    out.names_.push_back(name);
    out.parts_.push_back(std::move(part));
    return {};
  };
  if (all.found.size() > parts_max) {
    TRY(add(joined(config.validation), all));
  } else {
    for (size_t i = 0; i < all.found.size(); ++i)
      TRY(add(all.found[i].path, {.found = {all.found[i]}, .kinds = {all.kinds[i]}}));
  }
  return out;
}

u64 HeldOutFiles::sequences() const {
  u64 sum = 0;
  for (const auto& part : parts_) sum += part->train_sequences();
  return sum;
}

Result<void> HeldOutFiles::sequence(u64 index, const BatchArrays& out) const {
  for (const auto& part : parts_) {
    if (index < part->train_sequences()) return part->train_sequence(index, out);
    index -= part->train_sequences();
  }
  CHECK(false, index);
  return {};
}

std::vector<HeldOutPart> HeldOutFiles::parts() const {
  std::vector<HeldOutPart> out;
  for (size_t i = 0; i < parts_.size(); ++i) out.push_back({names_[i], parts_[i]->train_sequences()});
  return out;
}

std::string HeldOutFiles::fingerprint() const {
  std::string all;
  for (const auto& part : parts_) all += part->fingerprint();
  return fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
}

std::vector<std::string> HeldOutFiles::notes(const std::vector<std::string>& said_before) const {
  std::vector<std::string> out;
  std::set<std::string> said(said_before.begin(), said_before.end());
  for (size_t i = 0; i < parts_.size(); ++i)
    for (const std::string& note : parts_[i]->notes())
      if (said.insert(note).second) out.push_back(fmt::format("held out, {}: {}", names_[i], note));
  return out;
}

Bytes HeldOutFiles::memory_bytes() const {
  Bytes sum{};
  for (const auto& part : parts_) sum += part->memory_bytes();
  return sum;
}

DatasetAndFiles::DatasetAndFiles(std::unique_ptr<Dataset> train, HeldOutFiles files,
                                 std::vector<std::string> notes)
    : train_(std::move(train)),
      files_(std::move(files)),
      notes_(std::move(notes)),
      fingerprint_(train_->fingerprint() + "-" + files_.fingerprint()) {}

std::vector<std::string> DatasetAndFiles::notes() const {
  std::vector<std::string> out = train_->notes();
  for (std::string& note : files_.notes(out)) out.push_back(std::move(note));
  out.insert(out.end(), notes_.begin(), notes_.end());
  return out;
}

std::vector<TokenCache*> HeldOutFiles::caches() const {
  std::vector<TokenCache*> out;
  for (const auto& part : parts_)
    for (TokenCache* cache : part->caches()) out.push_back(cache);
  return out;
}

std::vector<TokenCache*> DatasetAndFiles::caches() {
  std::vector<TokenCache*> out = train_->caches();
  for (TokenCache* cache : files_.caches()) out.push_back(cache);
  return out;
}

}  // namespace tidepool
