#include "checkpoint/state_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/check.h"
#include "huggingface/weights/split.h"
#include "kernels/update/slot_formats.h"
#include "tidepool/slot_range.h"

namespace tidepool {
namespace {

template <class T>
std::span<T> as(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

std::string name_in_file(const StateSlots& slots, Kind part, const FileTensor& file) {
  if (part == Kind::param) return file.name;
  const StateSlot& slot = slots[part];
  const bool of_vector = !is_matrix(file.shape) && !slot.file_prefix_of_vectors.empty();
  return std::string(of_vector ? slot.file_prefix_of_vectors : slot.file_prefix) + file.name;
}

Dtype dtype(const StateSlots& slots, Kind part) {
  constexpr std::array<Dtype, precision_count> weights = {Dtype::f32, Dtype::bf16, Dtype::f16};
  if (part == Kind::param) return weights[static_cast<u32>(slots.precision())];
  switch (slots[part].format) {
    case SlotFormat::f32:
    case SlotFormat::remainder:
      break;
    case SlotFormat::bf16:
      return Dtype::bf16;
    case SlotFormat::signed8:
      return Dtype::i8;
    case SlotFormat::unsigned8:
      return Dtype::u8;
  }
  return Dtype::f32;
}

// Codes have a row for each block of a tensor.
std::vector<u64> shape_of_codes(const FileTensor& file) {
  u64 elements = 1;
  for (const u64 extent : file.shape) elements *= extent;
  return {div_up(elements, u64{slot_block_elements}), slot_block_bytes};
}

// RETURNS: the shape of a slot that has no codes.
std::vector<u64> shape_of_values(SlotAxis axis, const FileTensor& file) {
  if (axis == SlotAxis::elements || !is_matrix(file.shape)) return file.shape;
  return {axis == SlotAxis::rows ? file.shape[0] : file.shape[1]};
}

std::vector<u64> shape(const StateSlots& slots, Kind part, const FileTensor& file) {
  if (slots.axis(part) != SlotAxis::elements) return shape_of_values(slots.axis(part), file);
  return part == Kind::param || slots[part].block_elements == 1 ? file.shape : shape_of_codes(file);
}

// RETURNS: how a file has a slot's tensor; nothing if in no format of slots.
std::optional<SlotFormat> format_in_file(const StoredTensor& stored, const FileTensor& file, SlotAxis axis) {
  const std::vector<u64> shape = shape_of_values(axis, file);
  if (stored.dtype == Dtype::f32 && stored.shape == shape) return SlotFormat::f32;
  if (stored.dtype == Dtype::bf16 && stored.shape == shape) return SlotFormat::bf16;
  if (stored.shape != shape_of_codes(file)) return std::nullopt;
  if (stored.dtype == Dtype::i8) return SlotFormat::signed8;
  return stored.dtype == Dtype::u8 ? std::optional(SlotFormat::unsigned8) : std::nullopt;
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
Result<std::span<const std::byte>> read_piece(StateReader& state, Kind part, const StateSlots& slots,
                                              u32 window, u64 begin, u64 n, std::span<std::byte> buffer) {
  if (!slots.is_master(part)) {
    const auto out = buffer.first(slots.bytes(part, n));
    TRY(state.read(window, part, begin, out));
    return std::span<const std::byte>(out);
  }
  const MasterPiece piece(buffer, n);
  if (slots.precision() == Precision::fp16) {
    TRY(state.read(window, part, begin, piece.words));
    return std::span<const std::byte>(piece.words);
  }
  TRY(state.read(window, Kind::param, begin, piece.high));
  TRY(state.read(window, part, begin, piece.low));
  join_split(as<u16>(piece.high), as<u16>(piece.low), as<u32>(piece.words));
  return std::span<const std::byte>(piece.words);
}

// Writes a piece into the state. Its file's bytes are at the start of `buffer`.
Result<void> write_piece(StateWriter& state, Kind part, const StateSlots& slots, u32 window, u64 begin, u64 n,
                         std::span<std::byte> buffer) {
  if (!slots.is_master(part)) return state.write(window, part, begin, buffer.first(slots.bytes(part, n)));
  const MasterPiece piece(buffer, n);
  if (slots.precision() == Precision::fp16) {
    round_to_fp16(as<u32>(piece.words), as<u16>(piece.high));
    TRY(state.write(window, Kind::param, begin, piece.high));
    return state.write(window, part, begin, piece.words);
  }
  split_bits(as<u32>(piece.words), as<u16>(piece.high), as<u16>(piece.low));
  TRY(state.write(window, Kind::param, begin, piece.high));
  return state.write(window, part, begin, piece.low);
}

// Elements of a tensor of a file, and their place in a window.
struct StatePiece {
  const FileTensor& file;
  u64 file_begin = 0;
  u32 window = 0;
  u64 window_begin = 0;
  u64 elements = 0;
};

struct PartInFile {
  const FileTensor* file = nullptr;
  u64 number = 0;      // among the file's parts
  u64 file_begin = 0;  // not if interleaved
  u32 window = 0;
  const Tensor* tensor = nullptr;
  SlotRange range;  // in the window, along the part's axis
};

// True if the tensor is trained, and its rule keeps something of this part.
bool has_part(const ModelGraph& graph, const FileTensor::Part& at, Kind part) {
  const Window& window = graph.windows[at.window];
  const Tensor& tensor = window.tensors[at.tensor];
  return window.trainable && graph.state_slots.has(tensor.rule, part) &&
         slot_elements(graph.state_slots.axis(part), tensor) > 0;
}

// REQUIRES: the tensors of a file's tensor take rules that agree.
bool has_whole_part(const ModelGraph& graph, const FileTensor& file, Kind part) {
  const bool first = has_part(graph, file.parts[0], part);
  for (const FileTensor::Part& at : file.parts) CHECK(has_part(graph, at, part) == first, file.name);
  return first;
}

// RETURNS: the tensors that have a part of the state, in the order of the files.
std::vector<PartInFile> trained_parts(const ModelGraph& graph, const std::vector<FileTensor>& files,
                                      Kind of_state) {
  std::vector<PartInFile> out;
  for (const FileTensor& file : files) {
    u64 begin = 0, number = 0;
    for (const FileTensor::Part& part : file.parts) {
      const Tensor& t = graph.windows[part.window].tensors[part.tensor];
      const SlotAxis axis = graph.state_slots.axis(of_state);
      CHECK(axis == SlotAxis::elements || file.parts.size() == 1, file.name);  // else factors would join
      if (has_part(graph, part, of_state))
        out.push_back(
            {&file, number, begin, part.window, &t, slot_range(graph.windows[part.window], axis, t)});
      begin += t.elements, ++number;
    }
  }
  return out;
}

// Calls fn(StatePiece) for all pieces, in order, and interleaved(PartInFile) for parts of interleaved
// tensors.
template <class Fn, class Interleaved>
Result<void> each_piece(const std::vector<PartInFile>& parts, std::span<std::byte> buffer, Fn&& fn,
                        Interleaved&& interleaved) {
  CHECK(buffer.size() >= state_buffer_bytes_min, buffer.size());
  const u64 most = buffer.size() / buffer_bytes_per_element / slot_block_elements * slot_block_elements;
  for (const PartInFile& part : parts) {
    if (part.file->interleaved) {
      TRY(interleaved(part));
      continue;
    }
    for (u64 begin = 0; begin < part.range.elements; begin += most)
      TRY(fn(StatePiece{.file = *part.file,
                        .file_begin = part.file_begin + begin,
                        .window = part.window,
                        .window_begin = part.range.begin + begin,
                        .elements = std::min(most, part.range.elements - begin)}));
  }
  return {};
}

Result<void> no_interleaved(const PartInFile& part) { CHECK(false, part.file->name); }

// RETURNS: the bytes of an interleaved tensor as the file has them.
Result<std::vector<std::byte>> interleaved_bytes(const ModelGraph& graph, const FileTensor& file,
                                                 StateReader& state) {
  const u64 size = value_bytes(graph.precision);
  std::vector<std::byte> all, one;
  for (u64 i = 0; i < file.parts.size(); ++i) {
    const FileTensor::Part& part = file.parts[i];
    const Tensor& t = graph.windows[part.window].tensors[part.tensor];
    one.resize(t.elements * size);
    all.resize(one.size() * file.parts.size());
    TRY(state.read(part.window, Kind::param, t.window_offset, one));
    put_part(file, i, size, one, all);
  }
  return all;
}

ExpertForm form_of(Kind part, ExpertForm form) { return part == Kind::param ? form : ExpertForm::single; }

Error is_gone(const std::string& tensor) {
  return {ErrorKind::corrupt_checkpoint, fmt::format("tensor {} is no longer in the checkpoint", tensor)};
}

// True if the tensor has the elements of the shape.
bool is_whole(const SafetensorsModel::Location& stored, const FileTensor& file) {
  return stored && stored.tensor->shape == file.shape;
}

}  // namespace

std::vector<Kind> model_parts() { return {Kind::param}; }

std::vector<Kind> optimizer_parts(const StateSlots& slots) {
  std::vector<Kind> parts;
  slots.each_optimizer_slot([&](Kind slot) { parts.push_back(slot); });
  if (slots.has_master()) parts.push_back(slots.master());
  return parts;
}

std::vector<StoredTensor> stored_tensors(const ModelGraph& graph, std::span<const Kind> parts,
                                         ExpertForm form) {
  std::vector<StoredTensor> out;
  for (const Kind part : parts)
    for (FileTensor& file : file_tensors(graph, form_of(part, form)))
      if (has_whole_part(graph, file, part))
        out.push_back({.name = name_in_file(graph.state_slots, part, file),
                       .dtype = dtype(graph.state_slots, part),
                       .shape = shape(graph.state_slots, part, file)});
  assign_offsets(out);
  return out;
}

Result<void> write_part(const TensorSink& sink, const ModelGraph& graph, Kind part, ExpertForm form,
                        StateReader& state, std::span<std::byte> buffer, StreamHash* weights_hash) {
  const std::vector<FileTensor> files = file_tensors(graph, form_of(part, form));
  const auto write = [&](const FileTensor& file, u64 begin, std::span<const std::byte> bytes) {
    if (weights_hash != nullptr) {
      if (begin == 0) weights_hash->update(file.name);
      weights_hash->update(bytes);
    }
    return sink(bytes);
  };
  return each_piece(
      trained_parts(graph, files, part), buffer,
      [&](const StatePiece& p) -> Result<void> {
        TRY_ASSIGN(const std::span<const std::byte> bytes,
                   read_piece(state, part, graph.state_slots, p.window, p.window_begin, p.elements, buffer));
        return write(p.file, p.file_begin, bytes);
      },
      [&](const PartInFile& p) -> Result<void> {
        if (p.number != 0) return {};  // the first stands for all
        TRY_ASSIGN(const std::vector<std::byte> bytes, interleaved_bytes(graph, *p.file, state));
        return write(*p.file, 0, bytes);
      });
}

Result<void> restore_part(const TensorSource& tensors, const ModelGraph& graph, Kind part, StateWriter& state,
                          std::span<std::byte> buffer) {
  const StateSlots& slots = graph.state_slots;
  const bool is_slot = slots.is_optimizer_slot(part);
  SafetensorsModel::Location stored;
  const std::vector<FileTensor> files = file_tensors(graph, ExpertForm::single);
  return each_piece(
      trained_parts(graph, files, part), buffer,
      [&](const StatePiece& p) -> Result<void> {
        if (p.file_begin == 0) stored = tensors.find(name_in_file(slots, part, p.file));
        // Both were compared when the checkpoint was found, so somebody has changed the file since.
        std::optional<SlotFormat> format = SlotFormat::f32;
        if (is_slot && stored) format = format_in_file(*stored.tensor, p.file, slots.axis(part));
        if (!stored || !format || (!is_slot && !is_whole(stored, p.file)))
          return is_gone(name_in_file(slots, part, p.file));
        const auto bytes = [&](u64 n) {
          return is_slot ? slot_bytes(*format, n) : n * dtype_bytes(stored.tensor->dtype);
        };
        const bool converts = is_slot && *format != slots[part].format;
        const auto from = buffer.subspan(converts ? buffer.size() / 2 : 0, bytes(p.elements));
        TRY(tensors.read(stored, bytes(p.file_begin), from));
        if (converts) convert_slot(*format, from.data(), slots[part].format, buffer.data(), p.elements);
        return write_piece(state, part, slots, p.window, p.window_begin, p.elements, buffer);
      },
      no_interleaved);
}

bool has_slots_in_some_format(const ModelGraph& graph, std::span<const StoredTensor> optimizer) {
  std::map<std::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& stored : optimizer) by_name[stored.name] = &stored;
  const std::vector<FileTensor> files = file_tensors(graph, ExpertForm::single);
  u64 found = 0;
  for (const Kind part : optimizer_parts(graph.state_slots))
    for (const FileTensor& file : files) {
      if (!has_whole_part(graph, file, part)) continue;
      const auto at = by_name.find(name_in_file(graph.state_slots, part, file));
      if (at == by_name.end()) return false;
      const std::optional<SlotFormat> format =
          format_in_file(*at->second, file, graph.state_slots.axis(part));
      if (!format || (graph.state_slots.is_master(part) && format != SlotFormat::f32)) return false;
      ++found;
    }
  return found == optimizer.size();
}

Result<void> restore_weights_by_name(const SafetensorsModel& model, const ModelGraph& graph, ExpertForm form,
                                     StateWriter& state, std::span<std::byte> buffer) {
  CHECK(graph.precision == Precision::fp32);
  const std::vector<FileTensor> files = file_tensors(graph, form);
  std::vector<PartInFile> parts = trained_parts(graph, files, Kind::param);
  std::ranges::sort(parts, {},
                    [](const PartInFile& p) { return std::pair(p.window, p.tensor->window_offset); });
  const auto find = [&](const FileTensor& file) -> Result<SafetensorsModel::Location> {
    const SafetensorsModel::Location stored = model.find(file.name);
    if (!is_whole(stored, file) || stored.tensor->dtype != Dtype::f32) return is_gone(file.name);
    return stored;
  };
  InterleavedParts interleaved;
  return each_piece(
      parts, buffer,
      [&](const StatePiece& p) -> Result<void> {
        TRY_ASSIGN(const SafetensorsModel::Location stored, find(p.file));
        const std::span<std::byte> bytes = buffer.first(p.elements * sizeof(float));
        TRY(stored.file->read(*stored.tensor, p.file_begin * sizeof(float), bytes));
        return state.write(p.window, Kind::param, p.window_begin, bytes);
      },
      [&](const PartInFile& p) -> Result<void> {
        TRY_ASSIGN(const SafetensorsModel::Location stored, find(*p.file));
        TRY_ASSIGN(const std::vector<std::byte> bytes, interleaved.read(stored, *p.file, p.number));
        return state.write(p.window, Kind::param, p.tensor->window_offset, bytes);
      });
}

}  // namespace tidepool
