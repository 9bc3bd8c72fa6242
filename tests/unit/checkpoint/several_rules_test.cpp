// A model whose tensors are updated by several rules: each tensor has the state of its rule, in homes, state
// files and checkpoints.
#include <gmock/gmock.h>

#include <set>

#include "huggingface/weights/safetensors.h"
#include "optimizers/optimizer.h"
#include "planner/planner.h"
#include "session/state_store.h"
#include "session/state_table.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/small_training.h"

namespace tidepool::several_rules_test {

using namespace test;  // small_training.h
using ::testing::HasSubstr;

// Adafactor for matrices beside AdamW for vectors, or for all: slots along rows and columns.
std::vector<UpdateRule> adafactor_rules(bool beside_others) {
  std::vector<UpdateRule> rules = update_rules(Optim::adafactor);
  if (!beside_others) return rules;
  rules[0].takes = [](const Tensor& t) { return t.shape.size() > 1; };
  rules.push_back({.optim = Optim::adamw_torch});
  return rules;
}

struct Case {
  Precision precision{};
  const char* name;
  std::vector<UpdateRule> rules;
};
ModelGraph graph_of(const Case& c) { return small_gpt(c.precision, c.rules); }

Plan plan_of(const ModelGraph& graph, u64 chunk_bytes = 40 * kib) {
  return make_plan(graph, {.budgets = {roomy, roomy, roomy},
                           .home = HomePolicy::disk,
                           .chunk_bytes = Bytes{chunk_bytes},
                           .versions = 2})
      .value();
}

// Homes that only a call reaches, as a disk's.
struct Homes final : StateAtRest {
  explicit Homes(const Plan& plan) : content(plan.chunks.size()) {
    for (u64 id = 0; id < content.size(); ++id) content[id].resize(plan.chunks[id].bytes.value);
  }
  Result<void> read_home(ChunkId id, std::span<std::byte> out) override {
    std::memcpy(out.data(), content[index(id)].data(), out.size());
    return {};
  }
  Result<void> begin_write_home(ChunkId id, std::span<const std::byte> from) override {
    content[index(id)].assign(from.begin(), from.end());
    return {};
  }
  Result<void> end_write_home(ChunkId) override { return {}; }
  Result<void> clear_home(ChunkId id) override {
    EXPECT_FALSE(content[index(id)].empty()) << index(id);
    return {};
  }
  std::span<std::byte> home_memory(ChunkId) const override { return {}; }

  std::vector<std::vector<std::byte>> content;
};

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    all.push_back({precision, "several", several_rules()});
    all.push_back({precision, "adafactor", adafactor_rules(false)});
    all.push_back({precision, "adafactor_and_adamw", adafactor_rules(true)});
  }
  return all;
}
class SeveralRules : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, SeveralRules, ::testing::ValuesIn(all_cases()), [](const auto& p) {
  return fmt::format("{}_{}", name(p.param.precision), p.param.name);
});

// Names in optimizer.safetensors that the rule of a tensor gives its state.
std::set<std::string> names_of_state(const ModelGraph& graph, const Tensor& tensor) {
  switch (graph.rules[tensor.rule].optim) {
    case Optim::adamw_torch:
      return {"exp_avg." + tensor.name, "exp_avg_sq." + tensor.name};
    case Optim::adafactor:
      if (tensor.shape.size() == 1) return {"exp_avg_sq." + tensor.name};
      return {"exp_avg_sq_row." + tensor.name, "exp_avg_sq_col." + tensor.name};
    default:
      return {"momentum_buffer." + tensor.name};
  }
}

TEST_P(SeveralRules, ACheckpointHasOfEachTensorTheStateOfItsRule) {
  const ModelGraph graph = graph_of(GetParam());
  const TemporaryDirectory dir;
  const auto store = open_store(dir.path(), graph);
  MemoryState state(graph);
  state.randomise(graph, 1);
  const SavedCheckpoint saved = store->save(some_state(1), state).value();
  const auto file =
      SafetensorsFile::open(saved.path + "/optimizer.safetensors", ErrorKind::corrupt_checkpoint).value();
  std::set<std::string> names, expected;
  for (const StoredTensor& tensor : file->tensors())
    if (!tensor.name.starts_with("master.")) names.insert(tensor.name);
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors) expected.merge(names_of_state(graph, tensor));
  EXPECT_EQ(names, expected);
  MemoryState restored(graph);
  ASSERT_TRUE(store->restore(*store->find_resumable().value().found, restored));
  const StateSlots& slots = graph.state_slots;
  for (const auto& [key, bytes] : state.bytes())
    for (const Tensor& tensor : graph.windows[key.first].tensors) {
      if (!slots.has(tensor.rule, key.second)) continue;
      const SlotRange range = slot_range(graph.windows[key.first], slots.axis(key.second), tensor);
      const u64 at = slots.bytes(key.second, range.begin);
      const u64 size = slots.bytes(key.second, range.elements);
      EXPECT_EQ(std::memcmp(bytes.data() + at, restored.bytes()[key].data() + at, size), 0) << tensor.name;
    }
}

