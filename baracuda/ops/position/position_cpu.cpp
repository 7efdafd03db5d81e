// Rope: y_a = x_a c - x_b s, y_b = x_b c + x_a s. Reads x, writes y; the floor is memory bandwidth. The sines of 64 positions
// stay in the second-level cache while all heads that stand there are turned; with a single row at each position they are made
// beside it, so that it comes from memory meanwhile.
#include "baracuda/math/bf16_flushed.hpp"
#include "baracuda/ops/position/position_cpu.hpp"
#include "baracuda/ops/position/position_math.hpp"

namespace baracuda {
inline namespace BARACUDA_ISA {
namespace {

using D = Pack<double, kLanes<double>>;
using rope::product;
using rope::Turn;
using rope::turn_of;

template <int N, class T> BARACUDA_HD Pack<Acc<T>, N> get(const T* p, int count) {
  return count == N ? load<N>(p) : load_tail<N>(p, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count) {
  if (count == N) store<T, N>(p, v);
  else store_tail<T, N>(p, v, count & (N - 1));
}
template <int N, class T> BARACUDA_HD void put(T* p, Pack<Acc<T>, N> v, int count, bool past) {
  if (count == N && past) store_past<T, N>(p, v);
  else put<N>(p, v, count);
}
template <int N> BARACUDA_HD int width(int64_t left) { return left < N ? int(left) : N; }

// cos and sin of p f_i, f_i and the product in two words: out[half], out[half + half].
void sines(const RopeFrequencies& f, double p, double* out) {
  constexpr int N = D::kWidth;
  const D position = D::of(p - Raw<double, N>{});
  for (int64_t i = 0; i < f.half; i += N) {
    const int count = width<N>(f.half - i);
    const Turn<D> t = turn_of(position, get<N>(f.high + i, count), get<N>(f.low + i, count));
    put<N>(out + i, t.cosine, count);
    put<N>(out + f.half + i, t.sine, count);
  }
}
// Turns a and b of f_i in one: out = a b as complex numbers.
void multiply(int64_t half, const double* a, const double* b, double* out) {
  constexpr int N = D::kWidth;
  for (int64_t i = 0; i < half; i += N) {
    const int count = width<N>(half - i);
    const Turn<D> t = product<D>({get<N>(a + i, count), get<N>(a + half + i, count)}, {get<N>(b + i, count), get<N>(b + half + i, count)});
    put<N>(out + i, t.cosine, count);
    put<N>(out + half + i, t.sine, count);
  }
}
// Few sines and more products: a plan is made in microseconds.
void fill_digits(const RopeFrequencies& f) {
  auto row = [&](int k) { return f.digits + k * 2 * f.half; };
  for (int k : {0, 16})
    for (int64_t i = 0; i < 2 * f.half; ++i) row(k)[i] = i < f.half;
  for (int c = 1; c < 16; ++c)
    if (rope::is_product(c)) multiply(f.half, row(c - c % 4), row(c % 4), row(c));
    else sines(f, c, row(c));
  for (int b = 1; b < 4; ++b) sines(f, 16 * b, row(16 + b));
  for (int c = 0; c < 16; ++c)
    for (int64_t i = 0; i < 2 * f.half; ++i) row(kRopeDigits + c)[i] = i < f.half ? row(c)[i] : -row(c)[i];
  for (int64_t i = 0; i < 16 * 2 * f.half; ++i) f.rounded[i] = float(f.digits[i]), f.rounded[16 * 2 * f.half + i] = float(row(kRopeDigits)[i]);
}

// Angles of the last digit are added in P.
template <class T> using Product = std::conditional_t<kIsHalf<T>, float, double>;
template <class P> const P* digit(const RopeTable& t, int64_t c) {
  if constexpr (sizeof(P) == 4) return t.f.rounded + (t.inverse ? 16 + c : c) * 2 * t.f.half;
  else return t.f.digits + (t.inverse ? kRopeDigits + c : c) * 2 * t.f.half;
}
// Cosine and sine at i .. i + N - 1, the product of two turns.
template <class A, int N, class P> BARACUDA_HD Turn<Pack<A, N>> product_at(const P* a, const P* b, int64_t half, int64_t i) {
  if constexpr (sizeof(A) < sizeof(P) && N > 1) {
    const auto low = product_at<P, N / 2>(a, b, half, i), high = product_at<P, N / 2>(a, b, half, i + N / 2);
    return {narrow(low.cosine, high.cosine), narrow(low.sine, high.sine)};
  } else {
    const auto t = product<Pack<P, N>>({load<N>(a + i), load<N>(a + half + i)}, {load<N>(b + i), load<N>(b + half + i)});
    return {convert<A>(t.cosine), convert<A>(t.sine)};
  }
}
// f(i, lanes) over a row, by packs and then one by one.
template <class A, class F> BARACUDA_HD void each_width(int64_t n, F f) {
  constexpr int N = kLanes<A>;
  int64_t i = 0;
  for (; i + N <= n; i += N) f(i, std::integral_constant<int, N>{});
  for (; i < n; ++i) f(i, std::integral_constant<int, 1>{});
}
// Turns of 64 a + 16 b, the sines of 64 a in t.coarse.
template <class P> void make_group(const RopeTable& t, int b, P* group) {
  const int64_t half = t.f.half;
  const double *middle = t.f.digits + (16 + b) * 2 * half, sign = t.inverse ? -1 : 1;
  each_width<P>(half, [&](int64_t i, auto width) __attribute__((always_inline)) {
    const auto turn = product_at<P, decltype(width)::value>(t.coarse, middle, half, i);
    store<P, decltype(width)::value>(group + i, turn.cosine);
    store<P, decltype(width)::value>(group + half + i, sign * turn.sine);
  });
}
template <class P> P* groups(const RopeTable& t) { return reinterpret_cast<P*>(t.coarse + 2 * t.f.half); }
// The group of 16 positions that the k-th stands in, unless the one before has left it there.
template <class P> const P* group_of(const RopeTable& t, int64_t k) {
  const int64_t p = t.positions[k], last = t.positions[k > 0 ? k - 1 : 0];
  if (k == 0 || p >> 4 != last >> 4) {
    if (k == 0 || rope::coarse_of(p) != rope::coarse_of(last)) sines(t.f, double(rope::coarse_of(p)), t.coarse);
    make_group(t, rope::middle_of(p), groups<P>(t));
  }
  return groups<P>(t);
}
// Cosine and sine of a row at i .. i + W - 1: made where they are wanted, or read.
template <class A, class P> struct Made {
  const P *group, *fine;
  int64_t half;
  Made(const RopeTable& t, const P* group, int64_t position) : group(group), fine(digit<P>(t, rope::fine_of(position))), half(t.f.half) {}
  Made(const RopeTable& t, int64_t k) : Made(t, group_of<P>(t, k), t.positions[k]) {}
  template <int W> BARACUDA_HD Turn<Pack<A, W>> at(int64_t i) const { return product_at<A, W>(group, fine, half, i); }
};
template <class A> struct Read {
  const A *cosine, *sine;
  template <int W> BARACUDA_HD Turn<Pack<A, W>> at(int64_t i) const { return {load<W>(cosine + i), load<W>(sine + i)}; }
};
template <class A, class P> void table(const RopeTable& t) {
  const int64_t half = t.f.half;
  for (int64_t k = 0; k < t.count; ++k) {
    const Made<A, P> made(t, k);
    A* out = static_cast<A*>(t.table) + k * 2 * half;
    each_width<A>(half, [&](int64_t i, auto width) __attribute__((always_inline)) {
      constexpr int W = decltype(width)::value;
      const auto both = made.template at<W>(i);
      store<A, W>(out + i, both.cosine);
      store<A, W>(out + half + i, both.sine);
    });
  }
}

template <class T> void copy_rest(const RopeRows& p, const T* x, T* y) {
  if (x != y)
    for (int64_t i = 2 * p.half; i < p.n; ++i) y[i] = x[i];
}
template <bool kMade, class T> auto turns_of(const RopeRows& p, int64_t o, int64_t r) {
  if constexpr (kMade) return Made<Acc<T>, Product<T>>(*p.make, r);
  else {
    const Acc<T>* cosine = static_cast<const Acc<T>*>(p.table) + o * p.table_outer + r * p.table_pitch;
    return Read<Acc<T>>{cosine, cosine + p.half};
  }
}
// f(x, y, turns) for each row. Meanwhile the row that comes kRopeAhead bytes later is fetched: stretches are too short for the processor to see where
// they go.
template <bool kMade, class T, class F> BARACUDA_HD void rows_in_order(const RopeRows& p, F f) {
  constexpr int64_t kAhead = kRopeAhead / int64_t(sizeof(T)), kLine = 64 / int64_t(sizeof(T));
  const int64_t rows = p.rows, n = p.n, ahead = kAhead < n ? 1 : kAhead / n, all = rows * p.outer, first = ahead < all ? ahead : all;
  const T* next = static_cast<const T*>(p.x) + first / rows * p.x_outer + first % rows * p.x_pitch;
  const int heads = kMade ? 1 : p.heads;
  int64_t left = all - first, next_row = first % rows;  // left: rows until those of p.far come next
  for (int64_t o = 0; o < p.outer; ++o) {
    const T* x = static_cast<const T*>(p.x) + o * p.x_outer;
    T* y = static_cast<T*>(p.y) + o * p.y_outer;
    for (int64_t r = 0; r < rows; ++r, x += p.x_pitch, y += p.y_pitch) {
      if (left-- == 0) next = static_cast<const T*>(p.far), next_row = 0;
      if (next) {
        for (int h = 0; h < heads; ++h)
          for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(next + h * p.x_other + i, 0, 2);
        next += p.x_pitch;
        if (++next_row == rows) next_row = 0, next += p.x_outer - rows * p.x_pitch;
      }
      const auto turns = turns_of<kMade, T>(p, o, r);
      for (int h = 0; h < heads; ++h) f(x + h * p.x_other, y + h * p.y_other, turns);
    }
  }
}
constexpr int kRowsBefore = 2;  // of each stream, asked for before the sines are made
constexpr int64_t kLeastRowBytes = 256;  // shorter rows leave too little to each stream
// The 64 positions from 64 a on: the rows of each last digit one after the other, so that the processor fetches ahead in four streams.
inline bool is_stretch(const RopeTable& t, int64_t k, int64_t row_bytes) {
  const int64_t* p = t.positions + k;
  if (row_bytes < kLeastRowBytes || t.count - k < 64 || rope::coarse_of(*p) != *p) return false;
  for (int64_t i = 1; i < 64; ++i)
    if (p[i] != p[0] + i) return false;
  return true;
}
template <class T, class F> BARACUDA_HD void rows_of_stretch(const RopeRows& p, int64_t k, F f) {
  using P = Product<T>;
  const RopeTable& t = *p.make;
  const int64_t pairs = 2 * t.f.half, x_pitch = p.x_pitch, y_pitch = p.y_pitch;
  P* const group = groups<P>(t);
  const T* x = static_cast<const T*>(p.x) + k * x_pitch;
  for (int c = 0; c < kRowsBefore; ++c)
    for (int b = 0; b < 4; ++b)
      for (int64_t i = 0; i < p.n; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(x + (c + b * 16) * x_pitch + i, 0, 2);
  sines(t.f, double(t.positions[k]), t.coarse);
  for (int b = 0; b < 4; ++b) make_group(t, b, group + b * pairs);
  T* y = static_cast<T*>(p.y) + k * y_pitch;
  for (int c = 0; c < 16; ++c, x += x_pitch, y += y_pitch)
    for (int b = 0; b < 4; ++b) f(x + b * 16 * x_pitch, y + b * 16 * y_pitch, Made<Acc<T>, P>(t, group + b * pairs, c));
}
template <bool kMade, class T, class F> BARACUDA_HD void each_row(const RopeRows& p, F f) {
  if constexpr (!kMade) rows_in_order<false, T>(p, f);
  else {
    auto stretch = [&p](int64_t k) { return is_stretch(*p.make, k, p.n * int64_t(sizeof(T))); };
    for (int64_t k = 0, end; k < p.rows; k = end) {
      if (stretch(k)) {
        rows_of_stretch<T>(p, k, f);
        end = k + 64;
        continue;
      }
      for (end = k + 1; end < p.rows && !stretch(end);) ++end;
      RopeTable make = *p.make;
      make.positions += k, make.count = end - k;
      RopeRows some = p;
      some.x = static_cast<const T*>(p.x) + k * p.x_pitch, some.y = static_cast<T*>(p.y) + k * p.y_pitch, some.rows = end - k, some.make = &make;
      rows_in_order<true, T>(some, f);
    }
  }
}
template <bool kMade, class T, bool kLook> __attribute__((noinline)) void half_split_rows(const RopeRows& p) {
  using A = Acc<T>;
  constexpr int N = kLanes<A>;
  const int64_t half = p.half, twices = half / (2 * N) * (2 * N);
  const bool past = p.past;
  auto twice = [half, past](const T* x, T* y, const auto& turns, int64_t i) __attribute__((always_inline)) {
    const auto a = product<Pack<A, N>>({load<N>(x + i), load<N>(x + half + i)}, turns.template at<N>(i));
    const auto b = product<Pack<A, N>>({load<N>(x + i + N), load<N>(x + half + i + N)}, turns.template at<N>(i + N));
    store_twice_flushed<kLook, T, N>(y + i, a.cosine, b.cosine, past);
    store_twice_flushed<kLook, T, N>(y + half + i, a.sine, b.sine, past);
  };
  if (twices == half && p.n == 2 * half)  // nothing else in the loop
    return each_row<kMade, T>(p, [half, twice](const T* x, T* y, const auto& turns) __attribute__((always_inline)) {
      for (int64_t i = 0; i < half; i += 2 * N) twice(x, y, turns, i);
    });
  each_row<kMade, T>(p, [&](const T* x, T* y, const auto& turns) __attribute__((always_inline)) {
    auto turn = [&](int64_t i, auto c, auto s, int count) __attribute__((always_inline)) {
      constexpr int W = decltype(c)::kWidth;
      const auto t = product<Pack<A, W>>({get<W>(x + i, count), get<W>(x + half + i, count)}, {c, s});
      put<W>(y + i, t.cosine, count, past);
      put<W>(y + half + i, t.sine, count, past);
    };
    auto turn_whole = [&](int64_t i, auto width) __attribute__((always_inline)) {
      const auto both = turns.template at<decltype(width)::value>(i);
      turn(i, both.cosine, both.sine, width);
    };
    int64_t i = 0;
    for (; i < twices; i += 2 * N) twice(x, y, turns, i);
    for (; i + N <= half; i += N) turn_whole(i, std::integral_constant<int, N>{});
    if constexpr (kMade && N > 1)
      for (; i < half; ++i) turn_whole(i, std::integral_constant<int, 1>{});
    else if constexpr (N > 1)
      if (const int rest = int(half - i)) turn(i, get<N>(turns.cosine + i, rest), get<N>(turns.sine + i, rest), rest);
    copy_rest(p, x, y);
  });
}
template <bool kMade, class T, bool kLook> __attribute__((noinline)) void interleaved_rows(const RopeRows& p) {
  constexpr int N = kLanes<Acc<T>>;
  const int64_t half = p.half;
  each_row<kMade, T>(p, [&](const T* x, T* y, const auto& turns) __attribute__((always_inline)) {
    auto turn = [&](int64_t i, auto width, bool past) __attribute__((always_inline)) {
      constexpr int W = decltype(width)::value;
      const auto [a, b] = load_apart<W>(x + 2 * i);
      const auto t = product<Pack<Acc<T>, W>>({a, b}, turns.template at<W>(i));
      store_by_turns_rounded<T, W, !kLook>(y + 2 * i, t.cosine, t.sine, past);
    };
    int64_t i = 0;
    if constexpr (N > 1)
      for (; i + N <= half; i += N) turn(i, std::integral_constant<int, N>{}, p.past);
    for (; i < half; ++i) turn(i, std::integral_constant<int, 1>{}, false);
    copy_rest(p, x, y);
  });
}
// Rows that are written past the caches, so that x stays, and long enough for a change of modes: subnormal results are looked for where one was noted.
template <class T, class Rows> void flushed(const RopeRows& p, Rows rows) {
  constexpr int64_t kLeast = 8192;
  if constexpr (kFlushes<T>)
    if (p.past && p.rows * p.heads * p.outer * p.n >= kLeast && ran_without_subnormals<RopeRows>(rows(std::false_type()), p)) return;
  rows(std::true_type())(p);
}
template <class T> void half_split(const RopeRows& p) {
  flushed<T>(p, [&]<bool kLook>(std::bool_constant<kLook>) { return p.make ? &half_split_rows<true, T, kLook> : &half_split_rows<false, T, kLook>; });
}
template <class T> void interleaved(const RopeRows& p) {
  flushed<T>(p, [&]<bool kLook>(std::bool_constant<kLook>) { return p.make ? &interleaved_rows<true, T, kLook> : &interleaved_rows<false, T, kLook>; });
}

constexpr PositionKernels make() {
  return {&fill_digits, by_dtype<void (*)(const RopeTable&)>(Floating{}, []<class T>() { return &table<Acc<T>, Product<T>>; }),
          by_dtype<void (*)(const RopeRows&)>(Floating{}, []<class T>() { return &half_split<T>; }),
          by_dtype<void (*)(const RopeRows&)>(Floating{}, []<class T>() { return &interleaved<T>; })};
}

}  // namespace
extern constexpr PositionKernels position_kernels = make();
}  // namespace BARACUDA_ISA
}  // namespace baracuda
