#include "fiber.h"

namespace emulated_cuda {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024;  // touched only as deep as a kernel goes; a guard page below

}  // namespace

Fiber::Fiber()
    : fiber_(std::allocator_arg, boost::context::protected_fixedsize_stack(stack_bytes),
             [this](boost::context::fiber&& caller) {
               caller_ = std::move(caller);
               for (;;) {
                 job_(context_);
                 job_ = nullptr;
                 pause();
               }
               return std::move(caller_);
             }) {}

bool Fiber::resume() {
  fiber_ = std::move(fiber_).resume();
  return job_ == nullptr;
}

}  // namespace emulated_cuda
