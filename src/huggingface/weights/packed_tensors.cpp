// Finds the tensors of packed matrices, and checks their types and shapes.
#include "huggingface/weights/packed_tensors.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/check.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/quant_state.h"

namespace tidepool {
namespace {

using Location = SafetensorsModel::Location;
using Shape = std::vector<u64>;

constexpr std::string_view to_copy =
    "copy all files of the model again, or name the model before quantization";

class PackedFinder {
 public:
  PackedFinder(const SafetensorsModel& model, const WantedMatrix& wanted) : model_(model), wanted_(wanted) {}

  Result<PackedSource> find() const {
    PackedSource out;
    out.matrix = {.packing = wanted_.packing, .rows = wanted_.rows, .columns = wanted_.columns};
    out.codes = model_.find(wanted_.name);
    if (out.codes && is_float_weight(out.codes.tensor->dtype)) {
      out.matrix.packing = Packing::none;
      TRY(check_shape(out.codes, shape_of({wanted_.rows, wanted_.columns}), ""));
      return out;
    }
    switch (wanted_.packing) {
      case Packing::none:
        return refuse();
      case Packing::fp8_block:
        TRY(find_fp8(out));
        break;
      case Packing::mxfp4:
        TRY(find_mxfp4(out));
        break;
      case Packing::nf4:
      case Packing::nf4_double:
        TRY(find_nf4(out));
        break;
      case Packing::int8_row:
        TRY(find_int8(out));
        break;
    }
    return out;
  }

 private:
  // The error for a matrix that is missing, or of no type of floats, in a model that is not packed.
  Error refuse() const {
    const Result<Location> at = located(wanted_.name, "which the model's config needs");
    return at ? wrong_type(*at, "so it must be F32, BF16 or F16") : at.error();
  }

  Result<void> find_fp8(PackedSource& out) const {
    PackedMatrix& m = out.matrix;
    m.block_rows = wanted_.block_rows, m.block_columns = wanted_.block_columns;
    CHECK(m.block_rows > 0 && m.block_columns > 0, wanted_.name, m.block_rows, m.block_columns);
    TRY_ASSIGN(out.codes, typed(wanted_.name, "a matrix", {Dtype::f8_e4m3}));
    TRY(check_shape(out.codes, shape_of({m.rows, m.columns}), ""));
    TRY_ASSIGN(out.scales,
               typed(wanted_.name + "_scale_inv", "the scales", {Dtype::f32, Dtype::bf16, Dtype::f16}));
    return check_shape(out.scales,
                       shape_of({div_up(m.rows, m.block_rows), div_up(m.columns, m.block_columns)}),
                       fmt::format(" with blocks of {} x {}", m.block_rows, m.block_columns));
  }

  Result<void> find_mxfp4(PackedSource& out) const {
    const PackedMatrix& m = out.matrix;
    if (m.columns % mxfp4_block != 0)
      return bad_input(
          fmt::format("{}: {} has rows of {} numbers, which are no whole blocks of {}, so it cannot be "
                      "MXFP4: {}",
                      place(), wanted_.name, m.columns, mxfp4_block, to_copy));
    const u64 groups = m.columns / mxfp4_block;
    TRY_ASSIGN(out.codes, typed(wanted_.name + "_blocks", "the codes", {Dtype::u8}));
    TRY(check_shape(out.codes, shape_of({m.rows, groups, mxfp4_block / 2}), ""));
    TRY_ASSIGN(out.scales, typed(wanted_.name + "_scales", "the scales", {Dtype::u8}));
    return check_shape(out.scales, shape_of({m.rows, groups}), "");
  }

  Result<void> find_nf4(PackedSource& out) const {
    PackedMatrix& m = out.matrix;
    TRY(refuse_experts());
    TRY_ASSIGN(out.codes, typed(wanted_.name, "a matrix", {Dtype::u8}));
    TRY_ASSIGN(const QuantState state, quant_state());
    m.packing = state.nested ? Packing::nf4_double : Packing::nf4;
    m.block = state.block, m.nested_block = state.nested_block;
    out.nested_offset = state.nested_offset;
    if (state.shape != Shape{m.rows, m.columns})
      return bad_input(fmt::format("{}: tensor {}{}: shape is {}, but the model's config needs {}: {}",
                                   out.codes.file->path(), wanted_.name, state_suffix,
                                   shape_text(state.shape), shape_text(Shape{m.rows, m.columns}), to_copy));
    TRY(check_shape(out.codes, {part_bytes(m, PackedPart::codes), 1},
                    fmt::format(" of {}", shape_text(state.shape))));
    TRY(check_code_book());
    TRY_ASSIGN(out.scales,
               typed(wanted_.name + ".absmax", "the scales", {state.nested ? Dtype::u8 : Dtype::f32}));
    TRY(check_shape(out.scales, {packed_scales(m)}, fmt::format(" with blocks of {}", m.block)));
    if (!state.nested) return {};
    TRY_ASSIGN(out.nested_scales, typed(wanted_.name + ".nested_absmax", "the scales' scales", {Dtype::f32}));
    TRY(check_shape(out.nested_scales, {div_up(packed_scales(m), m.nested_block)},
                    fmt::format(" with blocks of {}", m.nested_block)));
    TRY_ASSIGN(out.table, typed(wanted_.name + ".nested_quant_map", "the scales' values", {Dtype::f32}));
    return check_shape(out.table, {nested_codes}, "");
  }

  // bitsandbytes packs matrices only, so a file with packed experts is from elsewhere.
  Result<void> refuse_experts() const {
    if (wanted_.experts == 0) return {};
    return bad_input(
        fmt::format("{}: tensor {} holds experts in one tensor, which bitsandbytes does not pack: {}",
                    place(), wanted_.name, to_copy));
  }

