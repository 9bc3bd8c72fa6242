// Packed matrices are recognised by the tensors beside their codes, whatever the family.
#include "checkpoint/export_packed.h"

#include <fmt/format.h>

#include <bit>

#include "base/check.h"
#include "base/text/cut_text.h"
#include "huggingface/weights/packed_sources.h"
#include "huggingface/weights/quant_state.h"
#include "kernels/unpack/unpack_range.h"

namespace tidepool {
namespace {

using Location = SafetensorsModel::Location;

// The matrix whose codes are in tensor `t`; none if there is none.
Result<std::optional<WantedMatrix>> wanted_of(const SafetensorsModel& model, const StoredTensor& t) {
  const auto extent = [&](u64 i) { return static_cast<u32>(i < t.shape.size() ? t.shape[i] : 0); };
  WantedMatrix out = {.name = t.name, .rows = extent(0), .columns = extent(1)};
  if (t.dtype == Dtype::f8_e4m3 && t.shape.size() == 2) {
    const Location scales = model.find(t.name + "_scale_inv");
    if (!scales || scales.tensor->shape.size() != 2) return std::optional<WantedMatrix>();
    out.packing = Packing::fp8_block;
    return std::optional(out);
  }
  if (t.name.ends_with("_blocks") && t.dtype == Dtype::u8 && t.shape.size() == 4) {
    out = {.name = std::string(without_end(t.name, "_blocks")),
           .experts = extent(0),
           .rows = extent(1),
           .columns = extent(2) * mxfp4_block,
           .packing = Packing::mxfp4};
    return std::optional(out);
  }
  if (t.dtype == Dtype::i8 && model.find(std::string(without_end(t.name, "weight")) + "SCB")) {
    out.packing = Packing::int8_row;
    return std::optional(out);
  }
  const Location state = model.find(t.name + ".quant_state.bitsandbytes__nf4");
  if (!state || state.tensor->bytes() > quant_state_bytes_max) return std::optional<WantedMatrix>();
  std::string text(state.tensor->bytes(), '\0');
  TRY(state.file->read(*state.tensor, 0, std::as_writable_bytes(std::span(text))));
  TRY_ASSIGN(const QuantState parsed,
             parse_quant_state(text, fmt::format("{}: tensor {}", state.file->path(), state.tensor->name)));
  if (parsed.shape.size() != 2) return std::optional<WantedMatrix>();
  out.rows = static_cast<u32>(parsed.shape[0]), out.columns = static_cast<u32>(parsed.shape[1]);
  out.packing = Packing::nf4;
  return std::optional(out);
}

}  // namespace

Result<PackedMatrices> PackedMatrices::find(const SafetensorsModel& model, const Quantization& quantization) {
  PackedMatrices out;
  for (const auto& file : model.files())
    for (const StoredTensor& t : file->tensors()) {
      TRY_ASSIGN(std::optional<WantedMatrix> wanted, wanted_of(model, t));
      if (!wanted) continue;
      if (wanted->packing == Packing::fp8_block && quantization.packing != Packing::fp8_block) continue;
      wanted->block_rows = quantization.block_rows, wanted->block_columns = quantization.block_columns;
      TRY_ASSIGN(PackedSource source, find_packed(model, *wanted));
      for (std::string& side : packed_names(wanted->name, wanted->packing))
        if (side != t.name) out.sides_.insert(std::move(side));
      std::vector<u64> shape = {wanted->rows, wanted->columns};
      if (wanted->experts != 0) shape = {wanted->experts, wanted->columns, wanted->rows};
      out.matrices_[t.name] = {.name = wanted->name, .shape = std::move(shape), .source = std::move(source)};
    }
  return out;
}

const PackedMatrices::Matrix* PackedMatrices::of_codes(const std::string& tensor) const {
  const auto found = matrices_.find(tensor);
  return found == matrices_.end() ? nullptr : &found->second;
}

Result<void> UnpackedReader::load(u32 expert) {
  const PackedMatrix& m = matrix_.source.matrix;
  packed_.resize(packed_bytes(m));
  TRY(read_packed(matrix_.source, expert, 0, packed_));
  if (matrix_.shape.size() == 3) {
    transposed_.resize(m.elements());
    std::vector<u16> row(m.columns);
    for (u32 r = 0; r < m.rows; ++r) {
      unpack_range(m, packed_.data(), u64{r} * m.columns, m.columns,
                   Values(reinterpret_cast<std::byte*>(row.data()), Precision::bf16));
      for (u32 c = 0; c < m.columns; ++c) transposed_[u64{c} * m.rows + r] = row[c];
    }
  }
  loaded_ = expert;
  return {};
}

Result<void> UnpackedReader::read(u64 begin, std::span<float> out) {
  const PackedMatrix& m = matrix_.source.matrix;
  const u32 expert = static_cast<u32>(begin / m.elements());
  const u64 first = begin % m.elements();
  CHECK(first + out.size() <= m.elements(), begin, out.size());
  if (loaded_ != expert) TRY(load(expert));
  if (matrix_.shape.size() == 3)
    for (u64 i = 0; i < out.size(); ++i) out[i] = std::bit_cast<float>(u32{transposed_[first + i]} << 16);
  else
    unpack_range(m, packed_.data(), first, out.size(), Values(out.data()));
  return {};
}

}  // namespace tidepool
