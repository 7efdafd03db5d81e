#pragma once
// Random integers, words and permutations. Element i in row-major order depends on (seed, offset + i) alone, for every dtype, as in
// dropout.hpp; its words are numbers e, or 2 e and 2 e + 1, of the stream (mod 2^64), e = offset + i. All arithmetic is on integers, so
// the bits are the same everywhere. Any strides. Guarantee: deterministic, batch invariant.
#include <concepts>
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

struct RandomArgs {
  TensorView y;
  uint64_t seed = 0, offset = 0;
  static constexpr auto args() {
    return std::tuple(arg("y", &RandomArgs::y, Role::out), arg("seed", &RandomArgs::seed, Role::value), arg("offset", &RandomArgs::offset, Role::value));
  }
};

// An integer of 64 bits, with a sign or without, or 2^64: the bounds of every integer dtype.
struct Bound {
  __int128 v = 0;
  constexpr Bound() = default;
  template <std::integral T> constexpr Bound(T value) : v(value) {}
  constexpr Bound(__int128 value) : v(value) {}
  constexpr operator __int128() const { return v; }
  friend constexpr bool operator==(const Bound& a, const Bound& b) { return a.v == b.v; }
  using value_type = int64_t;  // as a field: an integer
};
void append_text(std::string& s, const Bound& b);
Status parse_value(std::string_view field, std::string_view text, Bound& b);

// y uniform in [low, high), all of 64 bits of either sign, each value exactly as often as the others: Lemire's multiplication ("Fast random integer generation in an
// interval", 2019), one word while high - low <= 2^32, else two; a word that would favour some values is drawn again from a stream of
// the element's own. Dtypes: integers, and floats where every value of the range is one. Workspace: none.
struct RandintDescriptor {
  DType dtype = DType::i64;
  Shape shape;
  Bound low = 0, high = 2;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RandintDescriptor::dtype, "of y"), field("shape", &RandintDescriptor::shape, "of y"),
                      field("low", &RandintDescriptor::low, "lowest value"), field("high", &RandintDescriptor::high, "upper bound, not drawn"));
  }
};
struct Randint {
  static constexpr std::string_view name = "randint", category = "random", summary = "y uniform among the integers of [low, high)";
  using Descriptor = RandintDescriptor;
  using Args = RandomArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Randint>> kernels();
};
using RandintPlan = Plan<Randint>;

// y = the words of the generator: the low bits of word e, for 64 bits words 2 e (low) and 2 e + 1. Dtypes: integers. Workspace: none.
struct RandomBitsDescriptor {
  DType dtype = DType::u32;
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RandomBitsDescriptor::dtype, "of y"), field("shape", &RandomBitsDescriptor::shape, "of y"));
  }
};
struct RandomBits {
  static constexpr std::string_view name = "random_bits", category = "random", summary = "y = random words";
  using Descriptor = RandomBitsDescriptor;
  using Args = RandomArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<RandomBits>> kernels();
};
using RandomBitsPlan = Plan<RandomBits>;

// Every row of y (the last axis, n long) = a permutation of 0, 1, ..., n - 1: the order of the row's 64-bit keys (words 2 e, 2 e + 1), sorted
// stably. A sort and not a bijection of the counter, for that gives all n! orders alike, but for ties (n^2 / 2^65). index with it
// shuffles. Dtypes: integers that hold n - 1. Workspace: 16 bytes per element of a row, for each thread where rows are short.
struct RandpermDescriptor {
  DType dtype = DType::i64;
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &RandpermDescriptor::dtype, "of y"), field("shape", &RandpermDescriptor::shape, "of y, rank >= 1"));
  }
};
struct Randperm {
  static constexpr std::string_view name = "randperm", category = "random", summary = "y = a random permutation of the indices of each row";
  using Descriptor = RandpermDescriptor;
  using Args = RandomArgs;
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<Randperm>> kernels();
};
using RandpermPlan = Plan<Randperm>;

}  // namespace baracuda
