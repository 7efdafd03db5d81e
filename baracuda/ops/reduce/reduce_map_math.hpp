#pragma once
// The gradients that are a formula of x and a few numbers of its row, for any V.
#include "baracuda/math/vmath.hpp"

namespace baracuda::inline BARACUDA_ISA {
namespace reduce_map {

template <class V> BARACUDA_HD V signed_by(V x, V g) { return where(x == 0, V(0), where(is_nan(x), x, copysign(V(1), x) * g)); }
template <class V> BARACUDA_HD auto same(V a, V b) { return (a == b) | (is_nan(a) & is_nan(b)); }
// of(x, p, q, g)
struct Spread { template <class V> BARACUDA_HD static V of(V, V, V, V g) { return g; } };
struct Numbers { template <class V> BARACUDA_HD static V of(V x, V, V, V g) { return where(is_nan(x), V(0), g); } };
struct Distance { template <class V> BARACUDA_HD static V of(V x, V p, V q, V g) { return ((x - p) - q) * g; } };  // p + q: the mean
struct Ratio { template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return x / p * g; } };
struct Sign { template <class V> BARACUDA_HD static V of(V x, V, V, V g) { return signed_by(x, g); } };
struct Power { template <class V> BARACUDA_HD static V of(V x, V p, V q, V g) { return signed_by(x, pow(abs(x) / p, q) * g); } };
struct Equal { template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return where(same(x, p), g, V(0)); } };
struct EqualMagnitude { template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return where(same(abs(x), p), signed_by(x, g), V(0)); } };
struct Softmax {  // x = p: also where both are infinite
  template <class V> BARACUDA_HD static V of(V x, V p, V, V g) { return where(x == p, V(1), exp(x - p)) * g; }
};

}  // namespace reduce_map
}  // namespace baracuda
