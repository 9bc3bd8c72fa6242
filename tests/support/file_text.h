// file_text() reads files for tests.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace tidepool::test {

// RETURNS: all bytes of a file; "" if it cannot be read.
inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();  // in blocks: byte by byte takes half of a test's time under ASan
  return std::move(out).str();
}

}  // namespace tidepool::test
