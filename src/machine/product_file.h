// The file in which a clock's choices of GPU matrix products stay from run to run.
#pragma once

#include <string>

#include "kernels/matmul/product_choices.h"
#include "tidepool/result.h"

namespace tidepool {

// RETURNS: none where there is no such file. Errors: ErrorKind::usage where it is no file of choices, which
// names it and says to remove it; ErrorKind::io.
Result<ProductChoices> load_product_choices(const std::string& path);

// Replaces the file; what others have added to it since it was read stays. Errors: ErrorKind::io.
Result<void> save_product_choices(const std::string& path, ProductChoices);

}  // namespace tidepool
