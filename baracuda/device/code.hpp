#pragma once
// Which of this build's code a device runs: less than the device could, where the build has no code of its own for it.

namespace baracuda::device {

// arch: what the code was compiled for, as 90 for 9.0. only_90: with the instructions that 9.0 alone has (sm_90a).
struct CodeFacts { int arch = 0; bool only_90 = false; };
// Of the current device; gives a CUDA error number, and one for a device without code.
int find_code(CodeFacts& code);

}  // namespace baracuda::device
