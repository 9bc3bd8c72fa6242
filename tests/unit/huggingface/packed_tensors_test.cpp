// Packed matrices are read as the reference implementations wrote them, and malformed files are refused with
// the name of file and tensor.
#include "huggingface/weights/packed_tensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/weights/quant_state.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/packed_matrix.h"
#include "tests/support/places.h"

namespace tidepool::packed_tensors_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Tensors of a golden file, to be changed and written again.
class Tensors {
 public:
  explicit Tensors(std::string_view format) {
    const auto file = SafetensorsFile::open(test::golden_packed_file(format), ErrorKind::bad_input).value();
    for (const StoredTensor& t : file->tensors()) {
      std::string bytes(t.bytes(), '\0');
      EXPECT_TRUE(file->read(t, 0, std::as_writable_bytes(std::span(bytes))));
      set(t.name, t.dtype, t.shape, bytes);
    }
  }

  void set(const std::string& name, Dtype dtype, std::vector<u64> shape, std::string bytes) {
    tensors_[name] = {{.name = name, .dtype = dtype, .shape = std::move(shape)}, std::move(bytes)};
  }
  void remove(const std::string& name) { EXPECT_EQ(tensors_.erase(name), 1u); }
  void set_shape(const std::string& name, std::vector<u64> shape) {
    u64 elements = 1;
    for (const u64 n : shape) elements *= n;
    tensors_.at(name).first.shape = std::move(shape);
    tensors_.at(name).second.resize(elements * dtype_bytes(tensors_.at(name).first.dtype));
  }
  void set_dtype(const std::string& name, Dtype dtype) {
    tensors_.at(name).second.resize(tensors_.at(name).second.size() /
                                    dtype_bytes(tensors_.at(name).first.dtype) * dtype_bytes(dtype));
    tensors_.at(name).first.dtype = dtype;
  }
  std::string& bytes(const std::string& name) { return tensors_.at(name).second; }
  void replace_in(const std::string& name, const std::string& old, const std::string& with) {
    std::string& text = bytes(name);
    const auto at = text.find(old);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, old.size(), with);
    tensors_.at(name).first.shape = {text.size()};
  }

  void write(const std::string& path) const {
    std::vector<StoredTensor> stored;
    std::string data;
    for (const auto& [name, tensor] : tensors_) {
      stored.push_back(tensor.first);
      data += tensor.second;
    }
    assign_offsets(stored);
    test::write_text(path, safetensors_header(stored) + data);
  }

 private:
  std::map<std::string, std::pair<StoredTensor, std::string>> tensors_;
};

WantedMatrix wanted_of(const test::GoldenMatrix& golden) {
  const PackedMatrix& m = golden.matrix;
  const bool experts = m.packing == Packing::mxfp4;
  return {.name = golden.name,
          .experts = experts ? static_cast<u32>(golden.runs.size()) : 0,
          .rows = m.rows,
          .columns = m.columns,
          .packing = m.packing,
          .block_rows = m.block_rows,
          .block_columns = m.block_columns};
}

std::string format_of(Packing packing) {
  if (packing == Packing::fp8_block) return "fp8";
  if (packing == Packing::mxfp4) return "mxfp4";
  return is_nf4(packing) ? "nf4" : "int8";
}

std::unique_ptr<SafetensorsModel> open_golden(Packing packing) {
  return SafetensorsModel::open(source_file("tests/golden/packed"), ErrorKind::bad_input,
                                format_of(packing) + ".safetensors")
      .value();
}

TEST(PackedTensors, AreReadAsTheReferenceImplementationsWroteThem) {
  for (const test::GoldenMatrix& golden : test::golden_matrices()) {
    SCOPED_TRACE(golden.name);
    const auto model = open_golden(golden.matrix.packing);
    const auto source = find_packed(*model, wanted_of(golden));
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->matrix, golden.matrix);
    for (u32 e = 0; e < golden.runs.size(); ++e) {
      std::vector<std::byte> run(packed_bytes(source->matrix), std::byte{0xee});
      ASSERT_TRUE(read_packed(*source, e, 0, run));
      EXPECT_EQ(run, golden.runs[e]);
      // In pieces, as cuts of a window.
      std::vector<std::byte> pieces(run.size(), std::byte{0xee});
      for (u64 at = 0; at < pieces.size(); at += 192)
        ASSERT_TRUE(read_packed(*source, e, at,
                                std::span(pieces).subspan(at, std::min<u64>(192, pieces.size() - at))));
      EXPECT_EQ(pieces, run);
    }
  }
}

