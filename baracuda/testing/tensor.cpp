#include "baracuda/testing/tensor.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif

namespace baracuda::testing {
namespace {

constexpr int kGuard = 256;          // bytes on both sides; keeps the 64-byte alignment of the first element
constexpr uint8_t kPoison = 0xff;    // NaN in every float but the fnuz ones, -1 or the largest value in integers
constexpr uint8_t kGuardByte = 0xa5;

// Written from the format, not with the library's conversions: exponent bits, mantissa bits, and nearest-even by nearbyint.
double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1), exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(1.0 + std::ldexp(double(mantissa), -mantissa_bits), int(exponent) - bias);
}
uint32_t encode(double v, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t top = (1u << exponent_bits) - 1, sign = std::signbit(v) ? 1u << (exponent_bits + mantissa_bits) : 0;
  if (std::isnan(v)) return sign | top << mantissa_bits | 1u << (mantissa_bits - 1);
  double a = std::fabs(v);
  if (a == 0) return sign;
  int e = std::isinf(a) ? bias + 2 : std::ilogb(a);
  if (e < 1 - bias) e = 1 - bias;
  if (e <= bias) {
    const double units = std::nearbyint(std::ldexp(a, mantissa_bits - e));  // ties to even
    if (units >= std::ldexp(1.0, mantissa_bits + 1)) ++e, a = std::ldexp(1.0, e);
    else a = std::ldexp(units, e - mantissa_bits);
  }
  if (e > bias) return sign | top << mantissa_bits;
  if (a < std::ldexp(1.0, 1 - bias)) return sign | uint32_t(std::ldexp(a, bias - 1 + mantissa_bits));
  return sign | uint32_t(e + bias) << mantissa_bits | (uint32_t(std::ldexp(a, mantissa_bits - e)) & ((1u << mantissa_bits) - 1));
}
// Every value of a 16-bit format, made once: tests read them by the million.
template <int kExponentBits, int kMantissaBits> double decode16(uint16_t bits) {
  static const std::vector<double> all = [] {
    std::vector<double> v;
    for (uint32_t b = 0; b < 1 << 16; ++b) v.push_back(decode(b, kExponentBits, kMantissaBits));
    return v;
  }();
  return all[bits];
}
// 8-bit floats, by the definition of each and by search.
double decode8(DType t, unsigned code) {
  const bool e4 = t == DType::f8_e4m3fn || t == DType::f8_e4m3fnuz, fnuz = t == DType::f8_e4m3fnuz || t == DType::f8_e5m2fnuz;
  const int digits = e4 ? 3 : 2, bias = (e4 ? 7 : 15) + fnuz, magnitude = int(code & 0x7f), exponent = magnitude >> digits, rest = magnitude & ((1 << digits) - 1);
  if (fnuz ? code == 0x80 : e4 ? magnitude == 0x7f : magnitude > 0x7c) return std::nan("");
  const double sign = code & 0x80 ? -1 : 1;
  if (!fnuz && !e4 && magnitude == 0x7c) return sign * INFINITY;
  return sign * (exponent ? std::ldexp((1 << digits) + rest, exponent - bias - digits) : std::ldexp(rest, 1 - bias - digits));
}
uint8_t encode8(DType t, double v) {
  const bool fnuz = t == DType::f8_e4m3fnuz || t == DType::f8_e5m2fnuz;
  const unsigned largest = fnuz ? 0x7f : t == DType::f8_e4m3fn ? 0x7e : 0x7b, sign = std::signbit(v) ? 0x80 : 0, nan = fnuz ? 0x80 : 0x7f | sign;
  if (std::isnan(v)) return uint8_t(nan);
  const double a = std::fabs(v), most = decode8(t, largest), beyond = most + (most - decode8(t, largest - 1)) / 2;
  if (a > beyond || (a == beyond && largest % 2)) return uint8_t(t == DType::f8_e5m2 ? 0x7c | sign : nan);
  unsigned best = 0;
  for (unsigned c = 1; c <= largest; ++c) {
    const double near = std::fabs(decode8(t, c) - a), so_far = std::fabs(decode8(t, best) - a);
    if (near < so_far || (near == so_far && c % 2 == 0)) best = c;
  }
  return uint8_t(best == 0 && fnuz ? 0 : best | sign);
}
template <class T> T load(const void* p) { T v; std::memcpy(&v, p, sizeof v); return v; }
template <class T> double get(const void* p) { return double(load<T>(p)); }
template <class T> void put(void* p, T v) { std::memcpy(p, &v, sizeof v); }

}  // namespace

