// Weights of any Hugging Face GPT-2 directory into the state, tensor by tensor.
#include <algorithm>
#include <bit>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/split.h"
#include "checkpoint/state_tensors.h"
#include "tidepool/check.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

constexpr std::string_view old_prefix = "transformer.";

SafetensorsModel::Location find_tensor(const SafetensorsModel& model, const std::string& name) {
  if (const auto at = model.find(name)) return at;
  return model.find(std::string(old_prefix) + name);
}

bool is_known_extra(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight";
}

void widen(Dtype dtype, std::span<const u16> in, std::span<u32> out) {
  if (dtype == Dtype::bf16) {
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = u32{in[i]} << 16;
  } else {
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = std::bit_cast<u32>(float_from_fp16(in[i]));
  }
}

// A piece of n elements: fp32 words, then 16-bit words (from the file, or as the parameter), then low halves.
struct Piece {
  std::span<u32> words;
  std::span<u16> high, low;

  Piece(std::span<std::byte> buffer, u64 n)
      : words(reinterpret_cast<u32*>(buffer.data()), n),
        high(reinterpret_cast<u16*>(buffer.data() + 4 * n), n),
        low(reinterpret_cast<u16*>(buffer.data() + 6 * n), n) {}
};

Result<void> load_piece(const SafetensorsModel::Location& at, u64 begin, const Piece& piece) {
  if (at.tensor->dtype == Dtype::f32) {
    return at.file->read(*at.tensor, 4 * begin, std::as_writable_bytes(piece.words));
  }
  TRY(at.file->read(*at.tensor, 2 * begin, std::as_writable_bytes(piece.high)));
  widen(at.tensor->dtype, piece.high, piece.words);
  return {};
}

Result<void> store_piece(StateWriter& writer, Precision precision, u32 window, u64 begin, const Piece& piece) {
  if (precision == Precision::fp32) return writer.write(window, Kind::param, begin, std::as_bytes(piece.words));
  if (precision == Precision::fp16) {
    round_to_fp16(piece.words, piece.high);
    TRY(writer.write(window, Kind::param, begin, std::as_bytes(piece.high)));
    return writer.write(window, Kind::master, begin, std::as_bytes(piece.words));
  }
  split_bits(piece.words, piece.high, piece.low);
  TRY(writer.write(window, Kind::param, begin, std::as_bytes(piece.high)));
  return writer.write(window, Kind::master_low, begin, std::as_bytes(piece.low));
}

Result<SafetensorsModel::Location> locate(const SafetensorsModel& model, const std::string& directory,
                                          const Tensor& t) {
  const auto at = find_tensor(model, t.name);
  if (!at) {
    return Error{ErrorKind::bad_input, fmt::format("{}: has no tensor {} (expected {})", directory, t.name,
                                                   shape_text(t.shape))};
  }
  if (at.tensor->shape != t.shape) {
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is {}, the model's config wants {}", at.file->path(), t.name,
                             shape_text(at.tensor->shape), shape_text(t.shape))};
  }
  const Dtype dtype = at.tensor->dtype;
  if (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::f16) {
    return Error{ErrorKind::bad_input, fmt::format("{}: tensor {} is {}, weights must be F32, BF16 or F16",
                                                   at.file->path(), t.name, name(dtype))};
  }
  return at;
}

std::vector<std::string> unused_tensors(const SafetensorsModel& model, const ModelGraph& graph) {
  std::vector<std::string> wanted, unused;
  for (const Window& w : graph.windows) {
    for (const Tensor& t : w.tensors) wanted.push_back(t.name);
  }
  std::sort(wanted.begin(), wanted.end());
  for (const auto& file : model.files()) {
    for (const StoredTensor& t : file->tensors()) {
      std::string_view name = t.name;
      if (name.starts_with(old_prefix)) name.remove_prefix(old_prefix.size());
      if (!is_known_extra(name) && !std::binary_search(wanted.begin(), wanted.end(), name)) unused.push_back(t.name);
    }
  }
  return unused;
}

}  // namespace

Result<std::vector<std::string>> load_weights(const std::string& directory, const ModelGraph& graph,
                                              StateWriter& writer, Bytes buffer_bytes) {
  TRY_ASSIGN(const auto model, SafetensorsModel::open(directory, ErrorKind::bad_input));
  std::vector<std::byte> buffer(std::max(buffer_bytes.value, state_buffer_bytes_min));
  const u64 piece_elements = buffer.size() / 8;
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    for (const Tensor& t : graph.windows[w].tensors) {
      TRY_ASSIGN(const SafetensorsModel::Location at, locate(*model, directory, t));
      for (u64 begin = 0; begin < t.elements; begin += piece_elements) {
        const Piece piece(buffer, std::min(piece_elements, t.elements - begin));
        TRY(load_piece(at, begin, piece));
        TRY(store_piece(writer, graph.precision, w, t.window_offset + begin, piece));
      }
    }
  }
  TRY(writer.finish());
  return unused_tensors(*model, graph);
}

}  // namespace tidepool
