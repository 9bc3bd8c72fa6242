// Tests FP8 codes against a search over all codes, and exports in FP8 against the weights they were made of.
#include "checkpoint/export_fp8.h"

#include <gmock/gmock.h>

#include <random>

#include "base/files/files.h"
#include "checkpoint/export_model.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/packed_matrix.h"

namespace tidepool::test::export_fp8_test {

// The nearest code; of two, the one whose last bit is 0.
u8 nearest_code(float x) {
  u32 best = 0;
  for (u32 code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f || (code >= 128) != std::signbit(x)) continue;
    if (best == 0 && code != 0 && std::signbit(x) && code == 128) best = code;
    const double here = std::abs(plain_e4m3(code) - x), there = std::abs(plain_e4m3(best) - x);
    if ((best >= 128) != std::signbit(x) || here < there || (here == there && code % 2 == 0)) best = code;
  }
  return static_cast<u8>(best);
}

TEST(Fp8Code, IsTheNearest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-11, 9.5), sign(-1, 1);
  for (u32 i = 0; i < 20'000; ++i) {
    const float x = std::copysign(std::exp2(exponent(random)), sign(random));
    ASSERT_EQ(e4m3_from_float(x), nearest_code(x)) << x;
  }
  for (u32 code = 0; code < 126; ++code)  // codes, and the middles between them
    for (const double x : {plain_e4m3(code), (plain_e4m3(code) + plain_e4m3(code + 1)) / 2}) {
      ASSERT_EQ(e4m3_from_float(static_cast<float>(x)), nearest_code(static_cast<float>(x))) << x;
      ASSERT_EQ(e4m3_from_float(static_cast<float>(-x)), nearest_code(static_cast<float>(-x))) << -x;
    }
  EXPECT_EQ(e4m3_from_float(1e9f), 0x7e);
}

TEST(Fp8Code, OfAMatrixOfZerosIsZero) {
  Fp8Matrix matrix(1, 3);
  const std::vector<float> zeros(3);
  for (const u8 code : matrix.put(zeros)) EXPECT_EQ(code, 0);
  EXPECT_THAT(matrix.scales(), testing::ElementsAre(1.0f));
}

class ExportFp8 : public ::testing::TestWithParam<Family> {
 protected:
  ScratchDir dir_;
};

ModelConfig odd_model(Family family) {
  ModelConfig m = default_model(family);
  m.vocab_size = 40, m.positions = 32, m.width = 160, m.layers = 2, m.attention.heads = 4,
  m.attention.kv_heads_given = 2;
  m.mlp.inner_given = 296;
  if (family == Family::qwen3_next) {
    m.experts.shared_width = 136;
    m.delta = {
        .key_heads = 2, .value_heads = 4, .key_head_dim = 16, .value_head_dim = 24, .attention_interval = 2};
  }
  if (m.experts.count != 0) m.experts.count = 3, m.experts.chosen = 2, m.experts.inner_given = 136;
  return m;
}

TEST_P(ExportFp8, WritesCodesAndScalesOfTheLayersMatrices) {
  const std::string source = dir_ / "source", out = dir_ / "out", back = dir_ / "back";
  write_model_directory(source, odd_model(GetParam()), Precision::bf16);
  const auto files = create_posix_files();
  const auto go_on = [](u64) { return true; };
  ASSERT_TRUE(ModelExport::open(source, {.fp8 = true}).value()->write(out, *files, go_on));
  ASSERT_TRUE(ModelExport::open(out, {.dtype = Precision::fp32}).value()->write(back, *files, go_on));

  const ModelConfig read = read_model_directory(out).value();
  EXPECT_EQ(read.quantization.packing, Packing::fp8_block);
  EXPECT_EQ(read.quantization.block_rows, 128u);
  const auto before = SafetensorsModel::open(source, ErrorKind::bad_input).value(),
             packed = SafetensorsModel::open(out, ErrorKind::bad_input).value(),
             after = SafetensorsModel::open(back, ErrorKind::bad_input).value();
  u32 quantized = 0;
  for (const StoredTensor& t : before->files()[0]->tensors()) {
    SCOPED_TRACE(t.name);
    const auto values = [&](const SafetensorsModel& model) {
      const auto at = model.find(t.name);
      std::vector<std::byte> bytes(at.tensor->bytes());
      EXPECT_TRUE(at.file->read(*at.tensor, 0, bytes));
      std::vector<float> out(bytes.size() / dtype_bytes(at.tensor->dtype));
      to_floats(at.tensor->dtype, bytes, out);
      return out;
    };
    const bool codes = packed->find(t.name).tensor->dtype == Dtype::f8_e4m3;
    const bool is_matrix_of_layer = t.shape.size() == 2 && t.name.starts_with("model.layers");
    const bool is_small = t.name.ends_with("mlp.gate.weight") || t.name.ends_with("in_proj_ba.weight") ||
                          t.name.ends_with("shared_expert_gate.weight");
    EXPECT_EQ(codes, is_matrix_of_layer && !is_small);
    const std::vector<float> want = values(*before), found = values(*after);
    ASSERT_EQ(want.size(), found.size());
    float largest = 0;
    for (const float x : want) largest = std::max(largest, std::abs(x));
    // Half a place of 3 bits and bf16's; below 2^-6 of a scale, half of 2^-9.
    for (u64 i = 0; i < want.size(); ++i)
      ASSERT_NEAR(found[i], want[i], codes ? std::abs(want[i]) * 0x1.1p-4 + largest / 448 * 0x1p-10 : 0) << i;
    quantized += codes;
  }
  EXPECT_GE(quantized, 14u);
}