double read_element(DType t, const void* p) {
  switch (t) {
    case DType::f64: return get<double>(p);
    case DType::f32: return get<float>(p);
    case DType::f16: return decode16<5, 10>(load<uint16_t>(p));
    case DType::bf16: return decode16<8, 7>(load<uint16_t>(p));
    case DType::f8_e4m3fn: case DType::f8_e5m2: case DType::f8_e4m3fnuz: case DType::f8_e5m2fnuz: return decode8(t, *static_cast<const uint8_t*>(p));
    case DType::i64: return get<int64_t>(p);
    case DType::i32: return get<int32_t>(p);
    case DType::i16: return get<int16_t>(p);
    case DType::i8: return get<int8_t>(p);
    case DType::u64: return get<uint64_t>(p);
    case DType::u32: return get<uint32_t>(p);
    case DType::u16: return get<uint16_t>(p);
    case DType::u8: case DType::boolean: return get<uint8_t>(p);
    default: return std::nan("");
  }
}
void write_element(DType t, void* p, double v) {
  switch (t) {
    case DType::f64: return put<double>(p, v);
    case DType::f32: return put<float>(p, float(v));
    case DType::f16: return put<uint16_t>(p, uint16_t(encode(v, 5, 10)));
    case DType::bf16: return put<uint16_t>(p, uint16_t(encode(v, 8, 7)));
    case DType::f8_e4m3fn: case DType::f8_e5m2: case DType::f8_e4m3fnuz: case DType::f8_e5m2fnuz: return put<uint8_t>(p, encode8(t, v));
    case DType::i64: return put<int64_t>(p, int64_t(v));
    case DType::i32: return put<int32_t>(p, int32_t(v));
    case DType::i16: return put<int16_t>(p, int16_t(v));
    case DType::i8: return put<int8_t>(p, int8_t(v));
    case DType::u64: return put<uint64_t>(p, uint64_t(v));
    case DType::u32: return put<uint32_t>(p, uint32_t(v));
    case DType::u16: return put<uint16_t>(p, uint16_t(v));
    case DType::u8: return put<uint8_t>(p, uint8_t(v));
    case DType::boolean: return put<uint8_t>(p, v != 0);
    default: return;
  }
}
double rounded(DType t, double v) {
  alignas(8) char buffer[8];
  write_element(t, buffer, v);
  return read_element(t, buffer);
}

namespace {
char* first_element(const std::vector<uint8_t>& memory) {
  char* base = reinterpret_cast<char*>(const_cast<uint8_t*>(memory.data())) + kGuard;
  return base + (64 - uintptr_t(base) % 64) % 64;
}
}  // namespace

