// OpRange names ops in NVIDIA's profilers. Nsight announces itself in the environment before the program
// starts; without Nsight this only reads the environment: nothing is named or loaded.
#pragma once

#include <string>

namespace tidepool {

bool profiler_listens();

// Covers the launches of one op while this object lives.
class OpRange {
 public:
  template <class Name>
  explicit OpRange(Name&& name) : open_(profiler_listens()) {
    if (open_) begin(name());
  }
  ~OpRange() {
    if (open_) end();
  }
  OpRange(const OpRange&) = delete;
  OpRange& operator=(const OpRange&) = delete;

 private:
  static void begin(const std::string& name);
  static void end();

  const bool open_;
};

}  // namespace tidepool
