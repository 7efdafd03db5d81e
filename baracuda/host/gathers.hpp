#pragma once
// Whether gathers of AVX-512 are faster than loads one by one: they are on Intel's processors from AVX512-FP16 on (16 floats in 8.5 cycles),
// not on Zen 4 (22). For choosing between loops of the same bits.

namespace baracuda {

bool has_fast_gathers();
// For tests: from now on, use them or not.
void limit_gathers(bool allowed);

}  // namespace baracuda
