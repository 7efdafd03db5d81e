#include "baracuda/ops/random/integers.hpp"
#include <bit>
#include <charconv>
#include <cmath>
#include "baracuda/host/row_walk.hpp"
#include "baracuda/ops/random/random_detail.hpp"
#include "baracuda/ops/random/random_words.hpp"

namespace baracuda {
namespace {

using namespace random_detail;

template <class D> PrecisionGuarantee exact_integers(const D& d) { return {.math_precision = d.dtype, .accumulator = d.dtype, .batch_invariant = true}; }

// The integers that a dtype holds one by one.
struct Span { Bound low, high; };
Span integers_of(DType t) {
  return visit_dtype(Numbers{}, t, Span{0, 0}, []<class T>() -> Span {
    if constexpr (std::is_integral_v<T>) return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    else {
      constexpr int64_t most = int64_t(1) << (std::is_same_v<T, f16> ? 11 : std::is_same_v<T, bf16> ? 8 : std::is_same_v<T, float> ? 24 : 53);
      return {-most, most};
    }
  });
}
uint64_t both(const uint32_t* w) { return random::both(w[0], w[1]); }
Status run_randint(const Launch<Randint>& l) {
  const auto& d = l.desc;
  const uint64_t seed = l.args.seed, offset = l.args.offset;
  const IntegerRange r = range_of(d);
  visit_dtype(Numbers{}, d.dtype, 0, [&]<class T>() {
    const auto put = [&](void* y, int64_t i, uint64_t v) { static_cast<T*>(y)[i] = random::from_integer<T>(int64_t(r.low + v)); };
    const MapOperand out = MapOperand::of(l.args.y);
    if (r.range == 0)
      for_words<2>(d.shape, {}, {out}, seed, offset, l.threads, [&](void* const* at, const uint32_t* w, int64_t n, int64_t) {
        for (int64_t i = 0; i < n; ++i) put(at[0], i, both(w + 2 * i));
      });
    else if (r.range <= uint64_t(1) << 32)
      for_words(d.shape, {}, {out}, seed, offset, l.threads, [&](void* const* at, const uint32_t* w, int64_t n, int64_t begin) {
        for (int64_t i = 0; i < n; ++i) put(at[0], i, random::below_range(w[i], r.range, r.least, seed, offset + uint64_t(begin + i)));
      });
    else
      for_words<2>(d.shape, {}, {out}, seed, offset, l.threads, [&](void* const* at, const uint32_t* w, int64_t n, int64_t begin) {
        for (int64_t i = 0; i < n; ++i) put(at[0], i, random::below_wide_range(both(w + 2 * i), r.range, r.least, seed, offset + uint64_t(begin + i)));
      });
    return 0;
  });
  return {};
}
Status run_bits(const Launch<RandomBits>& l) {
  const MapOperand out = MapOperand::of(l.args.y);
  visit_dtype(Integers{}, l.desc.dtype, 0, [&]<class T>() {
    constexpr int kPer = sizeof(T) == 8 ? 2 : 1;
    for_words<kPer>(l.desc.shape, {}, {out}, l.args.seed, l.args.offset, l.threads, [&](void* const* at, const uint32_t* w, int64_t n, int64_t) {
      for (int64_t i = 0; i < n; ++i) static_cast<T*>(at[0])[i] = T(kPer == 2 ? both(w + 2 * i) : w[i]);
    });
    return 0;
  });
  return {};
}

// --- permutations. Long rows are first thrown into buckets by the leading bits of the keys, which are uniform, then the buckets are sorted.
struct Ranked {
  uint64_t key;
  int64_t index;
  friend bool operator<(const Ranked& a, const Ranked& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }
};
constexpr int64_t kShort = 4096, kPerBucket = 1024, kKeys = 256;
int bucket_bits(int64_t n) { return n <= kShort ? 0 : std::bit_width(uint64_t(n / kPerBucket)) - 1; }
struct Piles { Ranked* ranked; int64_t* first; };
Piles carve_piles(const RandpermDescriptor& d, Carver& c) {
  const int64_t n = d.shape.last(), rows = n <= kShort ? std::min<int64_t>(c.threads(), d.shape.rows()) : 1;
  if (d.shape.numel() == 0) return {nullptr, nullptr};
  Piles p{c.take<Ranked>("keys", Shape{rows, n}.numel()), nullptr};
  if (n > kShort) p.first = c.take<int64_t>("buckets", (int64_t(1) << bucket_bits(n)) + 1);
  return p;
}
// f(key, index) for the row's elements [begin, end).
template <class F> void each_key(uint64_t seed, uint64_t first, int64_t begin, int64_t end, F f) {
  const auto words = BARACUDA_ISA_PICK(random_kernels).words;
  uint32_t w[2 * kKeys];
  for (int64_t i = begin; i < end; i += kKeys) {
    const int64_t n = std::min(kKeys, end - i);
    words(seed, 2 * (first + uint64_t(i)), w, 2 * n);
    for (int64_t j = 0; j < n; ++j) f(both(w + 2 * j), i + j);
  }
}
Status run_randperm(const Launch<Randperm>& l) {
  const auto& d = l.desc;
  const TensorView& y = l.args.y;
  const int64_t n = d.shape.last(), step = y.strides[std::max(0, d.shape.rank - 1)];
  if (d.shape.numel() == 0) return {};
  Carver c = l.carver();
  const Piles p = carve_piles(d, c);
  const RowWalk<1> walk(outer_axes(d.shape), {&y});
  const uint64_t seed = l.args.seed, offset = l.args.offset;
  visit_dtype(Integers{}, d.dtype, 0, [&]<class T>() {
    auto row_of = [&](int64_t row) {
      int64_t at[1];
      walk.offsets(row, at);
      return y.as<T>() + at[0];
    };
    if (n <= kShort) {
      parallel_for(walk.rows, std::max<int64_t>(1, kShort / n), l.threads, [&](int64_t begin, int64_t end, int worker) {
        Ranked* const mine = p.ranked + worker * n;
        for (int64_t row = begin; row < end; ++row) {
          each_key(seed, offset + uint64_t(row) * uint64_t(n), 0, n, [&](uint64_t key, int64_t i) { mine[i] = {key, i}; });
          std::sort(mine, mine + n);
          T* to = row_of(row);
          for (int64_t i = 0; i < n; ++i) to[i * step] = T(mine[i].index);
        }
      });
      return 0;
    }
    const int bits = bucket_bits(n), shift = 64 - bits;
    const int64_t buckets = int64_t(1) << bits;
    for (int64_t row = 0; row < walk.rows; ++row) {
      const uint64_t first = offset + uint64_t(row) * uint64_t(n);
      std::fill(p.first, p.first + buckets + 1, 0);
      each_key(seed, first, 0, n, [&](uint64_t key, int64_t) { ++p.first[(key >> shift) + 1]; });
      for (int64_t b = 1; b <= buckets; ++b) p.first[b] += p.first[b - 1];
      each_key(seed, first, 0, n, [&](uint64_t key, int64_t i) { p.ranked[p.first[key >> shift]++] = {key, i}; });
      T* to = row_of(row);
      parallel_for(buckets, 8, l.threads, [&](int64_t begin, int64_t end, int) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t from = b ? p.first[b - 1] : 0, until = p.first[b];
          std::sort(p.ranked + from, p.ranked + until);
          for (int64_t i = from; i < until; ++i) to[i * step] = T(p.ranked[i].index);
        }
      });
    }
    return 0;
  });
  return {};
}
template <class D> Status validate_tensor(std::string_view op, const D& d, int min_rank = 0) {
  if (!valid(d.dtype)) return invalid(op, "invalid dtype");
  return expect_shape(op, "shape", d.shape, min_rank);
}

}  // namespace

