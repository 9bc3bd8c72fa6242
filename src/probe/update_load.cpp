#include "probe/update_load.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/process/limits.h"
#include "probe/scale.h"
#include "tidepool/slot_range.h"

namespace tidepool {
namespace {

// 64 MiB of fp32: large chunks, as in plans for models of this size.
constexpr u64 chunk_elements = 16 * mib;
// Bytes that a task takes of each fp32 array.
constexpr u64 scale_piece_bytes = 1 * mib;
constexpr u64 huge_page_bytes = 2 * mib;
constexpr u32 columns = 2048;  // of a chunk that is one matrix
static_assert(cut_alignment_elements % columns == 0);

}  // namespace

Result<std::unique_ptr<UpdateLoad>> UpdateLoad::create(Precision precision, Optim optim, u64 parameters,
                                                       CorePool& pool) {
  std::unique_ptr<UpdateLoad> load(new UpdateLoad(precision, optim, parameters, pool));
  TRY(load->take_memory());
  for (u64 chunk = 0; chunk < load->chunks_; ++chunk)
    for (const Array& array : load->arrays_) {
      load->fill(array, load->address(chunk, array));
      load->cut_pieces(array, load->address(chunk, array));
    }
  return load;
}

UpdateLoad::UpdateLoad(Precision precision, Optim optim, u64 parameters, CorePool& pool)
    : optim_(optim),
      slots_(state_slots(precision, optim)),
      elements_(std::min(chunk_elements, round_up(parameters, cut_alignment_elements))),
      chunks_(div_up(parameters, elements_)),
      pool_(pool),
      segment_{0, elements_, true},
      tensor_{.rows = static_cast<u32>(elements_ / columns), .columns = columns} {
  if (const auto scratch = optimizer(optim).scratch) scratch_.resize(scratch({&tensor_, 1}));
  const auto add = [&](Kind kind) {
    const u64 bytes =
        slots_.chunk_bytes(kind, slot_elements(slots_.axis(kind), elements_, tensor_.rows, tensor_.columns));
    arrays_.push_back({bytes, chunk_bytes_, bytes == 2 * elements_});
    chunk_bytes_ += bytes;
  };
  add(Kind::grad), add(Kind::param);
  slots_.each(add);
  for (auto& hashes : hashes_) hashes.resize(div_up(elements_, checksum_block_elements));
}

UpdateLoad::~UpdateLoad() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

Result<void> UpdateLoad::take_memory() {
  mapped_bytes_ = chunks_ * chunk_bytes_ + huge_page_bytes;
  void* memory = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return no_memory("arrays of state", Bytes{mapped_bytes_}, errno, "set a smaller --parameters");
  mapped_ = memory;
  madvise(memory, mapped_bytes_, MADV_HUGEPAGE);  // a hint: without it the numbers are a little lower
  memory_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<u64>(memory), huge_page_bytes));
  return {};
}

// The workers fill the arrays, so that pages lie where the pool runs. Halves are 1.0 in bf16 (1.9 in fp16);
// as remainders they are small. Floats are 0.74, and so are the scales of codes, which are 63.
void UpdateLoad::fill(const Array& array, std::byte* data) {
  const u64 tasks = div_up(array.bytes, scale_piece_bytes);
  parallel_for(pool_, Priority::high, static_cast<u32>(tasks), [&](u32 task, u32) {
    const u64 begin = task * scale_piece_bytes, bytes = std::min(scale_piece_bytes, array.bytes - begin);
    if (array.halves)
      std::fill_n(reinterpret_cast<u16*>(data + begin), bytes / 2, u16{0x3f80});
    else
      std::fill_n(data + begin, bytes, std::byte{0x3f});
  });
}

void UpdateLoad::cut_pieces(const Array& array, std::byte* data) {
  for (u64 at = 0; at < array.bytes; at += scale_piece_bytes)
    pieces_.push_back({data + at, std::min(scale_piece_bytes, array.bytes - at), array.halves});
}

void UpdateLoad::scale() {
  parallel_for(pool_, Priority::high, static_cast<u32>(pieces_.size()), [&](u32 task, u32) {
    const Piece& piece = pieces_[task];
    if (piece.halves)
      scale_halves(reinterpret_cast<u16*>(piece.data), piece.bytes / 2, half_factor_);
    else
      scale_floats(reinterpret_cast<float*>(piece.data), piece.bytes / 4, float_factor_);
  });
}

void UpdateLoad::update() { update_chunks(false); }
void UpdateLoad::update_hashed() { update_chunks(true); }

void UpdateLoad::update_chunks(bool hashed) {
  const UpdateStep step = update_step(optim_, {.learning_rate = 1e-3, .weight_decay = 0.1}, 100, 1.0);
  const UpdateScalars scalars = update_scalars(step, {.grad_norm = 2.0});
  for (u64 chunk = 0; chunk < chunks_; ++chunk)
    tidepool::update(chunk_of(chunk, hashed), slots_, optim_, scalars, pool_);
}

UpdateChunk UpdateLoad::chunk_of(u64 chunk, bool hashed) {
  UpdateChunk c{
      .elements = elements_, .segments = {&segment_, 1}, .tensors = {&tensor_, 1}, .scratch = scratch_};
  c.grad = address(chunk, arrays_[0]);
  for (u32 i = 1; i < arrays_.size(); ++i) {
    c.arrays[i - 1].data = address(chunk, arrays_[i]);
    if (hashed) c.arrays[i - 1].hashes = hashes_[i - 1];
  }
  return c;
}

}  // namespace tidepool
