// Filters of lists and mappings.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "huggingface/jinja/filter_functions.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

Result<bool> is_less(const Value& x, const Value& y, Work& work) { return compare("<", x, y, work); }

// Looks up an attribute of an attribute: "a.b", or the place in a list: "0", 0.
Result<Value> field_at(Value v, const Value& path, Work& work, const Value* otherwise = nullptr) {
  if (!path.text()) return path.is_none() ? Result<Value>(v) : item_of(v, path, work);
  const std::string& text = *path.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    const auto at = number ? integer_in(name) : std::nullopt;
    TRY(work.spend(1));
    TRY_ASSIGN(v, item_of(v, at ? Value(*at) : Value(name), work));
    if (otherwise && v.is_undefined()) v = *otherwise;
    begin = end + 1;
  }
  return v;
}

Value without_case(const Value& v, bool exact) { return v.text() && !exact ? Value(lower(*v.text())) : v; }

// The attribute that a filter is given, or the element itself.
Result<Value> key_of(const Value& item, const Value* attribute, bool exact, Work& work) {
  if (item.text()) TRY(pay_shallow(work, item));
  if (attribute == nullptr || attribute->is_none()) return without_case(item, exact);
  TRY_ASSIGN(const Value field, field_at(item, *attribute, work));
  return without_case(field, exact);
}

struct Keyed {
  Value key, item;
};

// Sorts as Python does, where equal keys keep their order.
Result<List> sorted(std::vector<Keyed> keyed, bool reverse, Work& work) {
  // Keys are compared with all others in the end: keys without an order are found before.
  u64 weight = 0;
  for (size_t i = 0; i < keyed.size(); ++i) {
    weight += keyed[i].key.weight();
    if (i > 0) TRY(is_less(keyed[i].key, keyed[i - 1].key, work));
    if (i > 0) TRY(is_less(keyed[0].key, keyed[i].key, work));
  }
  TRY(work.spend_bytes(weight * static_cast<u64>(std::bit_width(keyed.size()))));
  bool failed = false;
  const auto less = [&](const Keyed& x, const Keyed& y) {
    Work paid(~u64{0});
    const Result<bool> result = is_less(reverse ? y.key : x.key, reverse ? x.key : y.key, paid);
    failed |= !result;
    return result && *result;
  };
  std::ranges::stable_sort(keyed, less);
  if (failed) return fault("the elements have no order");
  List out;
  for (Keyed& k : keyed) out.push_back(std::move(k.item));
  return out;
}

// Keys by which Python finds equal elements: 1, 1.0 and true are one. Error: the value cannot be a key.
Result<std::string> hashed(const Value& v) {
  if (v.boolean()) return fmt::format("n{}", *v.boolean() ? 1 : 0);
  if (v.integer()) return fmt::format("n{}", *v.integer());
  if (v.real()) {
    const double d = *v.real();
    return d > -0x1p63 && d < 0x1p63 && d == static_cast<double>(static_cast<i64>(d))
               ? fmt::format("n{}", static_cast<i64>(d))
               : fmt::format("n{}", d);
  }
  if (v.text()) return "t" + *v.text();
  if (v.is_none() || v.is_undefined() || v.large_integer())
    return fmt::format("{} {}", type_name(v), to_repr(v));
  if (!v.is_tuple()) return fault(fmt::format("a {} cannot be compared with the others", type_name(v)));
  std::string out = "(";
  for (const Value& item : *v.list()) {
    TRY_ASSIGN(const std::string part, hashed(item));
    out += fmt::format("{}:{},", part.size(), part);
  }
  return out;
}

