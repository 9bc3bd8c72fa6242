// TunedProducts keeps the algorithms of a session's matrix products on GPUs: those that earlier runs have
// kept, and those that this session times.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/devices.h"
#include "executor/product_file.h"

namespace tidepool {

// Source of the algorithms of matrix products on GPUs that no earlier run has kept, if
// machine.tune_products is on.
enum class ProductTiming : u8 {
  recall,   // the library's first advice
  for_now,  // timed, for this session only
  keep,     // timed, and kept for later sessions
};

class TunedProducts {
 public:
  // `say`: gets lines that cannot wait for notes().
  // Errors: those of reading the file at `path`; none is no error.
  static Result<std::unique_ptr<TunedProducts>> open(const std::string& path, ProductTiming,
                                                     std::function<void(const std::string&)> say);
  TunedProducts(const TunedProducts&) = delete;

  ProductChoices& choices() { return choices_; }
  // Keeps what was timed. To be called when all products have their algorithms.
  void finish();
  // A hash of all algorithms; empty before finish().
  const std::string& algorithms() const { return algorithms_; }
  const std::vector<std::string>& notes() const { return notes_; }  // for people

 private:
  TunedProducts(std::string path, std::function<void(const std::string&)> say)
      : path_(std::move(path)), say_(std::move(say)) {}
  Result<void> lock();

  const std::string path_;
  const std::function<void(const std::string&)> say_;
  ProductChoices choices_;
  std::optional<ProductFile> file_;  // while products are timed, until new choices are added
  std::string algorithms_;
  std::vector<std::string> notes_;
};

}  // namespace tidepool