TEST(ExportFp8, KeepsSmallMatricesOfHybrids) {
  const std::vector<u64> shape = {32, 64};
  for (const auto& [family, small] : {std::pair{Family::qwen3_5_text, "linear_attn.in_proj_a"},
                                      {Family::qwen3_5_text, "linear_attn.in_proj_b"},
                                      {Family::qwen3_next, "linear_attn.in_proj_ba"},
                                      {Family::qwen3_next, "mlp.shared_expert_gate"},
                                      {Family::qwen3_5_moe_text, "mlp.shared_expert_gate"}}) {
    const ModelConfig c = default_model(family);
    const auto packs = [&](const std::string& module) {
      return is_fp8_matrix(c, "model.layers.1." + module + ".weight", shape);
    };
    EXPECT_FALSE(packs(small)) << small;
    EXPECT_TRUE(packs("linear_attn.out_proj"));
    EXPECT_TRUE(packs("mlp.shared_expert.gate_proj"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ExportFp8,
                         ::testing::Values(Family::llama, Family::qwen3_moe, Family::qwen3_next),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(ExportFp8, NumbersThatAreNotFiniteAreRefused) {
  const ScratchDir dir;
  const std::string source = dir / "source";
  write_model_directory(source, odd_model(Family::llama), Precision::bf16);
  std::string file = test::file_text(source + "/model.safetensors");
  file[file.size() - 2 * 40 * 160 - 300 * 160] = '\xff',
                                          file[file.size() - 2 * 40 * 160 - 300 * 160 + 1] = '\x7f';
  write_file(source + "/model.safetensors", file);
  const auto files = create_posix_files();
  const auto model = ModelExport::open(source, {.fp8 = true});
  ASSERT_TRUE(model) << model.error().message;
  const Result<void> written = (*model)->write(dir / "out", *files, [](u64) { return true; });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(written.error().message, testing::HasSubstr("NaN or infinite at element"));
}

TEST(ExportFp8, ExpertsInOneTensorAreRefused) {
  const ScratchDir dir;
  ModelConfig model = odd_model(Family::qwen3_moe);
  model.experts.joined_files = true;
  write_model_directory(dir / "source", model, Precision::bf16);
  const auto open = ModelExport::open(dir / "source", {.fp8 = true});
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().kind, ErrorKind::usage);
  EXPECT_THAT(open.error().message, testing::HasSubstr("all experts of a layer"));
}

TEST(ExportFp8, OfGpt2IsRefused) {
  const ScratchDir dir;
  ModelConfig small = default_model(Family::gpt2);
  small.vocab_size = 40, small.positions = 32, small.width = 64, small.layers = 1, small.attention.heads = 2;
  write_model_directory(dir / "source", small, Precision::bf16);
  const auto model = ModelExport::open(dir / "source", {.fp8 = true});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::usage);
  EXPECT_THAT(model.error().message, testing::HasSubstr("--dtype fp8"));
}

}  // namespace tidepool::test::export_fp8_test
