// Loads weights of other tools into the state: every one of their types into every precision of ours, across
// parts and buffers, for any start of a tensor in the file.
#include <fmt/format.h>

#include <bit>

#include "huggingface/weights/split.h"
#include "huggingface/weights/tensor_hashes.h"
#include "huggingface/weights/weight_reader.h"
#include "tests/support/checkpoint_fixture.h"

namespace tidepool::weights_test {

using namespace test;

// Bits of element i: numbers of all magnitudes, no NaN. Exact in neither bf16 nor fp16.
u32 word(u64 i) { return std::bit_cast<u32>(0.37f * static_cast<float>(i % 9973) - 1234.5f); }

u16 half(Dtype dtype, u64 i) {
  return dtype == Dtype::bf16 ? static_cast<u16>(word(i) >> 16)
                              : fp16_from_float(std::bit_cast<float>(word(i)));
}

// RETURNS: the file's content as fp32.
u32 stored(Dtype dtype, u64 i) {
  if (dtype == Dtype::f32) return word(i);
  if (dtype == Dtype::bf16) return u32{half(dtype, i)} << 16;
  return std::bit_cast<u32>(float_from_fp16(half(dtype, i)));
}

struct Case {
  Dtype dtype;
  Precision precision;
  u64 blanks;  // after the header: they set the start of the buffer
};

class Weights : public ::testing::TestWithParam<Case> {
 protected:
  // Two tensors of more than one part each, a tiny one between them.
  static constexpr u64 elements[] = {1'500'001, 3, 700'000};

  void SetUp() override {
    const Dtype dtype = GetParam().dtype;
    std::vector<StoredTensor> tensors;
    for (u32 t = 0; t < 3; ++t)
      tensors.push_back({.name = fmt::format("t{}", t), .dtype = dtype, .shape = {elements[t]}});
    assign_offsets(tensors);
    std::string text = safetensors_header(tensors);
    text.insert(text.size(), GetParam().blanks, ' ');
    const u64 header = text.size() - 8;
    std::memcpy(text.data(), &header, 8);
    std::string buffer(tensors.back().end, '\0');
    for (u64 i = 0, total = tensors.back().end / dtype_bytes(dtype); i < total; ++i) {
      if (dtype == Dtype::f32) {
        const u32 w = word(i);
        std::memcpy(buffer.data() + 4 * i, &w, 4);
      } else {
        const u16 h = half(dtype, i);
        std::memcpy(buffer.data() + 2 * i, &h, 2);
      }
    }
    write_text(directory_.path() + "/model.safetensors", text + buffer);
    model_ = SafetensorsModel::open(directory_.path(), ErrorKind::bad_input).value();
  }

  std::vector<WeightSource> sources() const {
    std::vector<WeightSource> out;
    for (u32 t : {2u, 0u, 1u})  // not the file's order
      out.push_back({.at = model_->find(fmt::format("t{}", t)),
                     .elements = elements[t],
                     .window = t,
                     .window_offset = 64 * t});
    return out;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<SafetensorsModel> model_;
};

void expect_piece(const WeightPiece& piece, const Case& c, u64 first) {
  const u64 n = piece.param.size() / value_bytes(c.precision);
  u64 wrong = 0;
  for (u64 i = 0; i < n; ++i) {
    const u32 bits = stored(c.dtype, first + i);
    u32 wanted = bits, master = 0, found = 0, found_master = 0;
    if (c.precision == Precision::bf16) wanted = ((bits + 0x8000u) >> 16) & 0xffff, master = bits & 0xffff;
    if (c.precision == Precision::fp16) wanted = fp16_from_float(std::bit_cast<float>(bits)), master = bits;
    const u64 size = value_bytes(c.precision);
    std::memcpy(&found, piece.param.data() + size * i, size);
    const u64 master_size = c.precision == Precision::fp32 ? 0 : c.precision == Precision::bf16 ? 2 : 4;
    if (!piece.master.empty()) std::memcpy(&found_master, piece.master.data() + master_size * i, master_size);
    wrong += found != wanted || found_master != master;
  }
  ASSERT_EQ(wrong, 0) << "of " << n << " from " << first;
}

TEST_P(Weights, ArriveInOrderAndInTheStatesOwnFormat) {
  const auto reader = WeightReader::create(sources(), GetParam().precision).value();
  const u64 begin_of[] = {0, elements[0], elements[0] + elements[1]};  // in the file
  for (u32 t : {2u, 0u, 1u}) {
    for (u64 done = 0; done < elements[t];) {
      const Result<const WeightPiece*> piece = reader->next();
      ASSERT_TRUE(piece && *piece != nullptr);
      ASSERT_EQ((*piece)->window, t);
      ASSERT_EQ((*piece)->begin, 64 * t + done);
      ASSERT_NO_FATAL_FAILURE(expect_piece(**piece, GetParam(), begin_of[t] + done));
      done += (*piece)->param.size() / value_bytes(GetParam().precision);
    }
  }
  EXPECT_EQ(reader->next().value(), nullptr);
  EXPECT_EQ(reader->next().value(), nullptr);
}

// Slices that begin and end within the parts that are hashed, one of them with whole parts inside.
TEST_P(Weights, SlicesOfATensorArriveApartAndMakeUpItsHash) {
  const SafetensorsModel::Location at = model_->find("t0");
  const u64 ends[] = {3, 100'000, 1'200'007, elements[0]};
  std::vector<WeightSource> slices;
  for (u64 begin = 0; const u64 end : ends) {
    const u32 number = static_cast<u32>(slices.size());
    slices.push_back(
        {.at = at, .begin = begin, .elements = end - begin, .window = number, .window_offset = 64 * number});
    begin = end;
  }
  const auto reader = WeightReader::create(slices, GetParam().precision).value();
  TensorHash hash;
  u32 hashed = 0;
  for (const WeightSource& slice : slices)
    for (u64 done = 0; done < slice.elements;) {
      const Result<const WeightPiece*> piece = reader->next();
      ASSERT_TRUE(piece && *piece != nullptr);
      ASSERT_EQ((*piece)->window, slice.window);
      ASSERT_EQ((*piece)->begin, slice.window_offset + done);
      ASSERT_NO_FATAL_FAILURE(expect_piece(**piece, GetParam(), slice.begin + done));
      hashed += (*piece)->unhashed.empty();
      (*piece)->unhashed.empty() ? hash.add_part((*piece)->xxh3) : hash.update((*piece)->unhashed);
      done += (*piece)->param.size() / value_bytes(GetParam().precision);
    }
  EXPECT_EQ(reader->next().value(), nullptr);
  EXPECT_GT(hashed, 0u);
  EXPECT_EQ(hash.digest(), hash_of_tensor(*at.file, *at.tensor).value());
}

TEST_P(Weights, MayBeLeftAtAnyTime) {
  for (u32 taken : {0u, 1u, 4u}) {
    const auto reader = WeightReader::create(sources(), GetParam().precision).value();
    for (u32 i = 0; i < taken; ++i) ASSERT_TRUE(reader->next());
  }
}

TEST_P(Weights, AFileThatShrinksIsAnError) {
  std::filesystem::resize_file(directory_.path() + "/model.safetensors", 2 * mib);
  const auto reader = WeightReader::create(sources(), GetParam().precision).value();
  Result<const WeightPiece*> piece = static_cast<const WeightPiece*>(nullptr);
  for (u32 i = 0; i < 20 && piece; ++i) piece = reader->next();
  ASSERT_FALSE(piece);
  EXPECT_NE(piece.error().message.find("model.safetensors"), std::string::npos) << piece.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    All, Weights,
    ::testing::Values(Case{Dtype::f32, Precision::fp32, 0}, Case{Dtype::f32, Precision::bf16, 8},
                      Case{Dtype::f32, Precision::fp16, 2}, Case{Dtype::bf16, Precision::fp32, 0},
                      Case{Dtype::bf16, Precision::bf16, 2}, Case{Dtype::bf16, Precision::fp16, 1},
                      Case{Dtype::f16, Precision::fp32, 1}, Case{Dtype::f16, Precision::bf16, 0},
                      Case{Dtype::f16, Precision::fp16, 6}));

}  // namespace tidepool::weights_test
