#include "checkpoint/checkpoint.h"
#include "checkpoint/hashed_tensors.h"
#include "checkpoint/state_tensors.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/shards.h"

namespace tidepool {

// With 16-bit weights, the masters hold the weights more exactly, so the model's files are not read.
bool CheckpointStore::is_restored(const std::string& file) const {
  if (file == optimizer_file_name) return true;
  if (graph_.precision != Precision::fp32) return false;
  return file == adapter_weights_file || (is_weights_file(file) && file != weights_index_file);
}

Result<void> CheckpointStore::restore(const FoundCheckpoint& found, StateWriter& writer) {
  const auto restore_file = [&](const char* file, const std::vector<Kind>& parts) -> Result<void> {
    TRY_ASSIGN(HashedTensors tensors, HashedTensors::open(found.path, file, found.manifest));
    const TensorSource source = {
        .find = [&](const std::string& name) { return tensors.find(name); },
        .read = [&](const SafetensorsModel::Location& at, u64 begin,
                    std::span<std::byte> out) { return tensors.read(at, begin, out); }};
    for (const Kind part : parts) TRY(restore_part(source, graph_, part, writer, buffer_));
    return tensors.finish();
  };
  if (converts_)
    TRY(convert_optimizer(found, writer));
  else
    TRY(restore_file(optimizer_file_name, optimizer_parts(graph_.state_slots)));
  if (graph_.precision == Precision::fp32) {
    if (form_ == ExpertForm::joined || converts_)
      TRY(restore_weights(found, writer));
    else
      TRY(restore_file(weights_file_of(graph_), model_parts()));
  }
  return writer.finish();
}

// Reads state in another format, and maybe another order, after the file was verified.
Result<void> CheckpointStore::convert_optimizer(const FoundCheckpoint& found, StateWriter& writer) {
  for (const ListedFile& file : found.manifest.files)
    if (file.file == optimizer_file_name) TRY(check_file(found.path, file, buffer_));
  TRY_ASSIGN(const auto tensors,
             SafetensorsModel::open(found.path, ErrorKind::corrupt_checkpoint, optimizer_file_name));
  const TensorSource source = {
      .find = [&](const std::string& name) { return tensors->find(name); },
      .read = [](const SafetensorsModel::Location& at, u64 begin,
                 std::span<std::byte> out) { return at.file->read(*at.tensor, begin, out); }};
  for (const Kind part : optimizer_parts(graph_.state_slots))
    TRY(restore_part(source, graph_, part, writer, buffer_));
  return {};
}

// Reads joined experts, or their adapters, after all files of weights were verified: they are not read from
// first to last byte.
Result<void> CheckpointStore::restore_weights(const FoundCheckpoint& found, StateWriter& writer) {
  for (const ListedFile& file : found.manifest.files)
    if (is_weights_file(file.file) || file.file == adapter_weights_file)
      TRY(check_file(found.path, file, buffer_));
  TRY_ASSIGN(const auto model,
             SafetensorsModel::open(found.path, ErrorKind::corrupt_checkpoint, weights_file_of(graph_)));
  return restore_weights_by_name(*model, graph_, form_, writer, buffer_);
}

}  // namespace tidepool
