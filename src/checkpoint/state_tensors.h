// Converts between a window's elements and the tensors of a checkpoint's files. Used only inside
// src/checkpoint.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/text/hash.h"
#include "checkpoint/hashed_tensors.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/safetensors.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// A part is a consecutive group of tensors in a file, in the model's order: all that there is of one kind.
//   Kind::param  the weights: "<name>", in the stored precision. Experts have the form of the model's files
//   a slot       its prefix and "<name>", for each tensor of the model, in its format. The master of bf16 is
//                joined from `param` and its remainder
// Content of model.safetensors and optimizer.safetensors, in order: the master is last.
std::vector<Kind> model_parts();
std::vector<Kind> optimizer_parts(const StateSlots&);

// The exact tensors, with offsets, of a file with these parts. Covers only trained windows. `form`: of
// weights.
std::vector<StoredTensor> stored_tensors(const ModelGraph&, std::span<const Kind>, ExpertForm form);
inline std::vector<StoredTensor> stored_tensors(const ModelGraph& graph, std::span<const Kind> parts) {
  return stored_tensors(graph, parts, form_of_files(graph));
}

// Smallest buffer that the functions below accept.
inline constexpr u64 state_buffer_bytes_min = 64 * kib;

// Streams one part into `sink` through `buffer`. `weights_hash`, if not null, is updated with each tensor's
// name and bytes. Joined experts are read in the order of the file, not of windows: once for each tensor that
// an expert has. An interleaved tensor is in memory as a whole, beside `buffer`.
// REQUIRES: buffer.size() >= state_buffer_bytes_min, 8-byte aligned.
using TensorSink = std::function<Result<void>(std::span<const std::byte>)>;
Result<void> write_part(const TensorSink& sink, const ModelGraph&, Kind part, ExpertForm, StateReader&,
                        std::span<std::byte> buffer, StreamHash* weights_hash);

// restore_part() reads from it: in the order of a file and with hashes (HashedTensors), or anywhere.
struct TensorSource {
  std::function<SafetensorsModel::Location(const std::string& name)> find;
  std::function<Result<void>(const SafetensorsModel::Location&, u64 begin, std::span<std::byte>)> read;
};

// Restores one part from a checkpoint. A slot that the file has in another format is converted.
// Error: corrupt_checkpoint if `tensors` lacks one of stored_tensors().
Result<void> restore_part(const TensorSource& tensors, const ModelGraph&, Kind part, StateWriter&,
                          std::span<std::byte> buffer);
// Restores fp32 weights that the state takes in another order than the files have them, such as joined
// experts and joined adapters of experts. REQUIRES: the files were verified.
Result<void> restore_weights_by_name(const SafetensorsModel&, const ModelGraph&, ExpertForm, StateWriter&,
                                     std::span<std::byte> buffer);

// True if the file has the optimizer's tensors, each slot in some format, and no others.
bool has_slots_in_some_format(const ModelGraph&, std::span<const StoredTensor> optimizer);

}  // namespace tidepool
