#include "kernels/matmul/sgemm.h"

#include <dnnl.h>
#include <omp.h>

#include "base/check.h"

namespace tidepool {

void sgemm(const Sgemm& s) {
  // Debian's oneDNN would start an OpenMP team per calling thread. The setting is per thread and costs
  // nanoseconds, so it is made here, where no caller can forget it.
  omp_set_num_threads(1);
  const dnnl_status_t status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, s.scale, s.a, s.lda,
                 s.b, s.ldb, s.accumulate ? 1.0f : 0.0f, s.c, s.ldc);
  CHECK(status == dnnl_success, static_cast<int>(status), s.m, s.n, s.k, s.lda, s.ldb, s.ldc);
}

}  // namespace tidepool
