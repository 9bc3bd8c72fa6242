// MemoryState is the state of a GPT-2 of a few thousand parameters in plain vectors; TemporaryDirectory is a
// place to write it to.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "tests/support/adamw_state.h"
#include "tidepool/fp16.h"
#include "tidepool/slot_range.h"

namespace tidepool::test {

inline Window make_window(std::string name,
                          const std::vector<std::pair<std::string, std::vector<u64>>>& tensors) {
  Window w{.name = std::move(name)};
  for (const auto& [tensor, shape] : tensors) {
    u64 elements = 1;
    for (const u64 n : shape) elements *= n;
    w.elements = round_up(w.elements, 64);
    w.tensors.push_back({.name = tensor,
                         .shape = shape,
                         .window_offset = w.elements,
                         .elements = elements,
                         .stored_offset = w.elements,
                         .stored_elements = elements});
    w.elements += elements;
    w.parameters += elements;
  }
  w.elements = round_up(w.elements, cut_alignment_elements);
  return w;
}

// Uses the names and shapes of GPT-2, so that other tools can open the result.
inline ModelGraph tiny_graph(Precision precision, u32 width = 20, u32 layers = 2) {
  ModelGraph g;
  g.config = {.vocab_size = 61, .positions = 24, .width = width, .layers = layers, .attention = {.heads = 2}};
  g.precision = precision;
  g.state_slots = test::adamw_state(precision);
  const u64 h = width;
  g.windows.push_back(make_window("wte", {{"wte.weight", {61, h}}}));
  g.windows.push_back(make_window("wpe", {{"wpe.weight", {24, h}}}));
  for (u32 i = 0; i < layers; ++i) {
    const std::string p = fmt::format("h.{}.", i);
    g.windows.push_back(make_window("h." + std::to_string(i), {{p + "ln_1.weight", {h}},
                                                               {p + "ln_1.bias", {h}},
                                                               {p + "attn.c_attn.weight", {h, 3 * h}},
                                                               {p + "attn.c_attn.bias", {3 * h}},
                                                               {p + "attn.c_proj.weight", {h, h}},
                                                               {p + "attn.c_proj.bias", {h}},
                                                               {p + "ln_2.weight", {h}},
                                                               {p + "ln_2.bias", {h}},
                                                               {p + "mlp.c_fc.weight", {h, 4 * h}},
                                                               {p + "mlp.c_fc.bias", {4 * h}},
                                                               {p + "mlp.c_proj.weight", {4 * h, h}},
                                                               {p + "mlp.c_proj.bias", {h}}}));
  }
  g.windows.push_back(make_window("ln_f", {{"ln_f.weight", {h}}, {"ln_f.bias", {h}}}));
  for (const Window& w : g.windows) g.parameters += w.parameters;
  return g;
}

// Holds the persistent kinds of every window; padding is zero.
class MemoryState final : public StateReader, public StateWriter {
 public:
  explicit MemoryState(const ModelGraph& graph) : slots_(graph.state_slots) {
    for (u32 w = 0; w < graph.windows.size(); ++w) {
      for (const Kind kind : test::persistent_kinds(slots_))
        bytes_[{w, kind}].resize(slots_.bytes(
            kind, slot_range(graph.windows[w], slots_.axis(kind), 0, graph.windows[w].elements).elements));
    }
  }

  // Any bit pattern may occur: checkpoints must not depend on the numbers.
  void randomise(const ModelGraph& graph, u64 seed) {
    std::mt19937_64 random(seed);
    for (auto& [key, bytes] : bytes_) {
      for (const Tensor& t : graph.windows[key.first].tensors) {
        const SlotRange range = slot_range(graph.windows[key.first], slots_.axis(key.second), t);
        const u64 begin = slots_.bytes(key.second, range.begin);
        for (u64 i = 0; i < slots_.bytes(key.second, range.elements); ++i)
          bytes[begin + i] = std::byte(random());
      }
    }
    round_masters(graph);
  }
  // Keeps numbers below 2: loading weights refuses NaN and infinity.
  void make_finite(const ModelGraph& graph) {
    for (auto& [key, bytes] : bytes_) {
      if (key.second != Kind::param && !is_fp32_master(key.second)) continue;
      const u64 size = slots_.bytes(key.second, 1);
      for (u64 last = size - 1; last < bytes.size(); last += size) bytes[last] &= std::byte{0xbf};
    }
    round_masters(graph);
  }