// The golden files have no experts in FP8, which are in one tensor in some models.
TEST(PackedTensors, ExpertsInOneTensorAreRunsOfTheirOwn) {
  Tensors tensors("fp8");
  std::string codes(2 * 3 * 20, '\0'), scales(2 * 2 * 2, '\0');
  for (u32 i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i);
  for (u32 i = 0; i < 4; ++i)
    scales.replace(2 * i, 2, std::string{static_cast<char>(0x80 * (i % 2)), '\x3f'});
  tensors.set("experts.up", Dtype::f8_e4m3, {2, 3, 20}, codes);
  tensors.set("experts.up_scale_inv", Dtype::bf16, {2, 1, 2}, scales);
  const test::TemporaryDirectory dir;
  tensors.write(dir.path() + "/model.safetensors");
  const auto model = SafetensorsModel::open(dir.path(), ErrorKind::bad_input).value();
  const auto source = find_packed(*model, {.name = "experts.up",
                                           .experts = 2,
                                           .rows = 3,
                                           .columns = 20,
                                           .packing = Packing::fp8_block,
                                           .block_rows = 16,
                                           .block_columns = 16});
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(packed_bytes(source->matrix), 128u);
  for (u32 e = 0; e < 2; ++e) {
    std::vector<std::byte> run(128, std::byte{0xee});
    ASSERT_TRUE(read_packed(*source, e, 0, run));
    float read[2];
    std::memcpy(read, run.data() + 64, sizeof read);
    EXPECT_EQ(std::memcmp(run.data(), codes.data() + 60 * e, 60), 0);
    EXPECT_EQ(read[0], 0.5f);
    EXPECT_EQ(read[1], 1.0f);
    for (const u32 padding : {60, 63, 72, 127}) EXPECT_EQ(run[padding], std::byte{0}) << padding;
  }
}

TEST(PackedTensors, AMatrixOfFloatsIsNotPacked) {
  const auto model = open_golden(Packing::fp8_block);
  for (const Packing packing :
       {Packing::none, Packing::fp8_block, Packing::mxfp4, Packing::nf4, Packing::int8_row}) {
    const auto source = find_packed(*model, {.name = "expected/wide.weight",
                                             .rows = 3,
                                             .columns = 300,
                                             .packing = packing,
                                             .block_rows = 128,
                                             .block_columns = 128});
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->matrix.packing, Packing::none);
    EXPECT_EQ(source->codes.tensor->name, "expected/wide.weight");
  }
}

// Reads one matrix of the changed tensors, and returns the refusal.
std::string refusal(const Tensors& tensors, const WantedMatrix& wanted) {
  const test::TemporaryDirectory dir;
  tensors.write(dir.path() + "/model.safetensors");
  const auto model = SafetensorsModel::open(dir.path(), ErrorKind::bad_input);
  if (!model) return "no model: " + model.error().message;
  const auto source = find_packed(**model, wanted);
  Result<void> done;
  if (source && source->matrix.packing != Packing::none) {
    std::vector<std::byte> run(packed_bytes(source->matrix));
    done = read_packed(*source, 0, 0, run);
    if (done) return "accepted";
  } else if (source) {
    return "accepted as floats";
  }
  const Error error = source ? done.error() : source.error();
  EXPECT_EQ(error.kind, ErrorKind::bad_input);
  EXPECT_THAT(error.message, HasSubstr(dir.path() + "/model.safetensors: "));
  return error.message;
}

WantedMatrix golden_wanted(const std::string& name) {
  for (const test::GoldenMatrix& golden : test::golden_matrices())
    if (golden.name == name) return wanted_of(golden);
  ADD_FAILURE() << name;
  return {};
}