  Result<QuantState> quant_state() const {
    for (const char* other : {".quant_state.bitsandbytes__fp4", ".quant_state.bitsandbytes__int4"})
      if (const Location at = model_.find(wanted_.name + other))
        return bad_input(
            fmt::format("{}: tensor {} is there, but of bitsandbytes' formats of 4 bits only nf4 is "
                        "supported: quantize the model again with bnb_4bit_quant_type nf4",
                        at.file->path(), at.tensor->name));
    TRY_ASSIGN(const Location at,
               typed(wanted_.name + state_suffix, "the shape and the block size", {Dtype::u8}));
    const std::string where = fmt::format("{}: tensor {}", at.file->path(), at.tensor->name);
    if (at.tensor->bytes() > quant_state_bytes_max)
      return bad_input(fmt::format("{}: has {} bytes, more than the limit of {}: {}", where,
                                   at.tensor->bytes(), quant_state_bytes_max, to_copy));
    std::string text(at.tensor->bytes(), '\0');
    TRY(at.file->read(*at.tensor, 0, std::as_writable_bytes(std::span(text))));
    return parse_quant_state(text, where);
  }

  Result<void> check_code_book() const {
    TRY_ASSIGN(const Location at,
               typed(wanted_.name + ".quant_map", "the values of the codes", {Dtype::f32}));
    TRY(check_shape(at, {nf4_codes}, ""));
    std::array<float, nf4_codes> values;
    TRY(at.file->read(*at.tensor, 0, std::as_writable_bytes(std::span(values))));
    if (std::memcmp(values.data(), nf4_values, sizeof values) == 0) return {};
    return bad_input(
        fmt::format("{}: tensor {} does not hold the 16 values of NF4: quantize the model again with "
                    "bnb_4bit_quant_type nf4",
                    at.file->path(), at.tensor->name));
  }

  Result<void> find_int8(PackedSource& out) const {
    TRY(refuse_experts());
    const PackedMatrix& m = out.matrix;
    TRY_ASSIGN(out.codes, typed(wanted_.name, "a matrix", {Dtype::i8}));
    TRY(check_shape(out.codes, {m.rows, m.columns}, ""));
    std::string module = wanted_.name;
    if (module.ends_with("weight")) module.resize(module.size() - std::string_view("weight").size());
    TRY_ASSIGN(out.scales, typed(module + "SCB", "the scales", {Dtype::f32}));
    TRY(check_shape(out.scales, {m.rows}, ""));
    const Location format = model_.find(module + "weight_format");
    if (!format) return {};
    u8 value = 0;
    if (format.tensor->bytes() == 1)
      TRY(format.file->read(*format.tensor, 0, std::as_writable_bytes(std::span(&value, 1))));
    if (format.tensor->bytes() == 1 && format.tensor->dtype == Dtype::u8 && value == 0) return {};
    return bad_input(
        fmt::format("{}: tensor {} says that the codes are not in rows: save the model again with "
                    "bitsandbytes 0.45 or later",
                    format.file->path(), format.tensor->name));
  }

  Result<Location> located(const std::string& name, std::string_view what) const {
    if (const Location at = model_.find(name)) return at;
    return bad_input(fmt::format("{}: has no tensor {}, {}: {}", place(), name, what, to_copy));
  }
  // RETURNS: a tensor of one of the types.
  Result<Location> typed(const std::string& name, std::string_view what,
                         std::initializer_list<Dtype> types) const {
    TRY_ASSIGN(const Location at,
               located(name, name == wanted_.name ? std::string(what)
                                                  : fmt::format("{} of {}", what, wanted_.name)));
    for (const Dtype type : types)
      if (at.tensor->dtype == type) return at;
    std::string names;
    for (const Dtype type : types) names += (names.empty() ? "" : " or ") + std::string(tidepool::name(type));
    if (name == wanted_.name) names += ", or F32, BF16 or F16 if it is not packed";
    return wrong_type(at, "so it must be " + names);
  }
  Error wrong_type(const Location& at, std::string_view must) const {
    return bad_input(
        fmt::format("{}: tensor {} is {}, but the model's config says that weights are {}, {}: {}",
                    at.file->path(), at.tensor->name, name(at.tensor->dtype),
                    wanted_.packing == Packing::none ? "not packed" : name(wanted_.packing), must, to_copy));
  }

  Shape shape_of(std::initializer_list<u64> of_one) const {
    Shape out(of_one);
    if (wanted_.experts > 0) out.insert(out.begin(), wanted_.experts);
    return out;
  }
  Result<void> check_shape(const Location& at, const Shape& shape, std::string_view why) const {
    if (at.tensor->shape == shape) return {};
    const std::string of = at.tensor->name == wanted_.name ? "the model's config" : wanted_.name;
    return bad_input(fmt::format("{}: tensor {} is {}, but {}{} needs {}: {}", at.file->path(),
                                 at.tensor->name, shape_text(at.tensor->shape), of, why, shape_text(shape),
                                 to_copy));
  }
  // File of an error about a tensor that is in none.
  std::string place() const {
    const Location at = model_.find(wanted_.name);
    return at ? at.file->path() : model_.files()[0]->path();
  }

  static constexpr const char* state_suffix = ".quant_state.bitsandbytes__nf4";

  const SafetensorsModel& model_;
  const WantedMatrix& wanted_;
};

}  // namespace

Result<PackedSource> find_packed(const SafetensorsModel& model, const WantedMatrix& wanted) {
  CHECK(wanted.rows > 0 && wanted.columns > 0, wanted.name, wanted.rows, wanted.columns);
  return PackedFinder(model, wanted).find();
}

}  // namespace tidepool
