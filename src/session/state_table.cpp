#include "session/state_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>

#include "base/check.h"
#include "base/json/text.h"
#include "optimizers/optimizer.h"

namespace tidepool {
namespace json = boost::json;
namespace {

template <class Fn>
void each_kind(const StateSlots& slots, Fn&& fn) {
  fn(Kind::param);
  slots.each(fn);
}

const json::value* member(const json::value& v, std::string_view key) {
  return v.is_object() ? v.get_object().if_contains(json::string_view(key.data(), key.size())) : nullptr;
}

// Reads counts and remembers whether all were there.
struct Counts {
  bool ok = true;
  u64 of(const json::value* v) {
    if (v != nullptr && v->is_int64() && v->get_int64() >= 0) return static_cast<u64>(v->get_int64());
    ok = false;
    return 0;
  }
  u64 of(const json::value& from, std::string_view key) { return of(member(from, key)); }
  std::string text(const json::value& from, std::string_view key) {
    const json::value* v = member(from, key);
    if (v != nullptr && v->is_string()) return std::string(std::string_view(v->get_string()));
    ok = false;
    return {};
  }
};

bool read_optim(const json::value& from, Optim& out) {
  const auto at = std::ranges::find_if(optim_names, [&](std::string_view name) {
    return from.is_string() && std::string_view(from.get_string()) == name;
  });
  if (at == optim_names.end()) return false;
  out = static_cast<Optim>(at - optim_names.begin());
  return true;
}

}  // namespace

u64 StateTable::marks() const {
  u64 sum = 0;
  each_kind(state_slots, [&](Kind) {
    for (const OfWindow& window : windows) sum += window.cuts();
  });
  return sum;
}

bool StateTable::has_slots_of(const FoundState& found) const {
  if (versions > journal_slots_max(found.head.format) || second_slot > found.head.frames_bytes / versions)
    return false;
  return std::ranges::all_of(found.record.chunks,
                             [&](const ChunkMark& mark) { return mark.slot < versions; });
}

Bytes StateTable::bytes() const {
  u64 sum = 0;
  each_kind(state_slots, [&](Kind kind) {
    for (const OfWindow& window : windows) sum += state_slots.bytes(kind, window.elements);
  });
  return Bytes{sum};
}

StateTable make_state_table(const Plan& plan, const ModelGraph& graph) {
  CHECK(plan.versions > 1, plan.versions);
  StateTable table{.precision = plan.precision,
                   .optim = graph.optim,
                   .state_slots = plan.state_slots,
                   .chunk_elements = plan.chunk_elements,
                   .versions = plan.versions,
                   .second_slot = plan.second_slot.value};
  std::vector<u32> rows(graph.windows.size(), none);
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    if (!graph.windows[w].trainable) continue;
    rows[w] = static_cast<u32>(table.windows.size());
    table.windows.push_back(
        {.name = graph.windows[w].name, .elements = graph.windows[w].elements, .tensors = {}, .places = {}});
    for (const Tensor& t : graph.windows[w].tensors)
      table.windows.back().tensors.push_back({t.name, t.window_offset, t.elements});
  }
  u32 mark = 0;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    if (!plan.is_recorded(ChunkId{id})) continue;
    const Chunk& chunk = plan.chunks[id];
    StateTable::OfWindow& window = table.windows[rows[chunk.window]];
    if (chunk.cut == 0) {
      window.cut_elements = chunk.elements;
      window.places[static_cast<u32>(chunk.kind)] = {
          .first_chunk = id, .offset = plan.slots[id].offset, .mark = mark};
    }
    ++mark;
  }
  return table;
}

std::string describe_state(const StateTable& table, const StateOwner& owner) {
  json::array windows;
  for (const StateTable::OfWindow& window : table.windows) {
    json::object kinds;
    each_kind(table.state_slots, [&](Kind kind) {
      const StateTable::Place& place = window.places[static_cast<u32>(kind)];
      const std::string_view name = table.state_slots.name(kind);
      kinds[json::string_view(name.data(), name.size())] =
          json::object{{"first_chunk", place.first_chunk}, {"offset", place.offset}, {"mark", place.mark}};
    });
    json::array tensors;
    for (const StateTable::OfTensor& t : window.tensors)
      tensors.push_back(json::object{{"name", t.name}, {"begin", t.begin}, {"elements", t.elements}});
    windows.push_back(json::object{{"name", window.name},
                                   {"elements", window.elements},
                                   {"cut_elements", window.cut_elements},
                                   {"kinds", std::move(kinds)},
                                   {"tensors", std::move(tensors)}});
  }
  json::object all{{"run", owner.run},
                   {"branch", owner.branch},
                   {"precision", json::string(std::string(name(table.precision)))},
                   {"chunk_elements", table.chunk_elements},
                   {"second_slot", table.second_slot},
                   {"windows", std::move(windows)}};
  if (table.versions != 2) all["versions"] = table.versions;  // files of format 1 lack it
  if (table.optim != Optim::adamw_torch)                      // files of earlier versions lack it
    all["optim"] = json::string(std::string(name(table.optim)));
  return json_text(all, JsonStyle::line);
}

