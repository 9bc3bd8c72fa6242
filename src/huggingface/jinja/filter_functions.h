// Filters, each as Jinja's documentation has it, with its argument names and defaults. filters.cpp has the
// table.
#pragma once

#include <optional>
#include <string_view>

#include "huggingface/jinja/operations.h"

namespace tidepool::jinja {

using FilterFunction = Result<Value>(const Value&, const Arguments&);

// Text.
FilterFunction filter_center, filter_escape, filter_force_escape, filter_format, filter_indent,
    filter_replace, filter_string, filter_title, filter_tojson, filter_trim, filter_truncate,
    filter_word_count;
// Numbers.
FilterFunction filter_absolute, filter_integer, filter_real, filter_round;
// Lists and mappings.
FilterFunction filter_attribute, filter_batch, filter_dictsort, filter_first, filter_groupby, filter_items,
    filter_join, filter_last, filter_list, filter_map, filter_max, filter_min, filter_reject,
    filter_reject_attribute, filter_reverse, filter_select, filter_select_attribute, filter_slice,
    filter_sort, filter_sum, filter_unique;

// RETURNS: none if the text is not such a number as Python's int() and float() read.
std::optional<i64> integer_in(std::string_view text, int base = 10);
std::optional<double> real_in(std::string_view text);

}  // namespace tidepool::jinja
