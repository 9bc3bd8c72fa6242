// Tables of everything that templates may call. Parser and evaluator share them, so the parser refuses
// exactly the names that the evaluator does not know.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

std::span<const std::string_view> filter_names();
std::span<const std::string_view> test_names();
std::span<const std::string_view> method_names();
std::optional<Function> function_named(std::string_view name);

}  // namespace tidepool::jinja
