// Which SIMD targets row kernels are compiled for. Include before hwy/highway.h.
#pragma once

// Each target compiles a file once more. Machines without AVX2 are served by the baseline.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