// Filters select, reject, selectattr and rejectattr. Keeps the elements for which the test holds; without a
// test, those that are true. `by_attribute` tests an attribute instead of the element.
Result<Value> chosen(const Value& v, const Arguments& a, bool by_attribute, bool wanted) {
  if (!is_true(v)) return Value::iterator({});
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  if (!a.names.empty()) return fault("takes no named arguments");
  const size_t test_at = by_attribute ? 1 : 0;
  std::string test;
  if (by_attribute && a.places.empty()) return fault("the name of an attribute is missing");
  if (a.places.size() > test_at) {
    TRY_ASSIGN(test, a.text(test_at, "test"));
  }
  const Arguments rest{
      a.work,
      {a.places.begin() + static_cast<i64>(std::min(a.places.size(), test_at + 1)), a.places.end()},
      {}};
  List out;
  for (const Value& item : *items) {
    TRY(a.work.spend(1));
    Value asked = item;
    if (by_attribute) {
      TRY_ASSIGN(asked, field_at(item, a.places[0], a.work));
    }
    bool passes = is_true(asked);
    if (!test.empty()) {
      TRY_ASSIGN(passes, apply_test(test, asked, rest));
    }
    if (passes == wanted) out.push_back(item);
  }
  return Value::iterator(std::move(out));
}

Result<Value> extreme(const Value& v, const Arguments& a, bool greatest) {
  TRY(a.check({"case_sensitive", "attribute"}));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  if (items->empty()) return Value(Undefined{"there is no such element: the list is empty"});
  std::optional<Keyed> best;
  for (const Value& item : *items) {
    TRY(a.work.spend(1));
    TRY_ASSIGN(Value key,
               key_of(item, a.get(1, "attribute"), a.truth_or(0, "case_sensitive", false), a.work));
    bool better = !best;
    if (best) {
      TRY_ASSIGN(better, greatest ? is_less(best->key, key, a.work) : is_less(key, best->key, a.work));
    }
    if (better) best = Keyed{std::move(key), item};
  }
  return best->item;
}

}  // namespace

Result<Value> filter_attribute(const Value& v, const Arguments& a) {
  TRY(a.check({"name"}));
  TRY_ASSIGN(const std::string name, a.text(0, "name"));
  if (v.dict()) return Value(Undefined{fmt::format("'{}' is no attribute of a dict", name)});
  return attribute_of(v, name);
}

Result<Value> filter_join(const Value& v, const Arguments& a) {
  TRY(a.check({"d", "attribute"}));
  std::string between;
  if (const Value* given = a.get(0, "d")) {
    TRY_ASSIGN(between, text_for(*given, a.work));
  }
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  const Value* attribute = a.get(1, "attribute");
  List fields;
  for (size_t i = 0; attribute && !attribute->is_none() && i < items->size(); ++i) {
    TRY_ASSIGN(Value field, field_at((*items)[i], *attribute, a.work));
    fields.push_back(std::move(field));
  }
  TRY_ASSIGN(std::string text, joined(attribute && !attribute->is_none() ? fields : *items, between, a.work));
  return Value(std::move(text));
}

Result<Value> filter_first(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  const Undefined none{"there is no first item: the list is empty"};
  if (Iterator* iterator = v.iterator())
    return iterator->at < iterator->items->size() ? (*iterator->items)[iterator->at++] : Value(none);
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  return items->empty() ? Value(none) : items->front();
}

Result<Value> filter_last(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  if (v.iterator()) return fault("an iterator has no last item; make a list of it with | list");
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  return items->empty() ? Value(Undefined{"there is no last item: the list is empty"}) : items->back();
}

Result<Value> filter_list(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  return Value(*items);
}

Result<Value> filter_items(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  if (v.is_undefined()) return Value::iterator({});
  if (!v.dict()) return fault(fmt::format("must be a mapping, not {}", type_name(v)));
  List out;
  for (const auto& [key, value] : v.dict()->entries()) out.push_back(Value::tuple({Value(key), value}));
  return Value::iterator(std::move(out));
}

Result<Value> filter_reverse(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  const Value step(i64{-1});
  if (v.text()) return slice_of(v, nullptr, nullptr, &step, a.work);
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  List out(items->rbegin(), items->rend());
  return v.iterator() ? Value(std::move(out)) : Value::iterator(std::move(out));
}

