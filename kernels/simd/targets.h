// Selects the SIMD targets that kernels are compiled for. Include before hwy/highway.h. Left out: AVX3_DL
// (unused here), SSSE3 and SSE4 (machines without AVX2 use the baseline), and SVE, whose sizeless vectors
// cannot be array elements (its cores run NEON).
#pragma once

// Each target compiles every kernel file once more.
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
