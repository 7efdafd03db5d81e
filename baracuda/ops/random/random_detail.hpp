#pragma once
// What a run's numbers are made with, for the rows of both devices: y and n are the row's.
#include "baracuda/ops/random/random.hpp"
#include "baracuda/ops/random/random_cpu.hpp"

namespace baracuda::random_detail {

RandomNumbers numbers(const RandomUniformDescriptor& d, const RandomUniform::Args& a);
inline RandomNumbers numbers(const RandomNormalDescriptor& d, const RandomNormal::Args& a) { return {a.seed, a.offset, d.mean, d.std, 0, nullptr, 0}; }
inline RandomNumbers numbers(const RandomExponentialDescriptor& d, const RandomExponential::Args& a) { return {a.seed, a.offset, 0, 1 / d.rate, 0, nullptr, 0}; }
inline RandomNumbers numbers(const RandomGumbelDescriptor& d, const RandomGumbel::Args& a) { return {a.seed, a.offset, d.loc, d.scale, 0, nullptr, 0}; }

}  // namespace baracuda::random_detail
