#include "session/state_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/json/text.h"
#include "optimizers/optimizer.h"
#include "tidepool/update_units.h"

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

// A slot's name, which may be that of another rule's slot.
std::string key_of(const StateSlots& slots, Kind kind) {
  std::string key(slots.name(kind));
  u32 others = 0;
  slots.each([&](Kind slot) { others += slot < kind && slots.name(slot) == slots.name(kind); });
  return others == 0 ? key : fmt::format("{}.{}", key, others);
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

bool read_optim(const json::value& from, std::vector<Optim>& out) {
  const auto at = std::ranges::find_if(optim_names, [&](std::string_view name) {
    return from.is_string() && std::string_view(from.get_string()) == name;
  });
  if (at == optim_names.end()) return false;
  out.push_back(static_cast<Optim>(at - optim_names.begin()));
  return true;
}

// More than any model has: a file that says more would make sums of bytes overflow.
constexpr u64 window_elements_max = u64{1} << 44, cuts_max = u64{1} << 31;

json::value optim_json(Optim optim) { return json::string(std::string(name(optim))); }

StateSlots slots_of(Precision precision, const std::vector<Optim>& optims) {
  std::vector<UpdateRule> rules;
  for (const Optim optim : optims) rules.push_back({.optim = optim});
  return state_slots(precision, rules);
}

// A window of one unit has no list of units.
void describe_units(const std::vector<StateTable::Unit>& units, json::object& out) {
  if (units.size() == 1 && units[0].rule == 0) {
    out["cut_elements"] = units[0].cut_elements;
    return;
  }
  json::array list;
  for (const StateTable::Unit& unit : units)
    list.push_back(
        json::object{{"begin", unit.begin}, {"cut_elements", unit.cut_elements}, {"rule", unit.rule}});
  out["units"] = std::move(list);
}

bool read_units(const json::value& from, u64 rules, Counts& counts, StateTable::OfWindow& out) {
  const json::value* list = member(from, "units");
  if (list == nullptr) {
    out.units = {{.cut_elements = counts.of(from, "cut_elements")}};
  } else if (list->is_array()) {
    for (const json::value& unit : list->get_array())
      out.units.push_back({.begin = counts.of(unit, "begin"),
                           .cut_elements = counts.of(unit, "cut_elements"),
                           .rule = static_cast<u8>(std::min<u64>(counts.of(unit, "rule"), 255))});
  }
  u64 cuts = 0;
  for (u64 i = 0; i < out.units.size(); ++i) {
    const StateTable::Unit& unit = out.units[i];
    const bool aligned =
        unit.begin % cut_alignment_elements == 0 && unit.cut_elements % cut_alignment_elements == 0;
    if (unit.cut_elements == 0 || !aligned || unit.rule >= rules || unit.begin >= out.end_of(i)) return false;
    cuts += div_up(out.end_of(i) - unit.begin, unit.cut_elements);
  }
  return !out.units.empty() && out.units[0].begin == 0 && out.elements <= window_elements_max &&
         cuts <= cuts_max;
}

u64 tensor_elements(SlotAxis axis, const StateTable::OfTensor& t) {
  return slot_elements(axis, t.elements, t.rows, t.columns);
}

// True if a slot has an element for each row or each column, so that shapes matter.
bool has_factors(const StateSlots& slots) {
  bool any = false;
  slots.each([&](Kind slot) { any |= slots.axis(slot) != SlotAxis::elements; });
  return any;
}

// True if the tensor lies in the window, in units of one rule, and has the elements of its rows and columns.
bool holds(const StateTable::OfWindow& window, const StateTable::OfTensor& t) {
  if (t.begin > window.elements || t.elements > window.elements - t.begin) return false;
  if (t.rows > 0 && (t.elements % t.rows != 0 || t.elements / t.rows != t.columns)) return false;
  const u8 rule = window.rule_at(t.begin);
  for (const StateTable::Unit& unit : window.units)
    if (unit.begin > t.begin && unit.begin < t.begin + t.elements && unit.rule != rule) return false;
  return true;
}

bool holds_its_tensors(const StateTable::OfWindow& window) {
  for (u64 i = 0; i < window.tensors.size(); ++i) {
    if (!holds(window, window.tensors[i])) return false;
    if (i > 0 && window.tensors[i].begin < window.tensors[i - 1].begin + window.tensors[i - 1].elements)
      return false;
  }
  return true;
}

// True if a unit is one cut where a slot of its rule has rows or columns of whole tensors.
bool has_whole_units(const StateTable::OfWindow& window, const StateSlots& slots) {
  for (u64 i = 0; i < window.units.size(); ++i) {
    bool whole = false;
    slots.each_of_rule(window.units[i].rule,
                       [&](Kind slot) { whole |= slots.axis(slot) != SlotAxis::elements; });
    if (whole && window.cuts_of(i) > 1) return false;
  }
  return true;
}

// True if all places lie in a slot of the file, and their marks in a commit.
bool has_its_places(const StateTable& table) {
  const u64 marks = table.marks();
  bool all = true;
  each_kind(table.state_slots, [&](Kind kind) {
    for (const StateTable::OfWindow& window : table.windows) {
      const StateTable::Extent extent = window.extent(table.state_slots, kind);
      const StateTable::Place& place = window.places[static_cast<u32>(kind)];
      all &= extent.cuts == 0 ||
             (place.mark + u64{extent.cuts} <= marks && place.first_chunk <= ~u32{0} &&
              place.offset <= table.second_slot && extent.bytes <= table.second_slot - place.offset);
    }
  });
  return all;
}

}  // namespace

