// Layers over devices give the bits of one device for every family, through all that training does: measuring
// before the first step, training, evaluating, saving. Shapes are random and tiny; the family, the number of
// devices and the size of experts' groups take turns. TIDEPOOL_LAYER_SHAPES sets the number of shapes,
// TIDEPOOL_LAYER_SHAPE the first one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "fit/job.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/placement.h"
#include "tests/support/train_fixture.h"

namespace tidepool::layers_families_test {

using test::Numbers;
using test::TrainDir;

// In three rounds of all families, each is on two, three and five devices. The suite has one round.
constexpr u32 shapes_of_rounds = 3 * family_count;
u32 shapes_of_suite() { return test::wants_all_cases() ? shapes_of_rounds : family_count; }

u32 number_of(const char* variable, u32 otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? static_cast<u32>(std::strtoul(text, nullptr, 10)) : otherwise;
}

class Shapes {
 public:
  explicit Shapes(u32 seed) : seed_(seed), rng_(seed) {}

  Family family() const { return static_cast<Family>(seed_ % family_count); }
  u32 devices() const {
    constexpr u32 counts[] = {2, 3, 5};
    const u32 round = seed_ / family_count;
    return round % 4 == 3 ? 4 : counts[(seed_ + round) % std::size(counts)];
  }

  ModelConfig model() {
    ModelConfig m = test::small_model(family());
    m.layers = pick(1u, 2u, 3u, 5u);
    m.attention.heads = pick(1u, 2u, 4u);
    m.width = m.attention.heads * pick(8u, 16u, 24u);
    if (family() == Family::gpt2) return m;
    m.attention.kv_heads_given = m.attention.heads > 1 ? m.attention.heads / pick(1u, 2u) : 1;
    test::inner_width(m) = pick(8u, 24u, 64u);
    if (traits(family()).window == WindowKind::every_layer) m.softmax.sliding_window = pick(0u, 5u);
    if (style(family()).mixer == MixerKind::latent) m.attention.kv_heads_given = m.attention.heads;
    if (!traits(family()).layer_kinds.empty()) m.mamba.head_dim = m.width / 2;
    if (!m.layer_kinds.empty()) m.layer_kinds = std::string("M*MM*").substr(0, m.layers);
    if (style(family()).one_part && m.layers == 1) m.experts.count = 0;  // the second layer has experts
    if (m.experts.count != 0) add_experts(m);
    // With fewer layers, some would have no layer of their kind to read from.
    if (m.softmax.shared_layers != 0) m.softmax.shared_layers = m.layers == 5 ? 2 : 0;
    return m;
  }

  Config config(const TrainDir& dir) {
    Config c = test::small_config(dir, fmt::format("run-{}", seed_));
    c.model = model();
    c.data.packing = style(family()).positions == PositionKind::rotary && pick(false, true);
    c.train.precision = pick(Precision::fp32, Precision::bf16, Precision::fp16);
    c.train.max_steps = 2;
    c.train.sequence_length = pick(8u, 31u, 32u);
    c.train.per_device_train_batch_size = pick(1u, 2u);
    c.train.gradient_accumulation_steps = pick(1u, 2u, 3u);
    c.train.max_grad_norm = pick(0.0, 0.5);
    c.train.eval_batches = 2;
    c.train.recompute = pick(RecomputePolicy::automatic, RecomputePolicy::keep, RecomputePolicy::recompute);
    c.model.attention.dropout = pick(0.0, 0.1);
    c.memory.home = pick(HomePolicy::automatic, HomePolicy::device, HomePolicy::host, HomePolicy::disk,
                         HomePolicy::mixed);
    c.memory.chunk_size = pick(Bytes{0}, Bytes{8 * kib}, Bytes{40 * kib});
    c.memory.versions = pick(0u, 1u, 2u, 3u);
    c.memory.budgets.disk = Bytes{gib};
    c.machine.threads = pick(1u, 2u, 3u);
    c.output.trace = false;
    return c;
  }

  // Gives a device and the host the least powers of two that the job needs, or four times as much.
  void place(Config& c) {
    const auto fits = [&] { return test::fits(make_job(c).value().graph, c); };
    const u64 room = pick(u64{1}, u64{4});
    for (Bytes* const budget : {&c.memory.budgets.device, &c.memory.budgets.host}) {
      *budget = Bytes{64 * mib};
      while (fits()) budget->value /= 2;
      budget->value *= 2 * room;
    }
    // Groups of experts follow the device's budget, and what the host must hold follows the groups.
    while (!fits()) c.memory.budgets.host.value *= 2;
  }

  bool adapters() { return pick(0u, 0u, 0u, 1u) == 1; }

 private:
  template <class T, class... More>
  T pick(T first, More... more) {
    const T list[] = {first, static_cast<T>(more)...};
    return list[rng_() % std::size(list)];
  }

