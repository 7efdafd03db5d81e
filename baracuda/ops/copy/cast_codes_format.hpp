#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace baracuda {

enum class E8m0Rounding : uint8_t { nearest, up, down };
constexpr std::array<std::string_view, 3> enum_names(E8m0Rounding) { return {"nearest", "up", "down"}; }
enum class CodeFormat : uint8_t { e2m1, int4, uint4 };
constexpr std::array<std::string_view, 3> enum_names(CodeFormat) { return {"e2m1", "int4", "uint4"}; }

}  // namespace baracuda