StateTable::Cut StateTable::OfWindow::cut_at(u64 element, const StateSlots& slots, Kind kind) const {
  const std::vector<SlotRange> ranges = unit_ranges(slots.axis(kind));
  CHECK(element < ranges.back().end(), element, ranges.back().end());
  Cut cut;
  u64 i = 0;
  for (; ranges[i].end() <= element; ++i) {
    const u32 cuts = cuts_of(i);
    cut.number += cuts;
    const u64 bytes = slots.has(units[i].rule, kind) ? bytes_of(i, ranges[i], slots, kind) : 0;
    if (bytes > 0) cut.before.bytes += bytes, cut.before.cuts += cuts;
  }
  const Unit& unit = units[i];
  if (slots.axis(kind) != SlotAxis::elements) {
    cut.begin = ranges[i].begin, cut.elements = ranges[i].elements;
    return cut;
  }
  const u32 within = static_cast<u32>((element - unit.begin) / unit.cut_elements);
  cut.begin = unit.begin + within * unit.cut_elements;
  cut.elements = std::min(unit.cut_elements, end_of(i) - cut.begin);
  cut.number += within;
  cut.before.cuts += within, cut.before.bytes += within * slots.chunk_bytes(kind, unit.cut_elements);
  return cut;
}

std::vector<SlotRange> StateTable::OfWindow::unit_ranges(SlotAxis axis) const {
  std::vector<SlotRange> out;
  u64 tensor = 0, begin = 0;
  for (u64 i = 0; i < units.size(); ++i) {
    SlotRange range = {.begin = begin};
    if (axis == SlotAxis::elements) range = {units[i].begin, end_of(i) - units[i].begin};
    for (; axis != SlotAxis::elements && tensor < tensors.size() && tensors[tensor].begin < end_of(i);
         ++tensor)
      range.elements += tensor_elements(axis, tensors[tensor]);
    begin = range.end();
    out.push_back(range);
  }
  return out;
}

SlotRange StateTable::OfWindow::tensor_range(SlotAxis axis, u64 tensor) const {
  SlotRange range = {tensors[tensor].begin, tensor_elements(axis, tensors[tensor])};
  if (axis == SlotAxis::elements) return range;
  range.begin = 0;
  for (u64 i = 0; i < tensor; ++i) range.begin += tensor_elements(axis, tensors[i]);
  return range;
}

u64 StateTable::OfWindow::bytes_of(u64 i, const SlotRange& range, const StateSlots& slots, Kind kind) const {
  if (slots.axis(kind) != SlotAxis::elements) return slots.chunk_bytes(kind, range.elements);
  const u64 whole = cuts_of(i) - 1, size = units[i].cut_elements;
  return whole * slots.chunk_bytes(kind, size) +
         slots.chunk_bytes(kind, end_of(i) - units[i].begin - whole * size);
}

StateTable::Extent StateTable::OfWindow::extent(const StateSlots& slots, Kind kind) const {
  const std::vector<SlotRange> ranges = unit_ranges(slots.axis(kind));
  Extent all;
  for (u64 i = 0; i < units.size(); ++i) {
    const u64 bytes = slots.has(units[i].rule, kind) ? bytes_of(i, ranges[i], slots, kind) : 0;
    if (bytes > 0) all.bytes += bytes, all.cuts += cuts_of(i);
  }
  return all;
}

