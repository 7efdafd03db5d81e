#include "baracuda/ops/shape/select_n.hpp"
#include <bit>
#include <cstring>
#include "baracuda/ops/shape/select_n_cpu.hpp"
#include "baracuda/ops/shape/shape_detail.hpp"

namespace baracuda {
namespace {

using namespace shape_detail;

constexpr int kGroup = kMapOperands - 2;  // cases of one walk, beside which and y (or dy)
constexpr int64_t kStep = 1024;           // elements at a time where every operand is dense: the indices stay in L1
constexpr int64_t kMostCases = INT32_MAX;

auto places_of(const SelectNKernels& k, DType t) { return t == DType::boolean ? k.from_bool : t == DType::i32 ? k.from_i32 : k.from_i64; }

// Calls f(walk, first element, count, the cases' indices) for blocks of the walk's elements.
template <class F> void for_blocks(const MapWalk& walk, int which, DType t, int64_t last, int threads, F f) {
  const auto places = places_of(BARACUDA_ISA_PICK(select_n_kernels), t);
  const int64_t step = walk.direct() ? kStep : kMapBlock;
  parallel_for(walk.size(), kPiece, threads, [&](int64_t begin, int64_t end, int) {
    alignas(64) int32_t at[kStep];
    alignas(64) char block[kMapBlock * 16];
    for (int64_t i = begin, n; i < end; i += n) {
      n = walk.stretch(i, std::min(step, end - i));
      places(walk.fetch(which, i, n, block, true), last, at, n);
      f(i, n, at);
    }
  });
}
// The index of a select that has only one.
int64_t one_place(const SelectNDescriptor& d, const TensorView& which, int64_t cases) {
  int32_t at = 0;
  places_of(BARACUDA_ISA_PICK(select_n_kernels), d.which_dtype)(which.data, cases - 1, &at, 1);
  return at;
}

Status run_select(const Launch<SelectN>& l) {
  const auto& [which, x, y] = l.args;
  if (y.numel() == 0) return {};
  if (l.desc.which.rank == 0) return copy_elements(x[size_t(one_place(l.desc, which, int64_t(x.size())))], y, l.threads), Status();
  const SelectNKernels& kernels = BARACUDA_ISA_PICK(select_n_kernels);
  const int size = std::countr_zero(byte_size(l.desc.dtype));
  const int64_t cases = int64_t(x.size());
  for (int64_t first = 0; first < cases; first += kGroup) {
    const int m = int(std::min<int64_t>(kGroup, cases - first));
    MapOperand in[kMapOperands] = {MapOperand::of(which)}, out = MapOperand::of(y);
    for (int k = 0; k < m; ++k) in[1 + k] = MapOperand::of(x[size_t(first + k)]);
    MapWalk walk;
    walk.init(l.desc.shape, {in, size_t(m) + 1}, {&out, 1});
    for_blocks(walk, 0, l.desc.which_dtype, cases - 1, l.threads, [&](int64_t i, int64_t n, const int32_t* at) {
      alignas(64) char blocks[2][kMapBlock * 16];
      void* to = walk.fetch(m + 1, i, n, blocks[0], first > 0);
      for (int k = 0; k < m; ++k) {
        const void* from = walk.fetch(1 + k, i, n, blocks[1], true);
        if (first + k == 0) std::memcpy(to, from, size_t(n) << size);
        else kernels.keep[size](at, int32_t(first + k), from, to, n);
      }
      walk.put(m + 1, i, n, to);
    });
  }
  return {};
}
Status run_backward(const Launch<SelectNBackward>& l) {
  const auto& [dy, which, dx] = l.args;
  if (dy.numel() == 0) return {};
  const int64_t cases = int64_t(dx.size());
  if (l.desc.which.rank == 0) {
    const int64_t at = one_place(l.desc, which, cases);
    for (int64_t k = 0; k < cases; ++k) {
      if (!dx[size_t(k)].data) continue;
      if (k == at) copy_elements(dy, dx[size_t(k)], l.threads);
      else fill_bits(dx[size_t(k)], {}, l.threads);
    }
    return {};
  }
  const SelectNKernels& kernels = BARACUDA_ISA_PICK(select_n_kernels);
  const int size = std::countr_zero(byte_size(l.desc.dtype));
  const MapOperand in[] = {MapOperand::of(which), MapOperand::of(dy)};
  for (int64_t next = 0; next < cases;) {
    MapOperand out[kGroup];
    int32_t place[kGroup];
    int m = 0;
    for (; next < cases && m < kGroup; ++next)
      if (dx[size_t(next)].data) out[m] = MapOperand::of(dx[size_t(next)]), place[m++] = int32_t(next);
    if (m == 0) break;
    MapWalk walk;
    walk.init(l.desc.shape, in, {out, size_t(m)});
    for_blocks(walk, 0, l.desc.which_dtype, cases - 1, l.threads, [&](int64_t i, int64_t n, const int32_t* at) {
      alignas(64) char blocks[2][kMapBlock * 16];
      const void* from = walk.fetch(1, i, n, blocks[0], true);
      for (int k = 0; k < m; ++k) {
        void* to = walk.fetch(2 + k, i, n, blocks[1], false);
        kernels.keep_only[size](at, place[k], from, to, n);
        walk.put(2 + k, i, n, to);
      }
    });
  }
  return {};
}

Status validate_select(std::string_view op, const SelectNDescriptor& d) {
  BARACUDA_TRY(validate_base(op, d));
  if (d.which_dtype != DType::boolean && d.which_dtype != DType::i32 && d.which_dtype != DType::i64)
    return invalid(op, text("which_dtype ", valid(d.which_dtype) ? name(d.which_dtype) : "", " is not bool, i32 or i64"));
  if (d.which.rank != 0 && !(d.which == d.shape)) return invalid(op, text("which ", d.which, " is neither the shape of y, ", d.shape, ", nor []"));
  return {};
}
Status check_cases(std::string_view op, std::string_view role, const SelectNDescriptor& d, Tensors cases, Role as, Device device) {
  const int64_t n = int64_t(cases.size());
  if (n == 0 || n > (d.which_dtype == DType::boolean ? 2 : kMostCases))
    return unexpected(op, role, d.dtype, d.shape, text("has ", n, " tensors, 1 to ", d.which_dtype == DType::boolean ? "2 for bool" : "2^31 - 1", " are needed"));
  for (size_t k = 0; k < cases.size(); ++k) {
    const std::string who = text(role, "[", k, "]");
    if (as == Role::in || cases[k].data) BARACUDA_TRY(check_argument(op, who, cases[k], as, device));
    BARACUDA_TRY(expect(op, who, cases[k], d.dtype, d.shape));
  }
  return {};
}

}  // namespace

Status SelectN::validate(const Descriptor& d) { return validate_select(name, d); }
Status SelectN::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "which", a.which, d.which_dtype, d.which));
  BARACUDA_TRY(expect(name, "y", a.y, d.dtype, d.shape));
  return check_cases(name, "x", d, a.x, Role::in, a.y.device);
}
std::span<const Kernel<SelectN>> SelectN::kernels() {
  static constexpr Kernel<SelectN> list[] = {{.name = "select_n.cpu.blend", .launch = launch_whole_bytes<SelectN>(run_select), .guarantee = exact<SelectN>}};
  return list;
}

Status SelectNBackward::validate(const Descriptor& d) { return validate_select(name, d); }
Status SelectNBackward::check(const Descriptor& d, const Args& a) {
  BARACUDA_TRY(expect(name, "dy", a.dy, d.dtype, d.shape));
  BARACUDA_TRY(expect(name, "which", a.which, d.which_dtype, d.which));
  return check_cases(name, "dx", d, a.dx, Role::out, a.dy.device);
}
std::span<const Kernel<SelectNBackward>> SelectNBackward::kernels() {
  static constexpr Kernel<SelectNBackward> list[] = {
      {.name = "select_n_backward.cpu.blend", .launch = launch_whole_bytes<SelectNBackward>(run_backward), .guarantee = exact<SelectNBackward>}};
  return list;
}

}  // namespace baracuda
