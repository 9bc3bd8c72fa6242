// Fiber has its own stack, runs one job after the other, and can pause inside a job. Uses Boost.Context and
// not ucontext, whose every switch is a system call: a block of 256 threads switches thousands of times.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

namespace emulated_cuda {

class Fiber {
 public:
  using Job = void (*)(void* context);

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Sets a job, which begins with the next resume().
  // REQUIRES: no job is running.
  void set_job(Job job, void* context) { job_ = job, context_ = context; }
  // Runs the job until it pauses or ends.
  // RETURNS: true once the job has ended.
  bool resume();
  // Called inside the job: returns to the caller of resume().
  void pause() { caller_ = std::move(caller_).resume(); }

 private:
  boost::context::fiber fiber_, caller_;
  Job job_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace emulated_cuda