template <class Change>
std::string refusal_of(const std::string& name, Change change) {
  const WantedMatrix wanted = golden_wanted(name);
  Tensors tensors(format_of(wanted.packing));
  change(tensors);
  return refusal(tensors, wanted);
}

std::string bytes_of(float x) { return std::string(reinterpret_cast<const char*>(&x), sizeof x); }

TEST(PackedTensors, RefuseFp8ThatIsMalformed) {
  const auto refused = [](auto change) { return refusal_of("published.weight", change); };
  const std::string scales = "published.weight_scale_inv";
  EXPECT_EQ(refused([](Tensors&) {}), "accepted");
  EXPECT_THAT(refused([&](Tensors& t) { t.remove(scales); }),
              AllOf(HasSubstr("has no tensor " + scales), HasSubstr("the scales of published.weight")));
  EXPECT_THAT(refused([&](Tensors& t) {
                t.set_shape(scales, {2, 1});
              }),
              HasSubstr("tensor " + scales +
                        " is [2, 1], but published.weight with blocks of 128 x 128 needs [2, 2]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_shape(scales, {}); }), HasSubstr("is [], but"));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_dtype(scales, Dtype::f64); }),
              HasSubstr("tensor " + scales + " is F64"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_dtype("published.weight", Dtype::f8_e5m2); }),
              AllOf(HasSubstr("tensor published.weight is F8_E5M2"), HasSubstr("must be F8_E4M3")));
  EXPECT_THAT(refused([](Tensors& t) {
                t.set_shape("published.weight", {136, 130});
              }),
              HasSubstr("tensor published.weight is [136, 130], but the model's config needs [130, 136]"));
  EXPECT_THAT(refused([](Tensors& t) { t.remove("published.weight"); }),
              HasSubstr("has no tensor published.weight"));
  EXPECT_THAT(refused([](Tensors& t) { t.bytes("published.weight")[700] = '\x7f'; }),
              HasSubstr("tensor published.weight holds a NaN"));
  EXPECT_THAT(refused([](Tensors& t) { t.bytes("published.weight")[17000] = '\xff'; }), HasSubstr("a NaN"));
  for (const float bad : {NAN, INFINITY, -INFINITY, 1e36f})
    EXPECT_THAT(refused([&](Tensors& t) { t.bytes(scales).replace(4, 4, bytes_of(bad)); }),
                HasSubstr("tensor " + scales + " holds the scale"));
  EXPECT_THAT(
      refusal_of("small_blocks.weight",
                 [](Tensors& t) { t.bytes("small_blocks.weight_scale_inv").replace(6, 2, "\xc0\x7f"); }),
      HasSubstr("holds the scale nan"));
}

TEST(PackedTensors, RefuseMxfp4ThatIsMalformed) {
  const auto refused = [](auto change) { return refusal_of("gate_up", change); };
  EXPECT_EQ(refused([](Tensors&) {}), "accepted");
  EXPECT_THAT(refused([](Tensors& t) { t.remove("gate_up_scales"); }),
              HasSubstr("has no tensor gate_up_scales"));
  EXPECT_THAT(refused([](Tensors& t) { t.remove("gate_up_blocks"); }),
              HasSubstr("has no tensor gate_up_blocks"));
  EXPECT_THAT(refused([](Tensors& t) {
                t.set_shape("gate_up_scales", {3, 6, 3});
              }),
              HasSubstr("gate_up_scales is [3, 6, 3], but gate_up needs [3, 6, 2]"));
  EXPECT_THAT(refused([](Tensors& t) {
                t.set_shape("gate_up_blocks", {3, 6, 4, 8});
              }),
              HasSubstr("gate_up_blocks is [3, 6, 4, 8], but gate_up needs [3, 6, 2, 16]"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_dtype("gate_up_scales", Dtype::i8); }),
              HasSubstr("gate_up_scales is I8"));
  EXPECT_THAT(refused([](Tensors& t) { t.bytes("gate_up_scales")[5] = '\xfd'; }),
              HasSubstr("gate_up_scales holds the scale 253"));
  WantedMatrix odd = golden_wanted("gate_up");
  odd.columns = 65;
  EXPECT_THAT(refusal(Tensors("mxfp4"), odd), HasSubstr("rows of 65 numbers"));
}

