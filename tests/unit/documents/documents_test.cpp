// Documents: every link has a target, and every command names existing options and keys.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cli/command.h"
#include "config/schema.h"
#include "tests/support/places.h"

namespace tidepool::documents_test {

namespace fs = std::filesystem;

const fs::path root = source_file("");

struct Line {
  std::string text;
  bool code = false;  // between two ```, or indented by four
};

std::vector<Line> document_lines(const fs::path& path) {
  std::vector<Line> out;
  std::ifstream in(path);
  bool fenced = false;
  for (std::string text; std::getline(in, text);) {
    if (text.starts_with("```")) {
      fenced = !fenced;
    } else {
      out.push_back({text, fenced || text.starts_with("    ")});
    }
  }
  EXPECT_FALSE(out.empty()) << path;
  return out;
}

// RETURNS: every page in the root and below docs, examples and tests.
std::vector<fs::path> all_documents() {
  std::vector<fs::path> out;
  const auto add = [&out](const fs::directory_entry& entry) {
    if (entry.is_regular_file() && entry.path().extension() == ".md") out.push_back(entry.path());
  };
  for (const auto& entry : fs::directory_iterator(root)) add(entry);
  for (const char* folder : {"docs", "examples", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry);
  std::ranges::sort(out);
  return out;
}

// RETURNS: a heading's name in links, as GitHub makes it.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      out += '-';
  }
  return out;
}

std::set<std::string> anchors_of(const fs::path& document) {
  static const std::regex heading("#+ (.*)");
  std::set<std::string> out;
  std::smatch found;
  for (const Line& line : document_lines(document))
    if (!line.code && std::regex_match(line.text, found, heading)) out.insert(anchor_of(found[1]));
  return out;
}

TEST(Documents, LinksLeadSomewhere) {
  static const std::regex link(R"(\]\(([^)#\s]*)(#[^)\s]*)?\))");
  u32 links = 0;
  for (const fs::path& document : all_documents()) {
    for (const Line& line : document_lines(document)) {
      if (line.code) continue;
      for (std::sregex_iterator it(line.text.begin(), line.text.end(), link), end; it != end; ++it) {
        const std::string path = (*it)[1], anchor = (*it)[2];
        if (path.starts_with("http")) continue;
        ++links;
        const fs::path target = path.empty() ? document : document.parent_path() / path;
        EXPECT_TRUE(fs::exists(target)) << document << ": " << it->str();
        if (!anchor.empty() && fs::exists(target)) {
          EXPECT_TRUE(anchors_of(target).contains(anchor.substr(1))) << document << ": " << it->str();
        }
      }
    }
  }
  EXPECT_GE(links, 100u);
}

// Messages and comments name documents without a link: "docs/data.md".
TEST(Documents, ExistWhereTheProgramNamesThem) {
  static const std::regex name(R"((docs/[a-z0-9-]+(/[a-z0-9-]+)?\.md)\b)");
  for (const char* folder : {"src", "include", "chunk_manager", "kernels", "io", "configs", "scripts"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        for (std::sregex_iterator it(line.begin(), line.end(), name), end; it != end; ++it) {
          const bool elsewhere = line.find("http") < static_cast<size_t>(it->position());
          EXPECT_TRUE(elsewhere || fs::exists(root / it->str())) << entry.path() << ": " << line;
        }
    }
  }
}

// RETURNS: the commands that a page shows, word by word, without shell syntax.
std::vector<std::vector<std::string>> shown_commands(const fs::path& document) {
  static const std::regex prompt(R"(^\s*(\$ )?)"), rest(R"(\s#\s.*$)"), next(R"(\s(&&|\|)\s)");
  std::vector<std::vector<std::string>> out;
  for (const Line& line : document_lines(document)) {
    if (!line.code) continue;
    std::string text = std::regex_replace(line.text, prompt, "", std::regex_constants::format_first_only);
    text = std::regex_replace(std::regex_replace(text, rest, ""), next, "\n");
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part);) {
      std::istringstream in(part);
      std::vector<std::string> words;
      for (std::string word; in >> word;) words.push_back(word);
      if (!words.empty()) out.push_back(words);
    }
  }
  return out;
}

bool is_config_key(const std::string& key) {
  // Other words of commands, or short for a key.
  if (key == "machine" || key == "data" || key == "tokens") return true;
  return std::ranges::any_of(schema(), [&](const Field& field) {
    const std::string section = std::string(field.section) + ".";
    return key == field.key || key == section + std::string(field.key) ||
           (!field.alias.empty() && (key == field.alias || key == section + std::string(field.alias)));
  });
}

void expect_words_of(const Command& command, const std::vector<std::string>& words,
                     const std::string& where) {
  static const std::regex option("--([a-z-]+).*"), assignment("'?([a-z][a-z0-9_.]*)=.*"),
      file("(configs|examples)/[^{}*<]*");
  std::smatch found;
  for (const std::string& word : words) {
    if (std::regex_match(word, found, option)) {
      const bool known = found[1] == "help" || std::ranges::any_of(command.options, [&](const Option& o) {
                           return o.name == found[1].str();
                         });
      EXPECT_TRUE(known) << where << word;
    } else if (std::regex_match(word, found, assignment)) {
      EXPECT_TRUE(is_config_key(found[1])) << where << word;
    } else if (std::regex_match(word, file)) {
      EXPECT_TRUE(fs::exists(root / word)) << where << word;
    }
  }
}

TEST(Documents, CommandsNameExistingFilesAndTargets) {
  u32 commands_seen = 0;
  for (const fs::path& document : all_documents()) {
    for (std::vector<std::string> words : shown_commands(document)) {
      const std::string where = document.string() + ": " + words[0] + " ... ";
      if (words[0].starts_with("scripts/")) {
        EXPECT_TRUE(fs::exists(root / words[0])) << where;
        continue;
      }
      if ((words[0] != "tidepool" && words[0] != "build/release/tidepool") || words.size() < 2) continue;
      if (words[1].starts_with("--")) continue;  // --help, --version
      const auto command =
          std::ranges::find_if(commands(), [&](const Command* c) { return c->name == words[1]; });
      ASSERT_NE(command, commands().end()) << where << words[1];
      ++commands_seen;
      expect_words_of(**command, {words.begin() + 2, words.end()}, where);
    }
  }
  EXPECT_GE(commands_seen, 40u);
}

}  // namespace tidepool::documents_test
