// JsonCheck checks piece by piece that a long text is JSON, and keeps nothing of the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tidepool {

class JsonCheck {
 public:
  // `kind` and `file_name` are used in errors, which name the offset of the first fault.
  JsonCheck(ErrorKind kind, std::string file_name);
  ~JsonCheck();
  JsonCheck(const JsonCheck&) = delete;

  Result<void> feed(std::string_view piece);
  Result<void> finish();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tidepool