u64 StateTable::marks() const {
  u64 sum = 0;
  each_kind(state_slots, [&](Kind kind) {
    for (const OfWindow& window : windows) sum += window.extent(state_slots, kind).cuts;
  });
  return sum;
}

bool StateTable::has_slots_of(const FoundState& found) const {
  if (versions > journal_slots_max(found.head.format) || second_slot > found.head.frames_bytes / versions)
    return false;
  return std::ranges::all_of(found.commit.chunks,
                             [&](const ChunkMark& mark) { return mark.slot < versions; });
}

Bytes StateTable::bytes() const {
  u64 sum = 0;
  each_kind(state_slots, [&](Kind kind) {
    for (const OfWindow& window : windows) sum += window.extent(state_slots, kind).bytes;
  });
  return Bytes{sum};
}

StateTable make_state_table(const Plan& plan, const ModelGraph& graph) {
  CHECK(plan.versions > 1, plan.versions);
  StateTable table{.precision = plan.precision,
                   .rules = {},
                   .state_slots = plan.state_slots,
                   .chunk_elements = plan.chunk_elements,
                   .versions = plan.versions,
                   .second_slot = plan.second_slot.value};
  for (const UpdateRule& rule : graph.rules) table.rules.push_back(rule.optim);
  std::vector<u32> rows(graph.windows.size(), none);
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    if (!graph.windows[w].trainable) continue;
    rows[w] = static_cast<u32>(table.windows.size());
    table.windows.push_back({.name = graph.windows[w].name,
                             .elements = graph.windows[w].elements,
                             .units = {},
                             .tensors = {},
                             .places = {}});
    for (const Tensor& t : graph.windows[w].tensors) {
      StateTable::OfTensor of{.name = t.name, .begin = t.window_offset, .elements = t.elements};
      if (has_factors(plan.state_slots) && is_matrix(t.shape)) of.rows = t.shape[0], of.columns = t.shape[1];
      table.windows.back().tensors.push_back(std::move(of));
    }
  }
  std::vector<std::vector<UpdateUnit>> units;
  for (const Window& window : graph.windows) units.push_back(update_units(graph, window));
  u32 mark = 0, kind = none;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    if (!plan.is_committed(ChunkId{id})) continue;
    const Chunk& chunk = plan.chunks[id];
    StateTable::OfWindow& window = table.windows[rows[chunk.window]];
    const bool begins_unit = std::ranges::any_of(
        units[chunk.window], [&](const UpdateUnit& unit) { return unit.begin == chunk.element_begin; });
    if (chunk.kind == Kind::param && begins_unit)
      window.units.push_back({chunk.element_begin, chunk.elements, chunk.rule});
    const u32 row = static_cast<u32>(chunk.kind) + kind_count * chunk.window;
    if (row != std::exchange(kind, row))
      window.places[static_cast<u32>(chunk.kind)] = {
          .first_chunk = id - chunk.cut, .offset = plan.slots[id].offset, .mark = mark};
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
      kinds[key_of(table.state_slots, kind)] =
          json::object{{"first_chunk", place.first_chunk}, {"offset", place.offset}, {"mark", place.mark}};
    });
    json::array tensors;
    for (const StateTable::OfTensor& t : window.tensors) {
      json::object of{{"name", t.name}, {"begin", t.begin}, {"elements", t.elements}};
      if (t.rows > 0) of["rows"] = t.rows, of["columns"] = t.columns;
      tensors.push_back(std::move(of));
    }
    json::object all{{"name", window.name}, {"elements", window.elements}};
    describe_units(window.units, all);
    all["kinds"] = std::move(kinds);
    all["tensors"] = std::move(tensors);
    windows.push_back(std::move(all));
  }
  json::object all{{"run", owner.run},
                   {"branch", owner.branch},
                   {"precision", json::string(std::string(name(table.precision)))},
                   {"chunk_elements", table.chunk_elements},
                   {"second_slot", table.second_slot},
                   {"windows", std::move(windows)}};
  if (table.versions != 2) all["versions"] = table.versions;  // files of format 1 lack it
  if (table.rules.size() > 1) {
    json::array rules;
    for (const Optim optim : table.rules) rules.push_back(optim_json(optim));
    all["optim"] = std::move(rules);
  } else if (table.rules[0] != Optim::adamw_torch) {  // files of earlier versions lack it
    all["optim"] = optim_json(table.rules[0]);
  }
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
  if (const json::value* optim = member(all, "optim")) {
    table.rules.clear();
    if (!optim->is_array()) known &= read_optim(*optim, table.rules);
    for (u64 i = 0; optim->is_array() && i < optim->get_array().size(); ++i)
      known &= read_optim(optim->get_array()[i], table.rules);
    u64 slots = table.precision == Precision::fp32 ? 0 : 1;  // of all rules together
    for (auto rule = table.rules.begin(); rule != table.rules.end(); ++rule)
      if (std::find(table.rules.begin(), rule, *rule) == rule) slots += optimizer(*rule).slots.size();
    known &= !table.rules.empty() && table.rules.size() <= update_rules_max && slots <= state_slots_max;
    if (!known) table.rules = {Optim::adamw_torch};
  }
  table.state_slots = slots_of(table.precision, table.rules);
  known &= table.versions > 0;
  const json::value* windows = member(all, "windows");
  if (windows != nullptr && windows->is_array())
    for (const json::value& from : windows->get_array()) {
      StateTable::OfWindow window{.name = counts.text(from, "name"),
                                  .elements = counts.of(from, "elements"),
                                  .units = {},
                                  .tensors = {},
                                  .places = {}};
      const json::value* tensors = member(from, "tensors");
      counts.ok &= tensors != nullptr && tensors->is_array();
      if (counts.ok)
        for (const json::value& t : tensors->get_array()) {
          StateTable::OfTensor of{.name = counts.text(t, "name"),
                                  .begin = counts.of(t, "begin"),
                                  .elements = counts.of(t, "elements")};
          if (member(t, "rows") != nullptr)
            of.rows = counts.of(t, "rows"), of.columns = counts.of(t, "columns");
          window.tensors.push_back(std::move(of));
        }
      if (!read_units(from, table.rules.size(), counts, window) || !holds_its_tensors(window) ||
          !has_whole_units(window, table.state_slots)) {
        known = false;
        break;
      }
      const json::value* kinds = member(from, "kinds");
      each_kind(table.state_slots, [&](Kind kind) {
        const json::value* place =
            kinds == nullptr ? nullptr : member(*kinds, key_of(table.state_slots, kind));
        if (place == nullptr) return static_cast<void>(counts.ok = false);
        window.places[static_cast<u32>(kind)] = {
            .first_chunk = counts.of(*place, "first_chunk"),
            .offset = counts.of(*place, "offset"),
            .mark = static_cast<u32>(std::min<u64>(counts.of(*place, "mark"), ~u32{0}))};
      });
      table.windows.push_back(std::move(window));
    }
  if (counts.ok && known && !table.windows.empty() && has_its_places(table)) return out;
  return Error{ErrorKind::bad_input,
               fmt::format("{}: its description of the committed state is not one that this "
                           "Tidepool writes. Nothing was changed",
                           path)};
}

