// Checkpoints of optimizers whose state has less than 32 bits: what they hold, and resuming with another
// format of the same rule.
#include <gmock/gmock.h>

#include <cmath>

#include "huggingface/weights/safetensors.h"
#include "kernels/update/slot_formats.h"
#include "optimizers/optimizer.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/small_training.h"

namespace tidepool::formats_test {

using namespace test;  // small_training.h
using ::testing::HasSubstr;

ModelGraph graph_of(Optim optim, Precision precision = Precision::bf16) {
  return small_gpt(precision, update_rules(optim), 1);
}

// A tensor's state with a prefix, as floats.
std::vector<float> floats_of(MemoryState& state, const ModelGraph& graph, u32 w, const Tensor& tensor,
                             std::string_view prefix) {
  const StateSlots& slots = graph.state_slots;
  std::vector<float> out(tensor.elements);
  slots.each_of_rule(tensor.rule, [&](Kind slot) {
    if (slots[slot].file_prefix != prefix) return;
    const std::byte* bytes = state.bytes()[{w, slot}].data();
    for (u64 i = 0; i < out.size(); i += slot_block_elements)
      decode_block(slots[slot].format, bytes + slots.bytes(slot, tensor.window_offset + i),
                   std::span(out).subspan(i, std::min<u64>(slot_block_elements, out.size() - i)));
  });
  return out;
}

// Sets all tensors' state with values that do not depend on the format.
void fill(MemoryState& state, const ModelGraph& graph) {
  const StateSlots& slots = graph.state_slots;
  state.randomise(graph, 3);
  for (u32 w = 0; w < graph.windows.size(); ++w)
    for (const Tensor& tensor : graph.windows[w].tensors)
      slots.each_of_rule(tensor.rule, [&](Kind slot) {
        if (slots.is_master(slot) || slots.axis(slot) != SlotAxis::elements) return;
        const bool second = slots[slot].file_prefix == "exp_avg_sq.";
        std::vector<float> values(tensor.elements);
        for (u64 i = 0; i < values.size(); ++i) {
          values[i] = initial(tensor, 3 * i + second);
          if (second) values[i] *= values[i];
        }
        for (u64 i = 0; i < values.size(); i += slot_block_elements)
          encode_block(slots[slot].format,
                       std::span(values).subspan(i, std::min<u64>(slot_block_elements, values.size() - i)),
                       nullptr, 0, 0,
                       state.bytes()[{w, slot}].data() + slots.bytes(slot, tensor.window_offset + i));
      });
}

const Tensor& tensor_of(const ModelGraph& graph, u32 window, const std::string& name) {
  return *std::ranges::find(graph.windows[window].tensors, name, &Tensor::name);
}

TEST(AdafactorInFiles, HasAValueForEachRowAndColumn) {
  const ModelGraph graph = graph_of(Optim::adafactor);
  const TemporaryDirectory dir;
  MemoryState state(graph), restored(graph);
  state.randomise(graph, 3);
  const auto store = open_store(dir.path(), graph);
  const SavedCheckpoint saved = store->save(some_state(1), state).value();
  const auto file =
      SafetensorsFile::open(saved.path + "/optimizer.safetensors", ErrorKind::corrupt_checkpoint).value();
  const auto tensor = [&](const std::string& name) {
    return *std::ranges::find(file->tensors(), name, &StoredTensor::name);
  };
  EXPECT_EQ(tensor("exp_avg_sq_row.h.0.attn.c_attn.weight").shape, (std::vector<u64>{64}));
  EXPECT_EQ(tensor("exp_avg_sq_col.h.0.attn.c_attn.weight").shape, (std::vector<u64>{3 * 64}));
  EXPECT_EQ(tensor("exp_avg_sq.h.0.attn.c_attn.bias").shape, (std::vector<u64>{3 * 64}));
  ASSERT_TRUE(store->restore(*store->find_resumable().value().found, restored));
  EXPECT_TRUE(state == restored);
}

class Formats : public ::testing::TestWithParam<Optim> {};
INSTANTIATE_TEST_SUITE_P(Rules, Formats,
                         ::testing::Values(Optim::adamw_bf16, Optim::adamw_8bit, Optim::lion_8bit,
                                           Optim::sgd_bf16, Optim::muon_bf16),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(Formats, ACheckpointHasTheStateAsItIs) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const ModelGraph graph = graph_of(GetParam(), precision);
    const TemporaryDirectory dir;
    const auto store = open_store(dir.path(), graph);
    MemoryState state(graph), restored(graph);
    fill(state, graph);
    const SavedCheckpoint saved = store->save(some_state(1), state).value();
    ASSERT_TRUE(store->restore(*store->find_resumable().value().found, restored));
    for (u32 w = 0; w < graph.windows.size(); ++w)
      for (const Tensor& tensor : graph.windows[w].tensors)
        graph.state_slots.each_of_rule(tensor.rule, [&](Kind slot) {
          const SlotRange range = slot_range(graph.windows[w], graph.state_slots.axis(slot), tensor);
          const u64 begin = graph.state_slots.bytes(slot, range.begin);
          const u64 size = graph.state_slots.bytes(slot, range.elements);
          EXPECT_EQ(std::memcmp(state.bytes()[{w, slot}].data() + begin,
                                restored.bytes()[{w, slot}].data() + begin, size),
                    0)
              << tensor.name;
        });
  }
}

