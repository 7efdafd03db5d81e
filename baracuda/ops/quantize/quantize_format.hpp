#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace baracuda {

enum class PackedFormat : uint8_t { nf4, mxfp4, nvfp4, int4 };
constexpr std::array<std::string_view, 4> enum_names(PackedFormat) { return {"nf4", "mxfp4", "nvfp4", "int4"}; }
// The first of two codes is the byte's high four bits.
constexpr bool high_first(PackedFormat format) { return format == PackedFormat::nf4; }

}  // namespace baracuda
