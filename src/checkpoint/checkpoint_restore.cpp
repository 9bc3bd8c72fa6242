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
  for (const StatePart part : parts) TRY(restore_part(*optimizer, graph_, part, writer, buffer_));
  if (graph_.precision == Precision::fp32) {
    TRY_ASSIGN(const auto model,
               SafetensorsFile::open(found.path + "/" + weights_file_of(graph_), ErrorKind::corrupt_checkpoint));
    TRY(restore_part(*model, graph_, StatePart::weights, writer, buffer_));
  }
  return writer.finish();
}

}  // namespace tidepool