Result<DescribedState> parse_state(const std::string& description, const std::string& path) {
  TRY_ASSIGN(const json::value all, parse_json(description, ErrorKind::bad_input, path));
  Counts counts;
  DescribedState out{.table = {}, .owner = {.run = counts.text(all, "run"), .branch = {}}};
  if (member(all, "branch") != nullptr) out.owner.branch = counts.text(all, "branch");
  StateTable& table = out.table;
  const std::string precision = counts.text(all, "precision");
  bool known = false;
  for (const Precision p : {Precision::fp32, Precision::bf16, Precision::fp16})
    if (precision == name(p)) table.precision = p, known = true;
  table.chunk_elements = counts.of(all, "chunk_elements");
  table.second_slot = counts.of(all, "second_slot");
  if (const json::value* versions = member(all, "versions"))
    table.versions = static_cast<u32>(std::min<u64>(counts.of(versions), ~u32{0}));
  if (const json::value* optim = member(all, "optim")) known &= read_optim(*optim, table.optim);
  table.state_slots = state_slots(table.precision, table.optim);
  known &= table.versions > 0;
  const json::value* windows = member(all, "windows");
  if (windows != nullptr && windows->is_array())
    for (const json::value& from : windows->get_array()) {
      StateTable::OfWindow window{.name = counts.text(from, "name"),
                                  .elements = counts.of(from, "elements"),
                                  .cut_elements = counts.of(from, "cut_elements"),
                                  .tensors = {},
                                  .places = {}};
      const json::value* tensors = member(from, "tensors");
      counts.ok &= tensors != nullptr && tensors->is_array();
      if (counts.ok)
        for (const json::value& t : tensors->get_array())
          window.tensors.push_back({counts.text(t, "name"), counts.of(t, "begin"), counts.of(t, "elements")});
      known &= window.cut_elements > 0;
      const json::value* kinds = member(from, "kinds");
      each_kind(table.state_slots, [&](Kind kind) {
        const json::value* place = kinds == nullptr ? nullptr : member(*kinds, table.state_slots.name(kind));
        if (place == nullptr) return static_cast<void>(counts.ok = false);
        window.places[static_cast<u32>(kind)] = {.first_chunk = counts.of(*place, "first_chunk"),
                                                 .offset = counts.of(*place, "offset"),
                                                 .mark = static_cast<u32>(counts.of(*place, "mark"))};
      });
      table.windows.push_back(std::move(window));
    }
  if (counts.ok && known && !table.windows.empty()) return out;
  return Error{ErrorKind::bad_input,
               fmt::format("{}: its description of the recorded state is not one that this "
                           "Tidepool writes. Nothing was changed",
                           path)};
}

std::string difference_of_models(const StateTable& table, const ModelGraph& graph) {
  if (table.precision != graph.precision)
    return fmt::format("train.precision is {}, and was {}", name(graph.precision), name(table.precision));
  if (table.optim != graph.optim)
    return fmt::format("train.optim is {}, and was {}", name(graph.optim), name(table.optim));
  std::map<std::string, u64> then;  // elements by name
  for (const StateTable::OfWindow& window : table.windows)
    for (const StateTable::OfTensor& t : window.tensors) then[t.name] = t.elements;
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors) {
      if (!window.trainable) continue;
      const auto at = then.find(tensor.name);
      if (at == then.end()) return fmt::format("{} is trained, and was not", tensor.name);
      if (at->second != tensor.elements)
        return fmt::format("{} has {} parameters, and had {}", tensor.name, tensor.elements, at->second);
      then.erase(at);
    }
  return then.empty() ? "" : fmt::format("{} was trained, and is not", then.begin()->first);
}

}  // namespace tidepool
