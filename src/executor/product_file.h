// ProductFile keeps the timed choices of algorithms of GPU matrix products from run to run: a text file with
// one line per product, each with a checksum. Lines are only appended (docs/file-formats.md).
#pragma once

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "kernels/matmul/product_choices.h"

namespace tidepool {

// Reads a file of choices, without the lock.
// RETURNS: no choices if the file does not exist.
// Errors: ErrorKind::usage if the file has another format or a damaged line; ErrorKind::usage or io if it
// cannot be read. All say what to do.
Result<AlgorithmsByProduct> read_product_file(const std::string& path);

struct ProductFileWait {
  Nanos patience{60'000'000'000};                    // timeout of the lock
  Nanos silence{1'000'000'000};                      // wait after which `say` is called, once
  std::function<void(const std::string&)> say = {};  // empty: no message
};

// The file is locked while products are timed: if two runs begin at once, the second waits and takes the
// choices of the first.
class ProductFile {
 public:
  // Opens and locks the file. Creates the file and its folders if they do not exist. Blocks while another
  // process holds the lock.
  // Errors: as read_product_file(); ErrorKind::io if the file cannot be written or locked.
  static Result<ProductFile> open(const std::string& path, const ProductFileWait& = {});

  const std::string& path() const { return path_; }
  const AlgorithmsByProduct& known() const { return known_; }
  // Appends all choices; they are durable on return. If the file has a product already, its new algorithm
  // counts.
  // Errors: nothing was added, because written lines were cut off again. If cutting fails too, later runs
  // may find some of the lines.
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
  u64 end_ = 0;                 // end of the last whole line
  bool lacks_newline_ = false;  // true if the last whole line has no newline
};

}  // namespace tidepool