std::string difference_of_models(const StateTable& table, const ModelGraph& graph) {
  if (table.precision != graph.precision)
    return fmt::format("train.precision is {}, and was {}", name(graph.precision), name(table.precision));
  // State in another format of the same rule is converted.
  const auto same = [](Optim a, Optim b) { return optimizer(a).base == optimizer(b).base; };
  const bool has_shapes = has_factors(table.state_slots);
  struct Then {
    u64 elements, rows;
    Optim optim;
  };
  std::map<std::string, Then> then;  // by name
  for (const StateTable::OfWindow& window : table.windows)
    for (const StateTable::OfTensor& t : window.tensors)
      then[t.name] = {t.elements, t.rows, table.rules[window.rule_at(t.begin)]};
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors) {
      if (!window.trainable) continue;
      const auto at = then.find(tensor.name);
      if (at == then.end()) return fmt::format("{} is trained, and was not", tensor.name);
      if (at->second.elements != tensor.elements)
        return fmt::format("{} has {} parameters, and had {}", tensor.name, tensor.elements,
                           at->second.elements);
      const u64 rows = slot_elements(SlotAxis::rows, tensor);
      if (has_shapes && at->second.rows != rows)
        return fmt::format("{} has {} rows, and had {}", tensor.name, rows, at->second.rows);
      const Optim optim = graph.rules[tensor.rule].optim, before = at->second.optim;
      if (!same(before, optim) && graph.rules.size() == 1 && table.rules.size() == 1)
        return fmt::format("train.optim is {}, and was {}", name(optim), name(before));
      if (!same(before, optim))
        return fmt::format("{} is trained by {}, and was by {} (train.optim, train.optim_groups)",
                           tensor.name, name(optim), name(before));
      then.erase(at);
    }
  return then.empty() ? "" : fmt::format("{} was trained, and is not", then.begin()->first);
}

}  // namespace tidepool
