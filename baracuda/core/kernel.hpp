#pragma once
// A kernel row: one way to compute an op. A family lists its rows best first, as data; Plan<Op>::select walks the list.
#include <memory>
#include "baracuda/core/fields.hpp"
#include "baracuda/core/guarantee.hpp"
#include "baracuda/core/workspace.hpp"

namespace baracuda {

// What a kernel is given. `threads` is the most workers that the plan's workspace was sized for.
template <class Op> struct Launch {
  const Stream& stream;
  Workspace workspace;
  const typename Op::Descriptor& desc;
  const typename Op::Args& args;
  int threads;
  const void* state;  // what the row's prepare() made, null without one

  Carver carver() const { return Carver(workspace, threads); }
};
template <class Op> using Launcher = Status (*)(const Launch<Op>&);
using PlanState = std::shared_ptr<const void>;

template <class Op> struct Kernel {
  using Descriptor = typename Op::Descriptor;
  std::string_view name;                  // family.device.strategy, for example "rms_norm.cpu.row"
  DeviceKind device = DeviceKind::cpu;
  Backend backend = Backend::baracuda;
  int min_arch = 0;                       // CUDA: oldest compute capability, 80 for 8.0
  ByDType<Launcher<Op>> launch;           // by the descriptor's dtype; a null entry is a dtype that the row lacks
  PrecisionGuarantee (*guarantee)(const Descriptor&) = nullptr;
  // "" accepts; otherwise why not, in words that go into the error message.
  std::string (*refuse)(const Descriptor&, const PlanPreference&) = nullptr;
  // Takes the row's scratch from the carver, in one order; null: the row needs none.
  void (*carve)(const Descriptor&, const void* state, Carver&) = nullptr;
  // Made once at select time and kept by the plan: library primitives, inner plans, the arrangement chosen for
  // preference.max_workspace. Immutable afterwards.
  Result<PlanState> (*prepare)(const Stream&, const Descriptor&, const PlanPreference&) = nullptr;
  // What the row asks of the arguments beyond what the op's check() does, for kernels of a library that were made for one arrangement.
  Status (*check)(const Descriptor&, const typename Op::Args&) = nullptr;
};

// The same launcher for every dtype of a list: CPU rows look the loop up in an instruction-set table.
template <class Op, class... T> constexpr ByDType<Launcher<Op>> launch_all(TypeList<T...>, Launcher<Op> f) {
  ByDType<Launcher<Op>> table;
  ((table[kDTypeOf<T>] = f), ...);
  return table;
}
template <class Op> constexpr DTypeSet served(const Kernel<Op>& k) {
  DTypeSet set;
  for (size_t t = 0; t < kDTypes; ++t)
    if (k.launch.entry[t]) set.mask |= 1u << t;
  return set;
}

// What select found out about one row.
struct RowVerdict {
  std::string_view kernel;
  bool accepted;
  std::string reason;  // why it refused; for an accepted row that was not chosen, that it stands behind the chosen one
};

// --- checks that every family uses in its validate() and check()
Status invalid(std::string_view op, std::string message);
// The tensor has this dtype and this shape.
Status expect(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape);
// The tensor has this dtype and as many elements as `shape`, the natural one, in any shape.
Status expect_elements(std::string_view op, std::string_view arg, const TensorView& v, DType dtype, const Shape& shape);
// For an argument that may be one of several things: refuses it in the words "arg what" and names one that is taken.
// What expect(), expect_elements() and unexpected() ask for is what AnyPlan::arguments() tells, so that it cannot differ.
Status unexpected(std::string_view op, std::string_view arg, DType dtype, const std::optional<Shape>& shape, std::string_view what);
// While it lives, what the last refusal on this thread would have taken.
class Expectation {
 public:
  Expectation();
  ~Expectation();
  Expectation(const Expectation&) = delete;
  Expectation& operator=(const Expectation&) = delete;
  std::string arg;  // empty: nothing was refused for its dtype or shape
  DType dtype = DType::f32;
  std::optional<Shape> shape;

 private:
  Expectation* outer_;
};
// The descriptor's shape is a shape.
Status expect_shape(std::string_view op, std::string_view field, const Shape& shape, int min_rank = 0);
// What holds for any argument of any op: presence, device, rank of the strides, alignment, no output whose elements
// share memory through a zero stride.
Status check_argument(std::string_view op, std::string_view arg, const TensorView& v, Role role, Device device);
// The tensors of one argument of a call: one, or those of a list.
struct ArgTensors {
  std::string_view name;
  const TensorView* views;
  size_t count;
  bool written, list;
};
// Whether the op allows that `out` is the memory of `in`, with the same shape, strides and size of an element.
using InPlace = bool (*)(const void* desc, std::string_view out, std::string_view in);
// No tensor that is written shares memory with another one, unless it is that tensor and in_place (null: nothing is) allows it.
// Tensors that are interleaved without sharing an element are apart.
Status check_apart(std::string_view op, std::span<const ArgTensors> all, InPlace in_place, const void* desc);
Status wrong_stream(std::string_view op, Device plan, Device stream);
Status check_workspace(std::string_view op, std::string_view kernel, Workspace w, uint64_t needed);
// The view's memory as [rows, n] with one row pitch: the last axis dense, the others one arithmetic progression (which
// every contiguous tensor and every slice of columns is). False where strides do not allow it.
bool as_rows(const TensorView& v, int64_t& pitch);

}  // namespace baracuda
