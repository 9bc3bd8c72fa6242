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
//   a slot       its prefix and "<name>", for each tensor of the model, F32. The master of bf16 is joined
//   from
//                `param` and its remainder
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

// Restores one part from a checkpoint.
// Error: corrupt_checkpoint if `tensors` lacks one of stored_tensors().
Result<void> restore_part(HashedTensors& tensors, const ModelGraph&, Kind part, StateWriter&,
                          std::span<std::byte> buffer);
// Restores fp32 weights with joined experts or joined adapters of experts, which the state takes in another
// order than the file has them. REQUIRES: the files were verified.
Result<void> restore_joined_weights(const SafetensorsModel&, const ModelGraph&, StateWriter&,
                                    std::span<std::byte> buffer);

}  // namespace tidepool
