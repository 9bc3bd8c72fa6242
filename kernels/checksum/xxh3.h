// xxHash with the widest vectors of this CPU. Include this header, never <xxhash.h>: that header uses the
// compiler's baseline, and a checksum at SSE2 speed slows updates down.
#pragma once

#define XXH_STATIC_LINKING_ONLY  // XXH3_state_t on the stack: no allocation in a steady step
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif
