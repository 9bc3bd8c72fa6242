// Between a window's elements and the tensors of a checkpoint's files. Inside src/checkpoint.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/text/hash.h"
#include "checkpoint/hashed_tensors.h"
#include "huggingface/weights/safetensors.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// One run of tensors in a file, one per model tensor in the model's order.
enum class StatePart : u8 {
  weights,   // "<name>", the stored precision
  momentum,  // "exp_avg.<name>", F32
  variance,  // "exp_avg_sq.<name>", F32
  master,    // "master.<name>", F32: fp16's master, or in bf16 joined from param and master_low
};

// What model.safetensors and optimizer.safetensors hold, in order.
std::vector<StatePart> model_parts();
std::vector<StatePart> optimizer_parts(Precision);

// Of the windows that are trained, with offsets. What a file of these parts must be, exactly.
std::vector<StoredTensor> stored_tensors(const ModelGraph&, std::span<const StatePart>);

// The smallest buffer that the functions below work with.
inline constexpr u64 state_buffer_bytes_min = 64 * kib;

// Streams one part into `sink` through `buffer`. `weights_hash`, where not null, takes each tensor's
// name and bytes. REQUIRES: buffer.size() >= state_buffer_bytes_min, 8-byte aligned.
using TensorSink = std::function<Result<void>(std::span<const std::byte>)>;
Result<void> write_part(const TensorSink& sink, const ModelGraph&, StatePart, StateReader&,
                        std::span<std::byte> buffer, StreamHash* weights_hash);

// The other way. ErrorKind::corrupt_checkpoint where `tensors` lacks one of stored_tensors().
Result<void> restore_part(HashedTensors& tensors, const ModelGraph&, StatePart, StateWriter&,
                          std::span<std::byte> buffer);

}  // namespace tidepool
