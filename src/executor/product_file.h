// The file in which a clock's choices of GPU matrix products stay from run to run: text, a line for each,
// each with a checksum. It is only appended to (docs/file-formats.md).
#pragma once

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "kernels/matmul/product_choices.h"

namespace tidepool {

// Needs no lock. RETURNS: none where there is no such file.
// Errors: ErrorKind::usage where it is no file of choices, or a line is damaged; ErrorKind::usage or io where
// it cannot be read. All say what to do.
Result<AlgorithmsByProduct> read_product_file(const std::string& path);

struct ProductFileWait {
  Nanos patience{60'000'000'000};                    // how long another process may hold the file
  Nanos silence{1'000'000'000};                      // how long, before `say` is called, once
  std::function<void(const std::string&)> say = {};  // empty: nothing is said
};

// The file, locked while products are timed: of two runs that begin at once the second takes what the first
// has timed.
class ProductFile {
 public:
  // Makes the file where there is none, and its folders. Blocks while another process holds it.
  // Errors: as read_product_file(); ErrorKind::io where it cannot be written or locked.
  static Result<ProductFile> open(const std::string& path, const ProductFileWait& = {});

  const std::string& path() const { return path_; }
  const AlgorithmsByProduct& known() const { return known_; }
  // RETURNS: all are in the file of this name, durable; the new algorithm of a product that was there holds.
  // Error: none is; what had been written is cut off again. Where that fails too, later runs may find some.
  Result<void> append(const AlgorithmsByProduct&);

 private:
  ProductFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Result<void> read();
  bool still_named() const;
  bool cut() const;
  Result<void> write(std::string_view text) const;

  std::string path_;
  Fd fd_;
  AlgorithmsByProduct known_;
  u64 end_ = 0;                 // of the last whole line
  bool lacks_newline_ = false;  // the last whole line does
};

}  // namespace tidepool
