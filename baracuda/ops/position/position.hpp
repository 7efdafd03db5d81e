#pragma once
// Positions in attention: rotary embedding, ALiBi slopes, appending to a key-value cache.
//
// Rope (Su et al., "RoFormer", 2021) turns pairs of each head vector by an angle p f_i, i < rotary_dim / 2:
//   y_a = x_a cos(p f_i) - x_b sin(p f_i),  y_b = x_b cos(p f_i) + x_a sin(p f_i),  f_i = theta^(-2 i / rotary_dim)
// half_split (Llama, NeoX) pairs a = i with b = i + rotary_dim / 2; interleaved (GPT-J) a = 2 i with b = 2 i + 1.
// Elements from rotary_dim on are copied. scaling = llama3 divides the frequencies whose wavelength 2 pi / f is above
// original_context / low_freq_factor by `factor`, keeps those below original_context / high_freq_factor, and blends between;
// linear divides every frequency by it (Chen et al., "Extending context window of large language models via positional interpolation", 2023).
// The gradient is the same turn by -p f_i.
//
// Shapes: x, y, dy, dx [B, H, S, D]; positions i32 or i64, [S] or [B, S], any strides; without them p = offset + s.
// Positions may be negative. Dtypes f16 bf16 f32 f64. Strides: the last axis dense, the others any ([B, S, H, D]
// memory as a view). In place: y may be x (same strides).
// Numerics: angles from the integer position and frequencies of twice f64's length, sine and cosine in f64, used as f32 (f64
// for f64; halves: their last product in f32); then two roundings, and one to dtype. An angle is off by about |p| 2^-62, so f32 sees it exact for |p| < 2^36.
// Workspace: a table of sines and cosines of 64 positions per thread; on CUDA those of 20 digits.
// Guarantee: deterministic, batch invariant: a row depends on its position alone, however the position was given.
#include <span>
#include "baracuda/core/plan.hpp"

namespace baracuda {

enum class RopePairing : uint8_t { half_split, interleaved };
constexpr std::array<std::string_view, 2> enum_names(RopePairing) { return {"half_split", "interleaved"}; }
enum class RopeScaling : uint8_t { none, llama3, linear };
constexpr std::array<std::string_view, 3> enum_names(RopeScaling) { return {"none", "llama3", "linear"}; }

inline constexpr int64_t kMostRotaryDim = 65536;  // a plan keeps sines for each pair
struct RopeDescriptor {
  DType dtype = DType::f32;
  Shape shape;
  RopePairing pairing = RopePairing::half_split;
  std::optional<int64_t> rotary_dim;
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 8192;
  static constexpr auto fields() {
    using D = RopeDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of x and y"), field("shape", &D::shape, "[B, H, S, D]"),
                      field("pairing", &D::pairing, "which elements turn together"),
                      field("rotary_dim", &D::rotary_dim, "even, at most D (the default) and 65536"), field("theta", &D::theta, "base of the frequencies, positive"),
                      field("scaling", &D::scaling, "of the frequencies, for longer contexts"), field("factor", &D::factor, "llama3: of the slow ones; linear: of all"),
                      field("low_freq_factor", &D::low_freq_factor, "llama3"), field("high_freq_factor", &D::high_freq_factor, "llama3, above low_freq_factor"),
                      field("original_context", &D::original_context, "llama3"));
  }
};

