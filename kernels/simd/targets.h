// Which SIMD targets kernels are compiled for. Include before hwy/highway.h.
// Left out: AVX3_DL (nothing here uses it), SSSE3 and SSE4 (machines without AVX2 are served by the
// baseline), and SVE, whose sizeless vectors cannot be array elements (its cores run NEON).
#pragma once

// Each target compiles a file once more.
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
