#include "machine/product_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "tidepool/read_file.h"
#include "tidepool/write_file.h"

namespace tidepool {
namespace {

constexpr u64 bytes_max = 16 * mib;
constexpr std::string_view header =
    "# What a clock chose for matrix products on GPUs: an algorithm of cuBLASLt, and the product.\n"
    "# Without this file algorithms are timed again, and numbers may differ in their last bits.\n";

constexpr u64 digits_min = 16;  // fewer may be a word

bool is_algorithm(std::string_view text) {
  return text.size() >= digits_min && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

Result<ProductChoices> load_product_choices(const std::string& path) {
  ProductChoices choices;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return choices;
  TRY_ASSIGN(const std::string text, read_small_file(path, bytes_max, ErrorKind::usage));
  u64 line_number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    const u64 space = line.find(' ');
    if (space == line.npos || !is_algorithm(line.substr(0, space)))
      return Error{ErrorKind::usage,
                   fmt::format("{}, line {}: no algorithm and product, so this is no file of timed matrix "
                               "products. Remove it, and they are timed again",
                               path, line_number)};
    choices.emplace(line.substr(space + 1), line.substr(0, space));
  }
  return choices;
}

Result<void> save_product_choices(const std::string& path, ProductChoices choices) {
  TRY_ASSIGN(ProductChoices others, load_product_choices(path));
  choices.merge(others);
  std::string text(header);
  for (const auto& [product, algorithm] : choices) text += algorithm + " " + product + "\n";
  const std::string directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) TRY(make_directories(directory, FileUse::run));
  return replace_file(path, text, FileUse::run);
}

}  // namespace tidepool
