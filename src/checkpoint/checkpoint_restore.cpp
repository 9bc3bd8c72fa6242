#include "checkpoint/adapter_files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/state_tensors.h"
#include "tidepool/check.h"

namespace tidepool {

Result<void> CheckpointStore::restore(const FoundCheckpoint& found, StateWriter& writer) {
  // In 16 bits the masters hold the weights too, and more exactly: model.safetensors is not read again.
  std::vector<StatePart> parts = optimizer_parts(graph_.precision);
  TRY_ASSIGN(const auto optimizer,
             SafetensorsFile::open(found.path + "/optimizer.safetensors", ErrorKind::corrupt_checkpoint));
  const FindTensor of_optimizer = [&](const std::string& name) {
    return SafetensorsModel::Location{optimizer.get(), optimizer->find(name)};
  };
  for (const StatePart part : parts) TRY(restore_part(of_optimizer, graph_, part, writer, buffer_));
  if (graph_.precision == Precision::fp32) {
    TRY_ASSIGN(const auto model,
               SafetensorsModel::open(found.path, ErrorKind::corrupt_checkpoint, weights_file_of(graph_)));
    const FindTensor of_model = [&](const std::string& name) { return model->find(name); };
    TRY(restore_part(of_model, graph_, StatePart::weights, writer, buffer_));
  }
  return writer.finish();
}

}  // namespace tidepool
