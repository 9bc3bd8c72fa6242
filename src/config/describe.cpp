// Describes the schema in words: effective config, help, and a page of documentation.
#include <fmt/format.h>

#include <filesystem>

#include "base/text/path_text.h"
#include "config/schema.h"

namespace tidepool {

namespace {

constexpr size_t help_columns = 80;

std::string wrap(std::string_view text, size_t indent) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column > indent && column + 1 + word.size() > help_columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text = space == std::string_view::npos ? "" : text.substr(space + 1);
  }
  return out;
}

// Type and range of a value: "integer, steps, at least 1".
std::string values_text(const Field& field) {
  std::string out = type_name(field);
  if (!field.unit.empty()) out += fmt::format(", {}", field.unit);
  if (const std::string range = range_text(field); !range.empty() && range != "at least 0")
    out += ", " + range;
  if (field.automatic) out += ", or auto";
  if (!field.alias.empty()) out += fmt::format("; also called {}", field.alias);
  if (const std::string families = families_text(field); !families.empty())
    out += fmt::format("; of {}", families);
  return out;
}

template <class F>
void for_fields_of(const Section& section, F&& f) {
  for (const Field& field : schema()) {
    if (field.section == section.name) f(field);
  }
}

std::string escaped_bars(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

// Path next to output.dir, so that runs in one directory share the file.
std::string beside_output(const Config& config, const char* name) {
  const std::string& dir = config.output.dir;
  const size_t end = dir.find_last_not_of('/');
  const size_t slash = dir.rfind('/', end);
  return (end == dir.npos || slash == dir.npos ? "" : dir.substr(0, slash + 1)) + name;
}

}  // namespace

std::string to_yaml(const Config& config) {
  std::string out = "# The effective configuration: every key, defaults included.\n";
  for (const Section& section : sections()) {
    out += fmt::format("\n{}:  # {}\n", section.name, section.help);
    for_fields_of(section, [&](const Field& field) {
      if (!applies(field, config.model.family)) return;
      const std::string line = fmt::format("  {}: {}", field.key, value_yaml(field, config));
      out += fmt::format("{:<44}  # {}\n", line, field.help);
    });
  }
  return out;
}

std::string config_help() {
  std::string out =
      "A config is a YAML file of sections and keys. On the command line key=value\n"
      "overrides it; the section may be left out if only one section has the key.\n"
      "Sizes: KiB MiB GiB TiB are powers of 1024, KB MB GB TB of 1000. Numbers: 1e-5.\n"
      "Lists: a,b or [a, b]; quote an item that holds a comma: '[\"a,b\", c]'.\n";
  for (const Section& section : sections()) {
    out += fmt::format("\n{}:  {}\n", section.name, section.help);
    for_fields_of(section, [&](const Field& field) {
      out += fmt::format("  {:<31} {}\n", field.key, default_text(field));
      out += "      " + wrap(field.help, 6) + "\n";
      out += "      (" + wrap(values_text(field), 7) + ")\n";
    });
  }
  return out;
}

std::string config_markdown() {
  std::string out =
      "# Config keys\n\nMade by `tidepool config --markdown`. Sizes: KiB, MiB, GiB and TiB are powers of "
      "1024, "
      "KB, MB, GB and TB\nof 1000. Any key can be overridden on the command line: "
      "`train.learning_rate=1e-4`, or "
      "`learning_rate=1e-4`. A list is\nwritten `target_modules=q_proj,v_proj`, or in brackets, with quotes "
      "around an item that holds a "
      "comma:\n`'data.train=[\"a,b.txt\", c.txt]'`.\n";
  for (const Section& section : sections()) {
    out += fmt::format("\n## {}\n\n{}.\n\n| key | default | meaning | values |\n|---|---|---|---|\n",
                       section.name, section.help);
    for_fields_of(section, [&](const Field& field) {
      out += fmt::format("| `{}` | {} | {} | {} |\n", field.key, escaped_bars(default_text(field)),
                         field.help, escaped_bars(values_text(field)));
    });
  }
  return out;
}

std::string data_cache_directory(const Config& config) {
  return config.data.cache.empty() ? beside_output(config, "data-cache") : config.data.cache;
}

// Beside the directory itself: it may be named by a link, or be the working directory.
std::string product_file(const Config& config) {
  const std::string dir = canonical_path(without_slashes(config.output.dir));
  return std::filesystem::path(dir).parent_path() / "tuned-products.txt";
}

std::string kept_model_directory(const Config& config) { return config.output.dir + "/model-files"; }

std::string swap_directory(const Config& config) {
  return config.memory.swap_dir.empty() ? config.output.dir + "/swap" : config.memory.swap_dir;
}

}  // namespace tidepool
