#include "checkpoint/state_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "huggingface/weights/split.h"

namespace tidepool {
namespace {

std::string_view prefix(StatePart part) {
  switch (part) {
    case StatePart::weights:
      return "";
    case StatePart::momentum:
      return "exp_avg.";
    case StatePart::variance:
      return "exp_avg_sq.";
    case StatePart::master:
      return "master.";
  }
  CHECK(false);
}

Dtype dtype(StatePart part, Precision precision) {
  constexpr std::array<Dtype, precision_count> weights = {Dtype::f32, Dtype::bf16, Dtype::f16};
  return part == StatePart::weights ? weights[static_cast<u32>(precision)] : Dtype::f32;
}

Kind kind(StatePart part) {
  return part == StatePart::momentum   ? Kind::momentum
         : part == StatePart::variance ? Kind::variance
                                       : Kind::param;
}

template <class T>
std::span<T> as(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Buffers for a piece of a master: its 32-bit words, and the two halves that the state keeps; 8 bytes per
// element.
struct MasterPiece {
  std::span<std::byte> words, high, low;

  MasterPiece(std::span<std::byte> buffer, u64 n)
      : words(buffer.first(4 * n)), high(buffer.subspan(4 * n, 2 * n)), low(buffer.subspan(6 * n, 2 * n)) {}
};
constexpr u64 buffer_bytes_per_element = 8;

// Reads elements [begin, begin + n) of a window.
// RETURNS: the file's bytes, at the start of `buffer`.
Result<std::span<const std::byte>> read_piece(StateReader& state, StatePart part, Precision precision,
                                              u32 window, u64 begin, u64 n, std::span<std::byte> buffer) {
  if (part != StatePart::master) {
    const auto out = buffer.first(n * element_bytes(kind(part), precision));
    TRY(state.read(window, kind(part), begin, out));
    return std::span<const std::byte>(out);
  }
  const MasterPiece piece(buffer, n);
  if (precision == Precision::fp16) {
    TRY(state.read(window, Kind::master, begin, piece.words));
    return std::span<const std::byte>(piece.words);
  }
  TRY(state.read(window, Kind::param, begin, piece.high));
  TRY(state.read(window, Kind::master_low, begin, piece.low));
  join_split(as<u16>(piece.high), as<u16>(piece.low), as<u32>(piece.words));
  return std::span<const std::byte>(piece.words);
}

// Writes a piece into the state. Its file's bytes are at the start of `buffer`.
Result<void> write_piece(StateWriter& state, StatePart part, Precision precision, u32 window, u64 begin,
                         u64 n, std::span<std::byte> buffer) {
  if (part != StatePart::master) {
    return state.write(window, kind(part), begin, buffer.first(n * element_bytes(kind(part), precision)));
  }
  const MasterPiece piece(buffer, n);
  if (precision == Precision::fp16) {
    round_to_fp16(as<u32>(piece.words), as<u16>(piece.high));
    TRY(state.write(window, Kind::param, begin, piece.high));
    return state.write(window, Kind::master, begin, piece.words);
  }
  split_bits(as<u32>(piece.words), as<u16>(piece.high), as<u16>(piece.low));
  TRY(state.write(window, Kind::param, begin, piece.high));
  return state.write(window, Kind::master_low, begin, piece.low);
}

// Calls fn(window, tensor, begin in the tensor, elements) for all pieces of the model, in order.
template <class Fn>
Result<void> each_piece(const ModelGraph& graph, std::span<std::byte> buffer, Fn&& fn) {
  CHECK(buffer.size() >= state_buffer_bytes_min, buffer.size());
  const u64 piece = buffer.size() / buffer_bytes_per_element;
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    if (!graph.windows[w].trainable) continue;
    for (const Tensor& t : graph.windows[w].tensors) {
      for (u64 begin = 0; begin < t.elements; begin += piece) {
        TRY(fn(w, t, begin, std::min(piece, t.elements - begin)));
      }
    }
  }
  return {};
}

}  // namespace

std::vector<StatePart> model_parts() { return {StatePart::weights}; }

std::vector<StatePart> optimizer_parts(Precision precision) {
  std::vector<StatePart> parts = {StatePart::momentum, StatePart::variance};
  if (precision != Precision::fp32) parts.push_back(StatePart::master);
  return parts;
}

std::vector<StoredTensor> stored_tensors(const ModelGraph& graph, std::span<const StatePart> parts) {
  std::vector<StoredTensor> out;
  for (const StatePart part : parts) {
    for (const Window& window : graph.windows) {
      if (!window.trainable) continue;
      for (const Tensor& t : window.tensors) {
        out.push_back({.name = std::string(prefix(part)) + t.name,
                       .dtype = dtype(part, graph.precision),
                       .shape = t.shape});
      }
    }
  }
  assign_offsets(out);
  return out;
}

Result<void> write_part(const TensorSink& sink, const ModelGraph& graph, StatePart part, StateReader& state,
                        std::span<std::byte> buffer, StreamHash* weights_hash) {
  return each_piece(graph, buffer, [&](u32 window, const Tensor& t, u64 begin, u64 n) -> Result<void> {
    TRY_ASSIGN(const std::span<const std::byte> bytes,
               read_piece(state, part, graph.precision, window, t.window_offset + begin, n, buffer));
    if (weights_hash != nullptr) {
      if (begin == 0) weights_hash->update(t.name);
      weights_hash->update(bytes);
    }
    return sink(bytes);
  });
}

Result<void> restore_part(HashedTensors& tensors, const ModelGraph& graph, StatePart part, StateWriter& state,
                          std::span<std::byte> buffer) {
  SafetensorsModel::Location stored;
  return each_piece(graph, buffer, [&](u32 window, const Tensor& t, u64 begin, u64 n) -> Result<void> {
    if (begin == 0) stored = tensors.find(std::string(prefix(part)) + t.name);
    // Both were compared when the checkpoint was found, so somebody has changed the file since.
    if (!stored || stored.tensor->bytes() != t.elements * dtype_bytes(stored.tensor->dtype))
      return Error{ErrorKind::corrupt_checkpoint,
                   fmt::format("tensor {}{} is no longer in the checkpoint", prefix(part), t.name)};
    const u64 bytes = dtype_bytes(stored.tensor->dtype);
    TRY(tensors.read(stored, begin * bytes, buffer.first(n * bytes)));
    return write_piece(state, part, graph.precision, window, t.window_offset + begin, n, buffer);
  });
}

}  // namespace tidepool