Result<Value> filter_map(const Value& v, const Arguments& a) {
  if (!is_true(v)) return Value::iterator({});
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  List out;
  if (const Value* path = a.named("attribute"); path && a.places.empty()) {
    for (const auto& [name, value] : a.names) {
      if (name != "attribute" && name != "default")
        return fault(fmt::format("argument '{}' is unknown", name));
    }
    const Value* otherwise = a.named("default");
    if (otherwise && otherwise->is_none()) otherwise = nullptr;
    for (const Value& item : *items) {
      TRY_ASSIGN(Value field, field_at(item, *path, a.work, otherwise));
      out.push_back(std::move(field));
    }
    return Value::iterator(std::move(out));
  }
  if (a.places.empty()) return fault("the filter's name is missing; give it first, as in map('upper')");
  TRY_ASSIGN(const std::string name, a.text(0, "filter"));
  Arguments rest{a.work, {a.places.begin() + 1, a.places.end()}, a.names};
  for (const Value& item : *items) {
    TRY(a.work.spend(2));
    TRY_ASSIGN(Value made, apply_filter(name, item, rest));
    out.push_back(std::move(made));
  }
  return Value::iterator(std::move(out));
}

Result<Value> filter_select(const Value& v, const Arguments& a) { return chosen(v, a, false, true); }
Result<Value> filter_reject(const Value& v, const Arguments& a) { return chosen(v, a, false, false); }
Result<Value> filter_select_attribute(const Value& v, const Arguments& a) { return chosen(v, a, true, true); }
Result<Value> filter_reject_attribute(const Value& v, const Arguments& a) {
  return chosen(v, a, true, false);
}

Result<Value> filter_min(const Value& v, const Arguments& a) { return extreme(v, a, false); }
Result<Value> filter_max(const Value& v, const Arguments& a) { return extreme(v, a, true); }

Result<Value> filter_sum(const Value& v, const Arguments& a) {
  TRY(a.check({"attribute", "start"}));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  const Value *attribute = a.get(0, "attribute"), *start = a.get(1, "start");
  Value sum = start ? *start : Value(i64{0});
  if (sum.text()) return fault("texts have no sum; use join");
  for (const Value& item : *items) {
    TRY(a.work.spend(1));
    Value field = item;
    if (attribute && !attribute->is_none()) {
      TRY_ASSIGN(field, field_at(item, *attribute, a.work));
    }
    TRY_ASSIGN(sum, binary("+", sum, field, a.work));
  }
  return sum;
}

Result<Value> filter_sort(const Value& v, const Arguments& a) {
  TRY(a.check({"reverse", "case_sensitive", "attribute"}));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  const bool exact = a.truth_or(1, "case_sensitive", false);
  const Value* attribute = a.get(2, "attribute");
  // Several attributes with commas between them; the key is a list of all.
  std::vector<Value> attributes;
  if (attribute && attribute->text()) {
    const std::string& text = *attribute->text();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      attributes.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  } else {
    attributes.push_back(attribute ? *attribute : Value(None{}));
  }
  std::vector<Keyed> keyed;
  for (const Value& item : *items) {
    List key;
    for (const Value& one : attributes) {
      TRY(a.work.spend(1));
      TRY_ASSIGN(Value part, key_of(item, &one, exact, a.work));
      key.push_back(std::move(part));
    }
    keyed.push_back({Value(std::move(key)), item});
  }
  TRY_ASSIGN(List out, sorted(std::move(keyed), a.truth_or(0, "reverse", false), a.work));
  return Value(std::move(out));
}

Result<Value> filter_dictsort(const Value& v, const Arguments& a) {
  TRY(a.check({"case_sensitive", "by", "reverse"}));
  if (!v.dict()) return fault(fmt::format("must be a mapping, not {}", type_name(v)));
  TRY_ASSIGN(const std::string by, a.text_or(1, "by", "key"));
  if (by != "key" && by != "value") return fault("sorts by key or value only");
  const bool exact = a.truth_or(0, "case_sensitive", false);
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : v.dict()->entries()) {
    TRY(a.work.spend(1));
    Value name(key);
    keyed.push_back({without_case(by == "key" ? name : value, exact), Value::tuple({name, value})});
  }
  TRY_ASSIGN(List out, sorted(std::move(keyed), a.truth_or(2, "reverse", false), a.work));
  return Value(std::move(out));
}

