#pragma once
// Small helpers for messages: text(...) joins its arguments.
#include <concepts>
#include <string>
#include <string_view>
#include "baracuda/core/dtype.hpp"
#include "baracuda/core/shape.hpp"

namespace baracuda {

std::string number(double v);  // shortest form that reads back the same; inf and nan by name
inline void append_text(std::string& s, std::string_view part) { s += part; }
inline void append_text(std::string& s, const Dims& d) { s += to_string(d); }
inline void append_text(std::string& s, DType t) { s += name(t); }
inline void append_text(std::string& s, const char* part) { s += part; }
template <std::same_as<bool> T> void append_text(std::string& s, T b) { s += b ? "true" : "false"; }
template <std::integral T> requires(!std::same_as<T, bool> && !std::same_as<T, char>) void append_text(std::string& s, T v) { s += std::to_string(v); }
template <std::floating_point T> void append_text(std::string& s, T v) { s += number(double(v)); }

template <class... Part> std::string text(const Part&... parts) {
  std::string s;
  (append_text(s, parts), ...);
  return s;
}
std::string to_string(DTypeSet set);  // "f16 bf16 f32"

}  // namespace baracuda
