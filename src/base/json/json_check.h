// JsonCheck tells whether a long text is JSON, piece by piece: nothing of it is kept.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tidepool {

class JsonCheck {
 public:
  // `kind` and `file_name` go into errors, which name the offset of the first fault.
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