Tensor::Tensor(DType dtype, Shape shape, Layout layout) {
  Strides s = shape.contiguous();
  const int r = shape.rank;
  int64_t elements = shape.numel(), offset = 0;
  const bool can = r > 0 && elements > 0;
  auto scale = [&](int64_t row) {  // strides for a last axis that takes `row` elements of memory
    int64_t step = row;
    for (int i = r - 2; i >= 0; --i) s[i] = step, step *= shape[i];
    elements = step;
  };
  if (can && layout == Layout::padded) scale(shape[r - 1] + 5);
  if (can && layout == Layout::every_other) scale(2 * shape[r - 1]), s[r - 1] = 2;
  if (can && layout == Layout::reversed) s[r - 1] = -1, offset = shape[r - 1] - 1;
  if (can && layout == Layout::outer_reversed) offset = s[0] * (shape[0] - 1), s[0] = -s[0];
  if (can && layout == Layout::transposed && r > 1) s[r - 1] = shape[r - 2], s[r - 2] = 1;
  const size_t size = byte_size(dtype);
  memory_.assign(size_t(elements) * size + 2 * kGuard + 64, kGuardByte);
  view_ = {first_element(memory_) + size_t(offset) * size, dtype, {}, shape, s};
  dense_ = view_.contiguous();
  poison();
  close_guards();
}
void Tensor::close_guards() const {
  const uint8_t* first = reinterpret_cast<const uint8_t*>(first_element(memory_));
  const size_t before = size_t(first - memory_.data()), used = memory_.size() - 2 * kGuard - 64;
  close_memory(memory_.data(), before);
  close_memory(first + used, memory_.size() - before - used);
}
Tensor::Tensor(const Tensor& other) : memory_(other.memory_.size(), kGuardByte), view_(other.view_), dense_(other.dense_) {
  if (memory_.empty()) return;
  char* from = first_element(other.memory_);
  char* to = first_element(memory_);
  std::memcpy(to, from, memory_.size() - 2 * kGuard - 64);
  view_.data = to + (static_cast<char*>(other.view_.data) - from);
  close_guards();
}
Tensor::Tensor(DType dtype, Shape shape, const std::vector<double>& values, Layout layout) : Tensor(dtype, shape, layout) {
  if (int64_t(values.size()) != shape.numel()) throw std::logic_error("test tensor: value count does not match the shape");
  for (size_t i = 0; i < values.size(); ++i) set(int64_t(i), values[i]);
}
Tensor Tensor::normal(DType dtype, Shape shape, uint64_t seed, double mean, double std, Layout layout) {
  Tensor t(dtype, shape, layout);
  Source source(seed);
  for (int64_t i = 0, n = t.numel(); i < n; ++i) t.set(i, mean + std * source.normal());
  return t;
}
Tensor Tensor::uniform(DType dtype, Shape shape, uint64_t seed, double low, double high, Layout layout) {
  Tensor t(dtype, shape, layout);
  Source source(seed);
  for (int64_t i = 0, n = t.numel(); i < n; ++i) t.set(i, low + (high - low) * source.uniform());
  return t;
}
Tensor Tensor::integers(DType dtype, Shape shape, uint64_t seed, int64_t low, int64_t high_exclusive) {
  Tensor t(dtype, shape);
  Source source(seed);
  for (int64_t i = 0, n = t.numel(); i < n; ++i) t.set(i, double(low + int64_t(source.next() % uint64_t(high_exclusive - low))));
  return t;
}
void* Tensor::address(int64_t i) const {
  int64_t offset = dense_ ? i : 0;
  for (int a = dense_ ? -1 : view_.shape.rank - 1; a >= 0; --a) {
    offset += i % view_.shape[a] * view_.strides[a];
    i /= view_.shape[a];
  }
  return static_cast<char*>(view_.data) + offset * int64_t(byte_size(view_.dtype));
}
std::vector<double> Tensor::values() const {
  std::vector<double> v(static_cast<size_t>(numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = at(int64_t(i));
  return v;
}
std::vector<uint8_t> Tensor::element_bytes() const {
  const size_t size = byte_size(view_.dtype);
  std::vector<uint8_t> bytes(size_t(view_.absent() ? 0 : numel()) * size);
  if (dense_ && !bytes.empty()) std::memcpy(bytes.data(), view_.data, bytes.size());
  else for (size_t i = 0; i < bytes.size() / size; ++i) std::memcpy(&bytes[i * size], address(int64_t(i)), size);
  return bytes;
}
void Tensor::poison() {
  const size_t size = byte_size(view_.dtype);
  const int64_t n = numel();
  if (dense_) std::memset(view_.data, kPoison, size_t(n) * size);
  else for (int64_t i = 0; i < n; ++i) std::memset(address(i), kPoison, size);
}
bool Tensor::guards_intact() const {
  if (memory_.empty()) return true;
  open_memory(memory_.data(), memory_.size());
  const std::vector<uint8_t> memory = memory_;
  close_guards();
  const auto intact = [&](size_t from, size_t to) { return std::all_of(memory.begin() + from, memory.begin() + to, [](uint8_t b) { return b == kGuardByte; }); };
  const size_t size = byte_size(view_.dtype), n = size_t(numel());
  if (dense_) {
    const size_t first = size_t(static_cast<uint8_t*>(view_.data) - memory_.data());
    return intact(0, first) && intact(first + n * size, memory.size());
  }
  std::vector<bool> element(memory.size());
  for (size_t i = 0; i < n; ++i) {
    const size_t at = size_t(static_cast<uint8_t*>(address(int64_t(i))) - memory_.data());
    for (size_t b = 0; b < size; ++b) element[at + b] = true;
  }
  for (size_t i = 0; i < memory.size(); ++i)
    if (!element[i] && memory[i] != kGuardByte) return false;
  return true;
}
#if __has_include(<sanitizer/asan_interface.h>)
void close_memory(const void* at, size_t bytes) { ASAN_POISON_MEMORY_REGION(at, bytes); }
void open_memory(const void* at, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(at, bytes); }
#else
void close_memory(const void*, size_t) {}
void open_memory(const void*, size_t) {}
#endif

uint64_t Source::next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double Source::uniform() { return double(next() >> 11) * 0x1p-53; }
double Source::normal() {
  const double u = 1 - uniform(), v = uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace baracuda::testing