  void add_experts(ModelConfig& m) {
    Experts& e = m.experts;
    e.count = pick(2u, 3u, 8u);
    e.chosen = std::min(e.count, pick(1u, 2u, 3u));
    e.groups = e.chosen_groups = 1;
    if (traits(family()).experts->group_keys) {
      if (!traits(family()).experts->by_layer_kind) e.dense_layers = m.layers == 1 ? 0 : pick(0u, 1u);
      if (e.count == 8) e.groups = 4, e.chosen_groups = 2;
    } else {
      e.balance = traits(family()).experts->balance_keys && pick(false, true);
    }
  }

  const u32 seed_;
  std::mt19937 rng_;
};

// Groups of one expert, of two, of all, and of as many as planning chooses.
u32 experts_per_group(u32 seed, const ModelConfig& model) {
  if (model.experts.count == 0) return 0;
  const u32 sizes[] = {1, model.experts.count, 2, 0};
  return sizes[(seed / family_count + seed % family_count) % std::size(sizes)];
}

Numbers train(const Config& c, std::optional<Sampling> sampling) {
  const Result<RunReport> report =
      train_model({.config = c, .command = "test", .quiet = true, .sampling = sampling});
  EXPECT_TRUE(report) << report.error().message;
  std::filesystem::remove_all(c.output.dir);
  if (!report) return {};
  test::check_bytes(*report);
  return test::numbers_of(*report);
}

// One device has all micro-batches of a step, and room for everything.
Config on_one_device(Config c, u32 devices) {
  c.train.gradient_accumulation_steps *= devices;
  c.memory.budgets = {Bytes{gib}, Bytes{gib}, Bytes{gib}};
  c.memory.versions = 1;
  c.output.dir += "-one";
  return c;
}

Config trains_adapters(const Config& full, const TrainDir& dir, u32 seed) {
  Config base = on_one_device(full, 1);
  base.train.max_steps = 1;
  base.train.precision = Precision::fp32;
  base.output.dir = dir / fmt::format("base-{}", seed);
  const Result<RunReport> report = test::run(base);
  EXPECT_TRUE(report) << report.error().message;
  Config c = test::lora_config(full, base.output.dir + "/checkpoint-1");
  c.model.attention.dropout = 0;
  return c;
}

void expect_bits_of_one_device(const TrainDir& dir, u32 seed) {
  Shapes shapes(seed);
  Config c = shapes.config(dir);
  c.memory.experts_per_group = experts_per_group(seed, c.model);
  if (shapes.adapters()) c = trains_adapters(c, dir, seed);
  const Config one = on_one_device(c, shapes.devices());
  c.machine.executor = fmt::format("cpu:{}", shapes.devices());
  c.machine.parallel = Parallel::layers;
  shapes.place(c);
  SCOPED_TRACE(fmt::format("TIDEPOOL_LAYER_SHAPE={}; {}", seed, test::how_to_repeat(c)));
  const Numbers expected = train(one, std::nullopt), layers = train(c, shortest_sampling);
  EXPECT_EQ(layers, expected);
  EXPECT_EQ(layers.losses.size(), c.train.max_steps);
}

TEST(LayersOfEveryFamily, GiveTheBitsOfOneDeviceThroughTraining) {
  const TrainDir dir;
  const u32 first = number_of("TIDEPOOL_LAYER_SHAPE", 0);
  const u32 shapes = number_of("TIDEPOOL_LAYER_SHAPES", shapes_of_suite());
  for (u32 seed = first; seed < first + shapes; ++seed) {
    if (shapes > shapes_of_suite()) std::fprintf(stderr, "shape %u\n", seed);  // the last line before a crash
    expect_bits_of_one_device(dir, seed);
  }
}

TEST(LayersOfEveryFamily, AreOnTwoThreeAndFiveDevicesWithGroupsOfEverySize) {
  std::set<std::pair<Family, u32>> families, groups;
  for (u32 seed = 0; seed < shapes_of_rounds; ++seed) {
    const Shapes shapes(seed);
    families.emplace(shapes.family(), shapes.devices());
    ModelConfig model = default_model(shapes.family());
    if (model.experts.count != 0) groups.emplace(shapes.family(), experts_per_group(seed, model));
  }
  for (u32 family = 0; family < family_count; ++family)
    for (const u32 devices : {2, 3, 5})
      EXPECT_TRUE(families.contains({static_cast<Family>(family), devices})) << family << " on " << devices;
  u64 with_experts = 0;
  for (u32 family = 0; family < family_count; ++family)
    with_experts += default_model(static_cast<Family>(family)).experts.count != 0;
  EXPECT_EQ(groups.size(), 3 * with_experts);  // three sizes each
}

}  // namespace tidepool::layers_families_test