void append_text(std::string& s, const Bound& b) {
  if (b.v < 0) s += std::to_string(int64_t(b.v));
  else if (b.v >> 64) s += "18446744073709551616";
  else s += std::to_string(uint64_t(b.v));
}
Status parse_value(std::string_view field, std::string_view t, Bound& b) {
  uint64_t magnitude = 0;
  const bool negative = !t.empty() && t[0] == '-';
  const auto [end, error] = std::from_chars(t.data() + negative, t.data() + t.size(), magnitude);
  if (error == std::errc() && end == t.data() + t.size() && (!negative || magnitude <= uint64_t(1) << 63)) b.v = negative ? -__int128(magnitude) : __int128(magnitude);
  else if (t == "18446744073709551616") b.v = __int128(1) << 64;
  else return {Code::invalid_problem, text(field, ": '", t, "' is not an integer of 64 bits or 2^64")};
  return {};
}

Status Randint::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d));
  if (d.low.v >= d.high.v) return invalid(name, text("low ", d.low, " is not below high ", d.high));
  const Span s = integers_of(d.dtype);
  if (s.high.v > 0 && (d.low.v < s.low.v || d.high.v - 1 > s.high.v))
    return invalid(name, text("low ", d.low, " and high ", d.high, " leave the integers of ", d.dtype, ", ", s.low, " to ", s.high));
  return {};
}
Status Randint::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Randint>> Randint::kernels() {
  static constexpr Kernel<Randint> list[] = {
      {.name = "randint.cpu.philox", .launch = launch_all<Randint>(Numbers{}, run_randint), .guarantee = exact_integers<Descriptor>}};
  return list;
}
Status RandomBits::validate(const Descriptor& d) { return validate_tensor(name, d); }
Status RandomBits::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<RandomBits>> RandomBits::kernels() {
  static constexpr Kernel<RandomBits> list[] = {
      {.name = "random_bits.cpu.philox", .launch = launch_all<RandomBits>(Integers{}, run_bits), .guarantee = exact_integers<Descriptor>}};
  return list;
}
Status Randperm::validate(const Descriptor& d) {
  BARACUDA_TRY(validate_tensor(name, d, 1));
  const Span s = integers_of(d.dtype);
  if (s.high.v > 0 && d.shape.last() - 1 > s.high.v) return invalid(name, text(d.dtype, " does not hold the index ", d.shape.last() - 1));
  return {};
}
Status Randperm::check(const Descriptor& d, const Args& a) { return expect(name, "y", a.y, d.dtype, d.shape); }
std::span<const Kernel<Randperm>> Randperm::kernels() {
  static constexpr Kernel<Randperm> list[] = {{.name = "randperm.cpu.sorted",
                                               .launch = launch_all<Randperm>(Integers{}, run_randperm),
                                               .guarantee = exact_integers<Descriptor>,
                                               .carve = [](const Descriptor& d, const void*, Carver& c) { carve_piles(d, c); }}};
  return list;
}

}  // namespace baracuda