struct Rope {
  static constexpr std::string_view name = "rope", category = "position", summary = "rotary position embedding";
  using Descriptor = RopeDescriptor;
  struct Args {
    TensorView x, positions, y;
    int64_t offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("x", &Args::x, Role::in), arg("positions", &Args::positions, Role::optional_in, "[S] or [B, S], i32 or i64"),
                        arg("y", &Args::y, Role::out), arg("offset", &Args::offset, Role::value, "position of s = 0; 0 where positions are given"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "y" && in == "x"; }
  static std::span<const Kernel<Rope>> kernels();
};
using RopePlan = Plan<Rope>;

struct RopeBackward {
  static constexpr std::string_view name = "rope_backward", category = "position", summary = "gradient of rope: the turn back";
  using Descriptor = RopeDescriptor;
  struct Args {
    TensorView dy, positions, dx;
    int64_t offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("dy", &Args::dy, Role::in), arg("positions", &Args::positions, Role::optional_in, "as in the forward"),
                        arg("dx", &Args::dx, Role::out), arg("offset", &Args::offset, Role::value, "as in the forward"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static bool in_place(const Descriptor&, std::string_view out, std::string_view in) { return out == "dx" && in == "dy"; }
  static std::span<const Kernel<RopeBackward>> kernels();
};
using RopeBackwardPlan = Plan<RopeBackward>;

// Slopes of ALiBi (Press, Smith, Lewis, 2021), f32 [H]. With P the largest power of two up to H: 2^(-max_bias (h + 1) / P)
// for h < P; the further heads take every other slope of 2 P heads, 2^(-max_bias (2 (h - P) + 1) / (2 P)).
struct AlibiSlopesDescriptor {
  DType dtype = DType::f32;
  int64_t heads = 0;
  double max_bias = 8;
  static constexpr auto fields() {
    using D = AlibiSlopesDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of the slopes, f32"), field("heads", &D::heads, "H"),
                      field("max_bias", &D::max_bias, "the last slope of P heads is 2^-max_bias"));
  }
};
struct AlibiSlopes {
  static constexpr std::string_view name = "alibi_slopes", category = "position", summary = "one slope per head";
  using Descriptor = AlibiSlopesDescriptor;
  struct Args {
    TensorView slopes;
    static constexpr auto args() { return std::tuple(arg("slopes", &Args::slopes, Role::out, "[H], any stride")); }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<AlibiSlopes>> kernels();
};
using AlibiSlopesPlan = Plan<AlibiSlopes>;

// k_cache[b, h, at_b + s, :] = k[b, h, s, :], and the same for v: at_b is `offset`, or lengths[b] where lengths are given.
// k [B, H, S, D], v [B, H, S, Dv], caches [B, H, capacity, D or Dv]; lengths i32 or i64 [B]. The last axis dense, the
// others of any strides; bits are copied. Tokens that do not fit, at_b < 0 or at_b + S > capacity, refuse the run with
// invalid_problem before anything is written; on CUDA, where a run does not wait for lengths, the tokens of such a batch are not
// written. Workspace: none.
struct KvCacheAppendDescriptor {
  DType dtype = DType::f32;
  int64_t batch = 0, heads = 0, tokens = 0, capacity = 0, head_dim = 0;
  std::optional<int64_t> value_dim;
  static constexpr auto fields() {
    using D = KvCacheAppendDescriptor;
    return std::tuple(field("dtype", &D::dtype, "of every tensor but lengths"), field("batch", &D::batch, "B"),
                      field("heads", &D::heads, "H, of keys and values"), field("tokens", &D::tokens, "S, tokens to append"),
                      field("capacity", &D::capacity, "tokens that a cache holds"), field("head_dim", &D::head_dim, "D"),
                      field("value_dim", &D::value_dim, "Dv, D by default"));
  }
};
struct KvCacheAppend {
  static constexpr std::string_view name = "kv_cache_append", category = "position", summary = "writes keys and values behind those in a cache";
  using Descriptor = KvCacheAppendDescriptor;
  struct Args {
    TensorView k, v, lengths, k_cache, v_cache;
    int64_t offset = 0;
    static constexpr auto args() {
      return std::tuple(arg("k", &Args::k, Role::in), arg("v", &Args::v, Role::in),
                        arg("lengths", &Args::lengths, Role::optional_in, "[B]: tokens that each cache holds"),
                        arg("k_cache", &Args::k_cache, Role::inout), arg("v_cache", &Args::v_cache, Role::inout),
                        arg("offset", &Args::offset, Role::value, "tokens that every cache holds; 0 where lengths are given"));
    }
  };
  static Status validate(const Descriptor&);
  static Status check(const Descriptor&, const Args&);
  static std::span<const Kernel<KvCacheAppend>> kernels();
};
using KvCacheAppendPlan = Plan<KvCacheAppend>;

}  // namespace baracuda
