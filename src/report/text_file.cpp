#include "report/text_file.h"

#include "base/read_file.h"

namespace tidepool {

Result<std::string> read_text_file(const std::string& path) {
  return read_small_file(path, text_file_bytes_max, ErrorKind::bad_input);
}

}  // namespace tidepool