TEST_P(SeveralRules, AStateStoreFindsEachTensorInItsCuts) {
  const ModelGraph graph = graph_of(GetParam());
  const Plan plan = plan_of(graph);
  Homes homes(plan);
  std::vector<std::byte> first(mib), second(mib);
  StateStore store(plan, graph, homes, {{{first}, {second}}});
  const auto each_tensor = [&](auto fn) {
    for (const Kind kind : persistent_kinds(graph.state_slots))
      for (u32 w = 0; w < graph.windows.size(); ++w)
        for (const Tensor& tensor : graph.windows[w].tensors)
          if (graph.state_slots.has(tensor.rule, kind)) {
            const SlotRange range = slot_range(graph.windows[w], graph.state_slots.axis(kind), tensor);
            std::vector<std::byte> bytes(graph.state_slots.bytes(kind, range.elements));
            for (u64 i = 0; i < bytes.size(); ++i)
              bytes[i] = std::byte(i * 7 + tensor.name.size() + static_cast<u64>(kind));
            fn(w, kind, range.begin, bytes);
          }
  };
  each_tensor([&](u32 w, Kind kind, u64 begin, std::span<const std::byte> bytes) {
    ASSERT_TRUE(store.write(w, kind, begin, bytes));
  });
  ASSERT_TRUE(store.finish());
  each_tensor([&](u32 w, Kind kind, u64 begin, const std::vector<std::byte>& bytes) {
    std::vector<std::byte> read(bytes.size());
    ASSERT_TRUE(store.read(w, kind, begin, read));
    EXPECT_TRUE(read == bytes) << w << " " << begin;
  });
}

TEST_P(SeveralRules, AStateFileSaysWhereEachCutIs) {
  const ModelGraph graph = graph_of(GetParam());
  const Plan plan = plan_of(graph, 16 * kib);
  const StateTable table = make_state_table(plan, graph);
  const Result<DescribedState> read = parse_state(describe_state(table, {.run = "/run", .branch = "b"}), "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->table == table);
  u32 mark = 0;
  u64 bytes = 0;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    if (!plan.is_committed(ChunkId{id})) continue;
    const Chunk& chunk = plan.chunks[id];
    const StateTable::OfWindow& window = table.windows[chunk.window];
    const StateTable::Place& place = window.places[static_cast<u32>(chunk.kind)];
    const u64 last = chunk.element_begin + chunk.elements - 1;
    for (const u64 element : {chunk.element_begin, last}) {
      const StateTable::Cut cut = window.cut_at(element, table.state_slots, chunk.kind);
      ASSERT_EQ(cut.begin, chunk.element_begin);
      EXPECT_EQ(cut.elements, chunk.elements);
      EXPECT_EQ(place.first_chunk + cut.number, id);
      EXPECT_EQ(place.mark + cut.before.cuts, mark);
      EXPECT_EQ(place.offset + cut.before.bytes, plan.slots[id].offset);
    }
    ++mark, bytes += chunk.bytes.value;
  }
  EXPECT_EQ(table.marks(), mark);
  EXPECT_EQ(table.bytes().value, bytes);
  EXPECT_EQ(difference_of_models(table, graph), "");
}

TEST(StateTable, NamesTheTensorThatAnotherRuleTrained) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  const StateTable table = make_state_table(plan_of(graph), graph);
  EXPECT_THAT(difference_of_models(table, small_gpt(Precision::bf16)),
              HasSubstr("is trained by adamw_torch, and was by sgd (train.optim"));
  std::vector<UpdateRule> other = several_rules();
  other[1].takes = [](const Tensor& t) { return t.shape.size() == 1 && !t.name.starts_with("ln_f"); };
  EXPECT_EQ(difference_of_models(table, small_gpt(Precision::bf16, other)),
            "ln_f.weight is trained by adamw_torch, and was by sgd (train.optim, train.optim_groups)");
}

