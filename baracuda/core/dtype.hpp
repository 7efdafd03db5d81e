#pragma once
// Element types: one enum, one table of facts, one way from a run-time tag to a C++ type. Host and device.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baracuda {

enum class DType : uint8_t {
  boolean, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz,
  c64, c128, i4, u4, count
};
inline constexpr size_t kDTypes = size_t(DType::count);

// 16-bit floats as stored; arithmetic on them happens in float (math/element.hpp converts).
struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
// 8-bit floats of four exponent bits and three of fraction, or five and two. fn: no infinities, NaN is all ones; fnuz: neither
// infinities nor -0, whose code is the only NaN.
struct f8_e4m3fn { uint8_t bits; };
struct f8_e5m2 { uint8_t bits; };
struct f8_e4m3fnuz { uint8_t bits; };
struct f8_e5m2fnuz { uint8_t bits; };

struct DTypeFacts {
  std::string_view name;
  int bits;            // storage of one element; 4 for the packed types
  bool floating, complex, is_signed;
};
inline constexpr DTypeFacts kDTypeFacts[kDTypes] = {
    {"bool", 8, false, false, false},  {"i8", 8, false, false, true},     {"u8", 8, false, false, false},
    {"i16", 16, false, false, true},   {"u16", 16, false, false, false},  {"i32", 32, false, false, true},
    {"u32", 32, false, false, false},  {"i64", 64, false, false, true},   {"u64", 64, false, false, false},
    {"f16", 16, true, false, true},    {"bf16", 16, true, false, true},   {"f32", 32, true, false, true},
    {"f64", 64, true, false, true},    {"f8_e4m3fn", 8, true, false, true}, {"f8_e5m2", 8, true, false, true},
    {"f8_e4m3fnuz", 8, true, false, true}, {"f8_e5m2fnuz", 8, true, false, true},
    {"c64", 64, true, true, true},     {"c128", 128, true, true, true},   {"i4", 4, false, false, true},
    {"u4", 4, false, false, false}};
constexpr bool valid(DType t) { return t < DType::count; }
constexpr std::string_view name(DType t) { return valid(t) ? kDTypeFacts[size_t(t)].name : "invalid dtype"; }
constexpr int bit_size(DType t) { return kDTypeFacts[size_t(t)].bits; }
// Bytes of one element; 0 for the packed 4-bit types, whose views count pairs.
constexpr size_t byte_size(DType t) { return size_t(kDTypeFacts[size_t(t)].bits) / 8; }
constexpr bool is_floating(DType t) { return kDTypeFacts[size_t(t)].floating; }
constexpr bool is_complex(DType t) { return kDTypeFacts[size_t(t)].complex; }
// The complex dtype of a real one's numbers and the other way round: f32 and c64, f64 and c128; count for the others.
constexpr DType counterpart(DType t) {
  return t == DType::f32 ? DType::c64 : t == DType::f64 ? DType::c128 : t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : DType::count;
}

template <class T> struct Element;
#define BARACUDA_ELEMENT(T, TAG, ACC) \
  template <> struct Element<T> { static constexpr DType tag = DType::TAG; using Acc = ACC; };
BARACUDA_ELEMENT(bool, boolean, int64_t)
BARACUDA_ELEMENT(int8_t, i8, int64_t)
BARACUDA_ELEMENT(uint8_t, u8, int64_t)
BARACUDA_ELEMENT(int16_t, i16, int64_t)
BARACUDA_ELEMENT(uint16_t, u16, int64_t)
BARACUDA_ELEMENT(int32_t, i32, int64_t)
BARACUDA_ELEMENT(uint32_t, u32, int64_t)
BARACUDA_ELEMENT(int64_t, i64, int64_t)
BARACUDA_ELEMENT(uint64_t, u64, uint64_t)
BARACUDA_ELEMENT(f16, f16, float)
BARACUDA_ELEMENT(bf16, bf16, float)
BARACUDA_ELEMENT(float, f32, float)
BARACUDA_ELEMENT(double, f64, double)
BARACUDA_ELEMENT(f8_e4m3fn, f8_e4m3fn, float)
BARACUDA_ELEMENT(f8_e5m2, f8_e5m2, float)
BARACUDA_ELEMENT(f8_e4m3fnuz, f8_e4m3fnuz, float)
BARACUDA_ELEMENT(f8_e5m2fnuz, f8_e5m2fnuz, float)
#undef BARACUDA_ELEMENT
template <class T> using Acc = typename Element<T>::Acc;
template <class T> inline constexpr DType kDTypeOf = Element<T>::tag;
// The type that sums and statistics of a dtype are kept in.
constexpr DType accumulator(DType t) {
  return t == DType::f64 || t == DType::c128 ? t : t == DType::c64 ? DType::c64 : is_floating(t) ? DType::f32
       : t == DType::u64 ? DType::u64 : DType::i64;
}

template <class... T> struct TypeList { static constexpr size_t size = sizeof...(T); };
template <class... A, class... B> constexpr TypeList<A..., B...> join(TypeList<A...>, TypeList<B...>) { return {}; }
using Floating = TypeList<f16, bf16, float, double>;
using Float8 = TypeList<f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz>;  // stored and cast; ops compute in the wider ones
using Integers = TypeList<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;

// A row of values indexed by dtype; a default-constructed entry means "not served".
template <class T> struct ByDType {
  T entry[kDTypes] = {};
  constexpr const T& operator[](DType t) const { return entry[size_t(t)]; }
  constexpr T& operator[](DType t) { return entry[size_t(t)]; }
};
// A set of dtypes as a bit mask.
struct DTypeSet {
  uint32_t mask = 0;
  constexpr bool has(DType t) const { return valid(t) && (mask >> unsigned(t) & 1); }
  friend constexpr bool operator==(DTypeSet, DTypeSet) = default;
};
template <class... T> constexpr DTypeSet dtypes(TypeList<T...>) {
  return {((1u << unsigned(kDTypeOf<T>)) | ... | 0u)};
}
constexpr bool is_float8(DType t) { return dtypes(Float8{}).has(t); }
// by_dtype<Table>(list): calls f.template operator()<T>() for each type of the list and stores the results.
template <class Entry, class... T, class F> constexpr ByDType<Entry> by_dtype(TypeList<T...>, F f) {
  ByDType<Entry> table;
  ((table[kDTypeOf<T>] = f.template operator()<T>()), ...);
  return table;
}
// The single switch from a run-time tag to a type; `otherwise` is returned for a tag that the list lacks.
template <class... T, class F, class R> R visit_dtype(TypeList<T...>, DType t, R otherwise, F f) {
  R result = otherwise;
  (void)((t == kDTypeOf<T> ? (result = f.template operator()<T>(), true) : false) || ...);
  return result;
}

}  // namespace baracuda
