// Messages for a program that was built without CUDA and is asked to use a GPU.
#pragma once

namespace tidepool {

inline constexpr const char* built_without_cuda = "this program was built without CUDA";
inline constexpr const char* how_to_build_with_cuda =
    "configure with -DTIDEPOOL_CUDA=ON where the CUDA Toolkit is installed (CONTRIBUTING.md)";

}  // namespace tidepool
