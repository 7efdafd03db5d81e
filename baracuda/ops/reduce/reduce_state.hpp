#pragma once
// The loops of the family and what they leave, on every device.
#include <cstdint>

namespace baracuda {

// The loops that the kinds are made of, and the state of m elements that each leaves.
enum class ReduceLoop : uint8_t {
  sum, magnitudes,    // a; of |x|
  numbers,            // a sum, b count of the elements that are not NaN
  squares,            // a 4^b: b is 0 but where a sum of f64 squares leaves the range
  powers,             // a largest |x| (least for a negative power), b sum of (|x| / a)^power
  moments,            // a mean, b sum of squared distances from it
  product,            // a 2^b, |a| in [1, 2), 0, infinite or NaN
  exps,               // a largest, or near it; b sum of exp(x - a); where the largest is infinite it is a, and b says nothing
  max, min,           // a
  largest, least,     // a, of |x|
  minmax,             // a (integers: i) the largest, b (at) the smallest
  argmax, argmin,     // a (integers: i) the extremum, at: the first index that has it
  equal, equal_magnitude,  // a elements that equal the shift (NaN equals NaN); whose |x| does
  nonzero,            // i elements
  count
};
struct ReduceState {
  union { double a; int64_t i; };
  union { double b; int64_t at; };
};
constexpr bool of_magnitudes(ReduceLoop l) {
  return l == ReduceLoop::magnitudes || l == ReduceLoop::largest || l == ReduceLoop::least || l == ReduceLoop::equal_magnitude;
}

// --- backward: dx = f(x, p, q, g) with numbers per row in the accumulator's type
enum class ReduceMapKind : uint8_t { spread, numbers, distance, ratio, sign, power, equal, equal_magnitude, softmax, count };

}  // namespace baracuda