TEST(CodesInFiles, AreBytesWithABoundForEachBlock) {
  const ModelGraph graph = graph_of(Optim::adamw_8bit);
  const TemporaryDirectory dir;
  MemoryState state(graph);
  fill(state, graph);
  const SavedCheckpoint saved = open_store(dir.path(), graph)->save(some_state(1), state).value();
  const auto file =
      SafetensorsFile::open(saved.path + "/optimizer.safetensors", ErrorKind::corrupt_checkpoint).value();
  const auto tensor = [&](const std::string& name) {
    return *std::ranges::find(file->tensors(), name, &StoredTensor::name);
  };
  EXPECT_EQ(tensor("exp_avg.h.0.attn.c_attn.weight").dtype, Dtype::i8);
  EXPECT_EQ(tensor("exp_avg_sq.h.0.attn.c_attn.weight").dtype, Dtype::u8);
  EXPECT_EQ(tensor("exp_avg.h.0.attn.c_attn.weight").shape, (std::vector<u64>{64 * 3 * 64 / 256, 260}));
  EXPECT_EQ(tensor("exp_avg.h.0.attn.c_attn.bias").dtype, Dtype::f32);         // a vector
  EXPECT_EQ(tensor("exp_avg.wpe.weight").dtype, Dtype::f32);                   // 2,048 elements
  EXPECT_EQ(tensor("exp_avg.wte.weight").shape, (std::vector<u64>{25, 260}));  // 6,208: 24 blocks and a part
}

TEST_P(Formats, StateInAnotherFormatOfTheRuleIsConverted) {
  const Optim base = optimizer(GetParam()).base;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (const auto& [from, to] : {std::pair(base, GetParam()), std::pair(GetParam(), base)}) {
      SCOPED_TRACE(testing::Message() << name(from) << " to " << name(to) << ", " << name(precision));
      const ModelGraph there = graph_of(from, precision), here = graph_of(to, precision);
      const TemporaryDirectory dir;
      MemoryState state(there), restored(here);
      fill(state, there);
      ASSERT_TRUE(open_store(dir.path(), there)->save(some_state(1), state));
      const auto store = open_store(dir.path(), here);
      const auto found = store->find_resumable();
      ASSERT_TRUE(found && found->found) << (found ? "" : found.error().message);
      const auto done = store->restore(*found->found, restored);
      ASSERT_TRUE(done) << done.error().message;
      for (u32 w = 0; w < here.windows.size(); ++w)
        for (const Tensor& tensor : here.windows[w].tensors) {
          const Tensor& before = tensor_of(there, w, tensor.name);
          std::vector<Kind> both = {Kind::param};
          if (here.state_slots.has_master()) both.push_back(here.state_slots.master());
          for (const Kind kind : both) {
            const u64 size = here.state_slots.bytes(kind, 1);
            EXPECT_EQ(std::memcmp(restored.bytes()[{w, kind}].data() + tensor.window_offset * size,
                                  state.bytes()[{w, kind}].data() + before.window_offset * size,
                                  tensor.elements * size),
                      0)
                << tensor.name;
          }
          for (const std::string_view prefix : {"exp_avg.", "exp_avg_sq.", "momentum_buffer."}) {
            const std::vector<float> a = floats_of(state, there, w, before, prefix),
                                     b = floats_of(restored, here, w, tensor, prefix);
            const float most = *std::ranges::max_element(a);
            for (u64 i = 0; i < a.size(); ++i)
              ASSERT_NEAR(a[i], b[i], 0.032f * std::abs(a[i]) + most / 4000) << tensor.name << " " << i;
          }
        }
    }
}

TEST(CodesInFiles, OfAnotherRuleAreRefused) {
  const ModelGraph there = graph_of(Optim::adamw_8bit), here = graph_of(Optim::lion_8bit);
  const TemporaryDirectory dir;
  MemoryState state(there);
  fill(state, there);
  ASSERT_TRUE(open_store(dir.path(), there)->save(some_state(1), state));
  const auto found = open_store(dir.path(), here)->find_resumable();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("train.optim is adamw_"));
}

}  // namespace tidepool::formats_test