Result<Value> filter_groupby(const Value& v, const Arguments& a) {
  TRY(a.check({"attribute", "default", "case_sensitive"}));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  const Value *attribute = a.get(0, "attribute"), *otherwise = a.get(1, "default");
  if (attribute == nullptr) return fault("the name of an attribute is missing");
  if (otherwise && otherwise->is_none()) otherwise = nullptr;
  const bool exact = a.truth_or(2, "case_sensitive", false);
  const auto key_of_item = [&](const Value& item) { return field_at(item, *attribute, a.work, otherwise); };
  std::vector<Keyed> keyed;
  for (const Value& item : *items) {
    TRY(a.work.spend(1));
    TRY_ASSIGN(const Value key, key_of_item(item));
    keyed.push_back({without_case(key, exact), item});
  }
  TRY_ASSIGN(const List in_order, sorted(std::move(keyed), false, a.work));
  List out, group;
  Value name, folded;
  const auto close = [&] {
    if (!group.empty())
      out.push_back(Value::looking(Value(List{name, Value(std::move(group))}), Look::group));
    group.clear();
  };
  for (const Value& item : in_order) {
    TRY_ASSIGN(const Value key, key_of_item(item));
    if (group.empty() || !equal(folded, without_case(key, exact))) {
      close();
      name = key;
      folded = without_case(key, exact);
    }
    group.push_back(item);
  }
  close();
  return Value(std::move(out));
}

Result<Value> filter_unique(const Value& v, const Arguments& a) {
  TRY(a.check({"case_sensitive", "attribute"}));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  const bool exact = a.truth_or(0, "case_sensitive", false);
  std::set<std::string> keys;
  List out;
  for (const Value& item : *items) {
    TRY(a.work.spend(2));
    TRY_ASSIGN(const Value key, key_of(item, a.get(1, "attribute"), exact, a.work));
    TRY(pay_deep(a.work, key));
    TRY_ASSIGN(std::string hash, hashed(key));
    if (keys.insert(std::move(hash)).second) out.push_back(item);
  }
  return Value::iterator(std::move(out));
}

Result<Value> filter_batch(const Value& v, const Arguments& a) {
  TRY(a.check({"linecount", "fill_with"}));
  TRY_ASSIGN(const i64 size, a.integer_or(0, "linecount", 0));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  if (size < 1 || size > 100'000) return fault("the size of a batch must be from 1 to 100000");
  const Value* fill = a.get(1, "fill_with");
  List out;
  for (size_t begin = 0; begin < items->size(); begin += static_cast<size_t>(size)) {
    TRY(a.work.spend(3));
    const size_t end = std::min(begin + static_cast<size_t>(size), items->size());
    List batch(items->begin() + static_cast<i64>(begin), items->begin() + static_cast<i64>(end));
    while (fill && !fill->is_none() && batch.size() < static_cast<size_t>(size)) batch.push_back(*fill);
    out.emplace_back(std::move(batch));
  }
  return Value::iterator(std::move(out));
}

Result<Value> filter_slice(const Value& v, const Arguments& a) {
  TRY(a.check({"slices", "fill_with"}));
  TRY_ASSIGN(const i64 given, a.integer_or(0, "slices", 0));
  TRY_ASSIGN(const auto items, elements_of(v, a.work));
  if (given < 1 || given > 100'000) return fault("the number of slices must be from 1 to 100000");
  TRY(a.work.spend(static_cast<u64>(given)));
  const size_t slices = static_cast<size_t>(given), each = items->size() / slices,
               longer = items->size() % slices;
  const Value* fill = a.get(1, "fill_with");
  List out;
  size_t begin = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    List slice(items->begin() + static_cast<i64>(begin), items->begin() + static_cast<i64>(end));
    if (fill && !fill->is_none() && i >= longer) slice.push_back(*fill);
    out.emplace_back(std::move(slice));
    begin = end;
  }
  return Value::iterator(std::move(out));
}

}  // namespace tidepool::jinja
