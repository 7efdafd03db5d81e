#pragma once
// Field lists. A descriptor and its arguments name their members once; equality, hash, printing, parsing (CLI, C,
// Python) and the one-line repro come from that list, and a static_assert compares it with the aggregate's arity, so
// that no field can be forgotten.
//
//   struct Descriptor {
//     DType dtype = DType::f32;
//     Shape shape;
//     static constexpr auto fields() {
//       return std::tuple(field("dtype", &Descriptor::dtype, "of x and y"), field("shape", &Descriptor::shape));
//     }
//   };
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include "baracuda/core/status.hpp"
#include "baracuda/core/tensor.hpp"
#include "baracuda/core/text.hpp"

namespace baracuda {

template <class S, class T> struct Field {
  std::string_view name;
  T S::*member;
  std::string_view help;
};
template <class S, class T> constexpr Field<S, T> field(std::string_view name, T S::*member, std::string_view help = {}) {
  return {name, member, help};
}

// What a plan does with an argument.
enum class Role : uint8_t { in, optional_in, out, optional_out, inout, optional_inout, value };
constexpr std::string_view name(Role r) {
  constexpr std::string_view names[] = {"in", "optional in", "out", "optional out", "inout", "optional inout", "value"};
  return names[int(r)];
}
constexpr bool optional(Role r) { return r == Role::optional_in || r == Role::optional_out || r == Role::optional_inout; }
constexpr bool written(Role r) { return r != Role::in && r != Role::optional_in && r != Role::value; }
template <class S, class T> struct ArgField : Field<S, T> { Role role; };
template <class S, class T> constexpr ArgField<S, T> arg(std::string_view name, T S::*member, Role role, std::string_view help = {}) {
  return {{name, member, help}, role};
}

namespace fields_detail {
struct Any { template <class T> constexpr operator T() const { __builtin_unreachable(); } };
template <class S, size_t... I> constexpr bool takes(std::index_sequence<I...>) { return requires { S{(void(I), Any{})...}; }; }
}  // namespace fields_detail
// Number of members of an aggregate.
template <class S, size_t N = 0> constexpr size_t arity() {
  if constexpr (fields_detail::takes<S>(std::make_index_sequence<N + 1>{})) return arity<S, N + 1>();
  else return N;
}
template <class S> constexpr bool fields_complete() { return std::tuple_size_v<decltype(S::fields())> == arity<S>(); }
template <class S, class F> constexpr void for_each_field(F&& f) {
  std::apply([&](const auto&... each) { (f(each), ...); }, S::fields());
}

// Enums in descriptors name their values: constexpr std::array<std::string_view, N> enum_names(E), found beside E.
template <class E> concept NamedEnum = std::is_enum_v<E> && requires(E e) { enum_names(e); };
template <NamedEnum E> constexpr std::string_view enum_name(E e) {
  constexpr auto names = enum_names(E{});
  return size_t(e) < names.size() ? names[size_t(e)] : std::string_view("invalid");
}
template <NamedEnum E> constexpr bool valid_enum(E e) { return size_t(e) < enum_names(E{}).size(); }

// --- printing
template <class T> std::string field_text(const T& v) {
  if constexpr (NamedEnum<T>) return std::string(enum_name(v));
  else if constexpr (requires { v.has_value(); }) return v ? field_text(*v) : std::string("none");
  else return text(v);
}
template <class T> constexpr std::string_view field_type() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, DType>) return "dtype";
  else if constexpr (std::is_base_of_v<Dims, T>) return "ints";
  else if constexpr (NamedEnum<T>) return "enum";
  else if constexpr (std::is_integral_v<T>) return "int";
  else if constexpr (std::is_floating_point_v<T>) return "float";
  else return field_type<typename T::value_type>();
}
void append_field(std::string& out, std::string_view name, const std::string& value);
// "dtype=f32 shape=[2, 3]": every field, in order.
template <class S> std::string describe(const S& s) {
  std::string out;
  for_each_field<S>([&](const auto& f) { append_field(out, f.name, field_text(s.*f.member)); });
  return out;
}

// --- equality and hash
template <class S> bool same_fields(const S& a, const S& b) {
  bool same = true;
  for_each_field<S>([&](const auto& f) { same = same && a.*f.member == b.*f.member; });
  return same;
}
inline void hash_mix(size_t& h, uint64_t v) {  // splitmix64 finaliser
  v += 0x9e3779b97f4a7c15u + h;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  h = v ^ (v >> 31);
}
template <class T> void hash_value(size_t& h, const T& v) {
  if constexpr (std::is_base_of_v<Dims, T>) {
    hash_mix(h, uint64_t(v.rank));
    for (int i = 0; i < v.rank && i < kMaxRank; ++i) hash_mix(h, uint64_t(v.dim[i]));
  } else if constexpr (std::is_floating_point_v<T>) hash_mix(h, __builtin_bit_cast(uint64_t, double(v) + 0.0));
  else if constexpr (requires { v.has_value(); }) { hash_mix(h, v.has_value()); if (v) hash_value(h, *v); }
  else hash_mix(h, uint64_t(v));
}
template <class S> size_t hash_fields(const S& s) {
  size_t h = 0;
  for_each_field<S>([&](const auto& f) { hash_value(h, s.*f.member); });
  return h;
}

// --- parsing: the error names the field and what it takes
Status parse_value(std::string_view field, std::string_view text, bool& v);
Status parse_value(std::string_view field, std::string_view text, int& v);
Status parse_value(std::string_view field, std::string_view text, int64_t& v);
Status parse_value(std::string_view field, std::string_view text, double& v);
Status parse_value(std::string_view field, std::string_view text, DType& v);
Status parse_value(std::string_view field, std::string_view text, Dims& v);  // "2,3", "[2, 3]"; "" and "[]" are rank 0
int match_name(std::string_view text, std::span<const std::string_view> names);
Status no_such_name(std::string_view field, std::string_view text, std::span<const std::string_view> names);
template <NamedEnum E> Status parse_value(std::string_view field, std::string_view text, E& v) {
  static constexpr auto names = enum_names(E{});
  const int i = match_name(text, names);
  if (i < 0) return no_such_name(field, text, names);
  v = E(i);
  return {};
}
template <class T> Status parse_value(std::string_view field, std::string_view text, std::optional<T>& v) {
  if (text == "none") { v.reset(); return {}; }
  T value{};
  BARACUDA_TRY(parse_value(field, text, value));
  v = value;
  return {};
}
Status no_such_field(std::string_view key, std::span<const std::string_view> names);
// Sets the field called `key`; invalid_problem with the list of fields when there is none.
template <class S> Status set_field(S& s, std::string_view key, std::string_view value) {
  return std::apply([&](const auto&... f) {
    Status status;
    const bool found = ((f.name == key && (status = parse_value(key, value, s.*f.member), true)) || ...);
    if (!found) return no_such_field(key, std::array{f.name...});
    return status;
  }, S::fields());
}

}  // namespace baracuda
