// The file in which a clock's choices of GPU matrix products stay from run to run: text, a line for each,
// each with a checksum. It is only appended to.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "kernels/matmul/product_choices.h"

namespace tidepool {

// RETURNS: none where there is no such file. Errors: ErrorKind::usage where it is no file of choices, or a
// line is damaged, with the line and what to do; ErrorKind::io.
Result<AlgorithmsByProduct> read_product_file(const std::string& path);

// Held from before the choices are read until those that are new have been added, so that of two runs that
// begin at once the second takes what the first has timed.
class ProductFile {
 public:
  // Makes the file where there is none, and its folders. Waits so long for another process that holds it.
  // Errors: as read_product_file(); ErrorKind::io where it cannot be written or held.
  static Result<ProductFile> open(const std::string& path, Nanos patience = Nanos{60'000'000'000});

  const AlgorithmsByProduct& known() const { return known_; }
  // All of them, durable on return, or an error and none. Of a product that is there already the new
  // algorithm holds.
  Result<void> append(const AlgorithmsByProduct&);

 private:
  ProductFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Result<void> read();

  std::string path_;
  Fd fd_;
  AlgorithmsByProduct known_;
  u64 end_ = 0;  // of the last whole line
};

}  // namespace tidepool