TEST(PackedTensors, RefuseNf4ThatIsMalformed) {
  const auto refused = [](auto change) { return refusal_of("single.weight", change); };
  const std::string state = "single.weight.quant_state.bitsandbytes__nf4", absmax = "single.weight.absmax";
  EXPECT_EQ(refused([](Tensors&) {}), "accepted");
  for (const std::string& side : {state, absmax, std::string("single.weight.quant_map")})
    EXPECT_THAT(refused([&](Tensors& t) { t.remove(side); }), HasSubstr("has no tensor " + side));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_shape(absmax, {52}); }),
              HasSubstr(absmax + " is [52], but single.weight with blocks of 64 needs [53]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_dtype(absmax, Dtype::u8); }), HasSubstr(absmax + " is U8"));
  EXPECT_THAT(refused([&](Tensors& t) { t.bytes(absmax).replace(0, 4, bytes_of(NAN)); }),
              HasSubstr(absmax + " holds the scale nan"));
  EXPECT_THAT(refused([](Tensors& t) { t.bytes("single.weight.quant_map").replace(4, 4, bytes_of(-0.7f)); }),
              HasSubstr("quant_map does not hold the 16 values of NF4"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_shape("single.weight.quant_map", {256}); }),
              HasSubstr("quant_map is [256]"));
  EXPECT_THAT(refused([](Tensors& t) {
                t.set_shape("single.weight", {1679, 1});
              }),
              HasSubstr("single.weight is [1679, 1], but the model's config of [48, 70] needs [1680, 1]"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_dtype("single.weight", Dtype::i8); }), HasSubstr("must be U8"));
  // A lie that keeps the product, and one that does not.
  EXPECT_THAT(refused([&](Tensors& t) { t.replace_in(state, "[48, 70]", "[70, 48]"); }),
              HasSubstr(state + ": shape is [70, 48], but the model's config needs [48, 70]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.replace_in(state, "[48, 70]", "[48, 71]"); }),
              HasSubstr("[48, 71]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.replace_in(state, ": 64", ": 128"); }),
              HasSubstr("with blocks of 128 needs [27]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.replace_in(state, "{", "["); }), HasSubstr(state));
  EXPECT_THAT(
      refused([](Tensors& t) { t.set("single.weight.quant_state.bitsandbytes__fp4", Dtype::u8, {2}, "{}"); }),
      HasSubstr("only nf4 is supported"));
  WantedMatrix experts = golden_wanted("single.weight");
  experts.experts = 2;
  EXPECT_THAT(refusal(Tensors("nf4"), experts), HasSubstr("bitsandbytes does not pack"));
}

TEST(PackedTensors, RefuseDoubleQuantisedNf4ThatIsMalformed) {
  const auto refused = [](auto change) { return refusal_of("double.weight", change); };
  const std::string name = "double.weight";
  EXPECT_EQ(refused([](Tensors&) {}), "accepted");
  for (const std::string side : {".nested_absmax", ".nested_quant_map", ".absmax"})
    EXPECT_THAT(refused([&](Tensors& t) { t.remove(name + side); }),
                HasSubstr("has no tensor " + name + side));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_shape(name + ".nested_absmax", {1}); }),
              HasSubstr("nested_absmax is [1], but double.weight with blocks of 256 needs [2]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_shape(name + ".nested_quant_map", {255}); }),
              HasSubstr("needs [256]"));
  EXPECT_THAT(refused([&](Tensors& t) { t.set_dtype(name + ".absmax", Dtype::f32); }),
              HasSubstr(name + ".absmax is F32"));
  EXPECT_THAT(
      refused([&](Tensors& t) { t.bytes(name + ".nested_absmax").replace(4, 4, bytes_of(INFINITY)); }),
      HasSubstr("nested_absmax holds the scale inf"));
  EXPECT_THAT(refused([&](Tensors& t) { t.bytes(name + ".nested_quant_map").replace(0, 4, bytes_of(NAN)); }),
              HasSubstr("nested_quant_map holds the scale nan"));
}

TEST(PackedTensors, RefuseInt8ThatIsMalformed) {
  const auto refused = [](auto change) { return refusal_of("rows.weight", change); };
  EXPECT_EQ(refused([](Tensors&) {}), "accepted");
  EXPECT_EQ(refused([](Tensors& t) { t.remove("rows.weight_format"); }), "accepted");
  EXPECT_THAT(refused([](Tensors& t) { t.remove("rows.SCB"); }),
              HasSubstr("has no tensor rows.SCB, the scales of rows.weight"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_shape("rows.SCB", {1}); }),
              HasSubstr("rows.SCB is [1], but rows.weight needs [9]"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_dtype("rows.SCB", Dtype::bf16); }),
              HasSubstr("rows.SCB is BF16"));
  EXPECT_THAT(refused([](Tensors& t) { t.set_dtype("rows.weight", Dtype::u8); }), HasSubstr("must be I8"));
  EXPECT_THAT(refused([](Tensors& t) { t.bytes("rows.weight_format")[0] = 1; }), HasSubstr("not in rows"));
  EXPECT_THAT(refused([](Tensors& t) { t.bytes("rows.SCB").replace(32, 4, bytes_of(NAN)); }),
              HasSubstr("rows.SCB holds the scale nan"));
}

TEST(PackedTensors, RefuseAPackedTensorThatTheConfigDoesNotName) {
  WantedMatrix wanted = golden_wanted("published.weight");
  wanted.packing = Packing::none;
  EXPECT_THAT(refusal(Tensors("fp8"), wanted),
              HasSubstr("is F8_E4M3, but the model's config says that weights are not packed"));
}

std::string state_fault(const std::string& text) {
  const auto state = parse_quant_state(text, "x.safetensors: tensor t");
  if (state) return "accepted";
  EXPECT_EQ(state.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(state.error().message, HasSubstr("x.safetensors: tensor t: "));
  return state.error().message;
}

TEST(QuantState, RefusesWhatItDoesNotKnow) {
  const std::string good = R"("quant_type": "nf4", "dtype": "float16", "shape": [2, 3])";
  const auto with = [&](const std::string& more) { return state_fault("{" + good + ", " + more + "}"); };
  EXPECT_EQ(with(R"("blocksize": 64)"), "accepted");
  EXPECT_EQ(
      with(R"("blocksize": 4096, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 1)"),
      "accepted");
  for (const char* bad : {R"("blocksize": 48)", R"("blocksize": 16)", R"("blocksize": 8192)",
                          R"("blocksize": "64")", R"("blocksize": 64.0)", R"("blocksize": -64)", R"("x": 1)"})
    EXPECT_THAT(with(bad), HasSubstr("blocksize: must be a power of two from 32 to 4096")) << bad;
  const std::string nested = R"("blocksize": 64, "nested_blocksize": 256, "nested_dtype": "float32")";
  EXPECT_THAT(with(nested), HasSubstr("nested_offset: must be a finite number"));
  EXPECT_THAT(with(nested + R"(, "nested_offset": 1e300)"), HasSubstr("nested_offset"));
  EXPECT_THAT(with(R"("blocksize": 64, "nested_offset": 0.5)"), HasSubstr("nested_dtype: is missing"));
  EXPECT_THAT(state_fault("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(state_fault(R"({"quant_type": "fp4"})"), HasSubstr("quant_type: \"fp4\" is not supported"));
  EXPECT_THAT(state_fault(R"({"quant_type": "nf4", "dtype": "int8"})"), HasSubstr("dtype"));
  EXPECT_THAT(state_fault(R"({"quant_type": "nf4", "dtype": "bfloat16", "blocksize": 64, "shape": 4})"),
              HasSubstr("shape: must be a list"));
  EXPECT_THAT(state_fault(R"({"quant_type": "nf4", "dtype": "bfloat16", "blocksize": 64, "shape": [-4, 2]})"),
              HasSubstr("shape: must be a list"));
}

}  // namespace tidepool::packed_tensors_test