  Result<void> read(u32 window, Kind kind, u64 begin, std::span<std::byte> out) override {
    const auto& bytes = bytes_.at({window, kind});
    const u64 at = slots_.bytes(kind, begin);
    CHECK(at + out.size() <= bytes.size(), at, out.size());
    std::memcpy(out.data(), bytes.data() + at, out.size());
    return {};
  }
  Result<void> write(u32 window, Kind kind, u64 begin, std::span<const std::byte> in) override {
    auto& bytes = bytes_.at({window, kind});
    const u64 at = slots_.bytes(kind, begin);
    CHECK(at + in.size() <= bytes.size(), at, in.size());
    std::memcpy(bytes.data() + at, in.data(), in.size());
    return {};
  }
  Result<void> finish() override {
    finished = true;
    return {};
  }

  bool operator==(const MemoryState& o) const { return bytes_ == o.bytes_; }
  std::map<std::pair<u32, Kind>, std::vector<std::byte>>& bytes() { return bytes_; }
  bool finished = false;

 private:
  bool is_fp32_master(Kind kind) const {
    return slots_.precision() == Precision::fp16 && slots_.is_master(kind);
  }
  void round_masters(const ModelGraph& graph) {
    if (slots_.precision() != Precision::fp16) return;
    for (u32 w = 0; w < graph.windows.size(); ++w) {  // parameters are the rounded masters
      const auto* masters = reinterpret_cast<const float*>(bytes_[{w, slots_.master()}].data());
      auto* halves = reinterpret_cast<u16*>(bytes_[{w, Kind::param}].data());
      for (u64 i = 0; i < graph.windows[w].elements; ++i) halves[i] = fp16_from_float(masters[i]);
    }
  }

  StateSlots slots_;
  std::map<std::pair<u32, Kind>, std::vector<std::byte>> bytes_;
};

// A directory for one test, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    // In memory if possible: these tests are about order and content, not about the medium.
    const bool shm = ::access("/dev/shm", W_OK) == 0;
    std::string name = (shm ? std::string("/dev/shm/") : ::testing::TempDir()) + "tidepool_XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline TrainerState some_state(u64 step) {
  TrainerState s{.step = step, .seed = 7, .data_fingerprint = "0123", .tokens = 64 * step, .seconds = 0.1};
  for (u64 i = 0; i < step; ++i) s.losses.push_back(5.5 / (1.0 + static_cast<double>(i)) + 1e-17);
  s.eval_losses = {{step, 1.0 / 3.0}};
  s.settings = {{"train.learning_rate", "0.001"}};
  return s;
}

// Resumes as a run does, which also skips a checkpoint that restore() finds damaged.
inline Resumable find_and_restore(CheckpointStore& store, const ModelGraph& graph) {
  std::vector<SteppedOver> stepped_over;
  while (true) {
    std::vector<std::string> distrusted;
    for (const SteppedOver& s : stepped_over) distrusted.push_back(s.path);
    Resumable out = store.find_resumable(distrusted).value();
    stepped_over.insert(stepped_over.end(), out.stepped_over.begin(), out.stepped_over.end());
    MemoryState state(graph);
    const Result<void> restored = out.found ? store.restore(*out.found, state) : Result<void>();
    if (restored) {
      out.stepped_over = stepped_over;
      return out;
    }
    EXPECT_EQ(restored.error().kind, ErrorKind::corrupt_checkpoint) << restored.error().message;
    EXPECT_FALSE(state.finished);
    stepped_over.push_back({out.found->path, restored.error().message});
  }
}

inline std::unique_ptr<CheckpointStore> open_store(const std::string& run_dir, const ModelGraph& graph,
                                                   std::unique_ptr<Files> files = create_posix_files(),
                                                   Bytes max_shard_size = Bytes{1 * gib}) {
  auto store = CheckpointStore::create(
      {.run_dir = run_dir, .buffer = Bytes{64 * kib}, .max_shard_size = max_shard_size}, graph,
      std::move(files));
  CHECK(store.has_value());
  return std::move(*store);
}

}  // namespace tidepool::test
