#include "kernels/cuda/precisions.h"

#include "base/check.h"

namespace tidepool::cuda {

void check_same_precision(std::initializer_list<ConstValues> arrays) {
  const ConstValues* first = nullptr;
  for (const ConstValues& array : arrays) {
    if (!array) continue;
    if (first == nullptr) first = &array;
    CHECK(array.precision == first->precision);
  }
}

}  // namespace tidepool::cuda
