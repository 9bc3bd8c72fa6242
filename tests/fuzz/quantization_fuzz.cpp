// Fuzzes a packed model: its config.json, and the tensors that belong to packed matrices.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "huggingface/directory/quantization.h"
#include "huggingface/weights/packed_tensors.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

constexpr u64 packed_bytes_max = mib, size_max = 1 << 20;

// The matrix that a tensor may be the codes of.
// RETURNS: without rows if it cannot be.
WantedMatrix wanted_of(const StoredTensor& t, const Quantization& quantization) {
  WantedMatrix out{.name = t.name,
                   .packing = quantization.packing,
                   .block_rows = quantization.block_rows,
                   .block_columns = quantization.block_columns};
  std::vector<u64> shape = t.shape;
  if (out.name.ends_with("_blocks") && shape.size() == 4) {
    out.name.resize(out.name.size() - 7);
    shape.pop_back(), shape[2] *= mxfp4_block;
  }
  if (is_nf4(out.packing) && t.dtype == Dtype::u8) shape = {3, 70};  // the seeds'
  if (shape.size() < 2 || shape.size() > 3) return {};
  if (std::ranges::any_of(shape, [](u64 n) { return n == 0 || n > size_max; })) return {};
  if (shape.size() == 3) out.experts = static_cast<u32>(shape[0]);
  out.rows = static_cast<u32>(shape.end()[-2]), out.columns = static_cast<u32>(shape.end()[-1]);
  return out;
}

}  // namespace

void quantization(std::string_view input) {
  const std::vector<std::string_view> files = parts(input, 2);
  const auto quantization = parse_quantization(files[0], ErrorKind::bad_input, "fuzz.json");
  if (!quantization) return check_refusal(quantization.error());
  if (!*quantization) return;
  CHECK((*quantization)->packing != Packing::none);
  file("fuzz_packed.safetensors", files[1]);
  const auto model = SafetensorsModel::open(directory(), ErrorKind::bad_input, "fuzz_packed.safetensors");
  if (!model) return check_refusal(model.error());
  for (const StoredTensor& t : (*model)->files()[0]->tensors()) {
    const WantedMatrix wanted = wanted_of(t, **quantization);
    if (wanted.rows == 0) continue;
    const auto source = find_packed(**model, wanted);
    if (!source) {
      check_refusal(source.error());
      continue;
    }
    if (source->matrix.packing == Packing::none || packed_bytes(source->matrix) > packed_bytes_max) continue;
    std::vector<std::byte> run(packed_bytes(source->matrix));
    for (u32 e = 0; e < std::max(wanted.experts, 1u); ++e)
      if (const auto done = read_packed(*source, e, 0, run); !done) check_refusal(done.error());
  }
}

}  // namespace tidepool::fuzz