TEST(StateTable, IsRefusedIfRowsAndColumnsAreNotThoseOfTheTensor) {
  const ModelGraph graph = small_gpt(Precision::bf16, adafactor_rules(false));
  const StateTable table = make_state_table(plan_of(graph), graph);
  const auto is_read = [&](auto change) {
    StateTable other = table;
    change(*std::ranges::find_if(other.windows[2].tensors, [](const auto& t) { return t.rows > 0; }));
    return parse_state(describe_state(other, {.run = "/run", .branch = "b"}), "f").has_value();
  };
  using Of = StateTable::OfTensor;
  EXPECT_TRUE(is_read([](Of&) {}));
  EXPECT_FALSE(is_read([](Of& t) { ++t.rows; }));
  EXPECT_FALSE(is_read([](Of& t) { t.columns = 0; }));
  EXPECT_FALSE(is_read([](Of& t) { t.columns *= 2; }));
  StateTable other = table;
  StateTable::OfWindow& window = other.windows[2];
  const auto unit = std::ranges::max_element(window.units, {}, &StateTable::Unit::cut_elements);
  unit->cut_elements /= 2;  // rows of half a tensor
  EXPECT_FALSE(parse_state(describe_state(other, {.run = "/run", .branch = "b"}), "f"));
}

TEST(StateTable, NamesATensorOfAnotherShape) {
  const ModelGraph graph = small_gpt(Precision::bf16, adafactor_rules(false));
  StateTable table = make_state_table(plan_of(graph), graph);
  auto& tensor =
      *std::ranges::find(table.windows[2].tensors, "h.0.attn.c_attn.weight", &StateTable::OfTensor::name);
  std::swap(tensor.rows, tensor.columns);
  EXPECT_EQ(difference_of_models(table, graph), "h.0.attn.c_attn.weight has 64 rows, and had 192");
}

TEST(StateTable, IsRefusedIfItsRangesAreOutsideTheirWindow) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  const StateTable table = make_state_table(plan_of(graph), graph);
  const auto is_read = [&](auto change) {
    StateTable other = table;
    change(other.windows[2]);
    return parse_state(describe_state(other, {.run = "/run", .branch = "b"}), "f").has_value();
  };
  using Window = StateTable::OfWindow;
  EXPECT_TRUE(is_read([](Window&) {}));
  EXPECT_FALSE(is_read([](Window& w) { w.tensors.back().begin = w.elements; }));
  EXPECT_FALSE(is_read([](Window& w) { w.tensors[0].elements = w.elements + 1; }));
  EXPECT_FALSE(is_read([](Window& w) { w.units[1].begin = w.units[2].begin; }));
  EXPECT_FALSE(is_read([](Window& w) { w.units.back().begin = w.elements; }));
  EXPECT_FALSE(is_read([](Window& w) { w.units[0].begin = 1; }));
  EXPECT_FALSE(is_read([](Window& w) { w.units[1].cut_elements = 0; }));
  EXPECT_FALSE(is_read([](Window& w) { w.units[1].rule = 3; }));
  EXPECT_FALSE(is_read([](Window& w) { w.units[1].cut_elements = 1; }));
  EXPECT_FALSE(is_read([](Window& w) { w.elements = u64{1} << 62; }));
  EXPECT_FALSE(is_read([](Window& w) { w.tensors[0].elements = w.units.back().begin + 1; }));  // two rules
  EXPECT_FALSE(is_read([](Window& w) { w.tensors[1].begin = w.tensors[0].begin; }));
  EXPECT_FALSE(is_read([](Window& w) { w.places[0].mark = 4'000'000'000; }));
  EXPECT_FALSE(is_read([](Window& w) { w.places[0].offset = u64{1} << 60; }));
  EXPECT_FALSE(is_read([](Window& w) { w.places[0].first_chunk = u64{1} << 40; }));
  StateTable many = table;
  many.rules = {Optim::adamw_torch, Optim::adamw_bf16, Optim::adamw_8bit, Optim::lion,
                Optim::sgd};  // 9 slots
  EXPECT_FALSE(parse_state(describe_state(many, {.run = "/run", .branch = "b"}), "f"));
}

}  // namespace tidepool::several_rules_test
