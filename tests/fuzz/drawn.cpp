#include "drawn.hpp"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include "baracuda/testing/tensor.hpp"

namespace baracuda::fuzz {

Memory::Memory(uint64_t bytes, uint64_t alignment) : bytes_(bytes), guard_(std::max<uint64_t>(alignment, kGuard)) {
  void* p = nullptr;
  if (posix_memalign(&p, std::max<uint64_t>(alignment, 64), bytes + guard_ + kGuard) != 0) std::abort();
  base_ = static_cast<char*>(p);
  std::memset(base_, 0xa5, bytes + guard_ + kGuard);
  std::memset(data(), 0xff, bytes);
  guard(true);
}
Memory::~Memory() { guard(false), std::free(base_); }
void Memory::guard(bool closed) const {
  const auto set = closed ? testing::close_memory : testing::open_memory;
  set(base_, guard_), set(data() + bytes_, kGuard);
}
std::optional<int64_t> Memory::damage() const {
  guard(false);
  std::optional<int64_t> found;
  for (uint64_t i = 0; i < guard_ + kGuard && !found; ++i) {
    const int64_t at = i < guard_ ? int64_t(i) - int64_t(guard_) : int64_t(bytes_ + i - guard_);
    if (static_cast<unsigned char>(data()[at]) != 0xa5) found = at;
  }
  guard(true);
  return found;
}

namespace {

enum class Values { small, wild };
void fill(Memory& m, DType t, Values values, int64_t least, Random& r) {
  const size_t size = byte_size(t);
  int64_t rising = 0;
  const bool rises = r.one_in(2);
  for (uint64_t i = 0; size && i + size <= m.bytes(); i += size) {
    uint64_t bits = r.next();
    if (t == DType::boolean) bits &= 1;  // any other byte is no bool
    else if (!is_floating(t) && values == Values::small) bits = uint64_t(rises ? rising += int64_t(r.below(3)) * (i > 0) : int64_t(r.below(12)) + least);
    else if (values == Values::small && t == DType::f32) { const float f = float(int64_t(bits) >> 32) * 0x1p-30f; std::memcpy(&bits, &f, sizeof f); }
    else if (values == Values::small && t == DType::f64) { const double f = double(int64_t(bits)) * 0x1p-62; std::memcpy(&bits, &f, sizeof f); }
    else if (values == Values::small && t == DType::bf16) bits = (bits & 0x803f) | 0x3f80;
    else if (values == Values::small && t == DType::f16) bits &= 0xbfff;
    const uint64_t both[2] = {bits, bits};  // of the 16-byte types
    std::memcpy(m.data() + i, both, size);
  }
}

}  // namespace

void Drawn::restore() {
  for (size_t i = 0; i < start.size(); ++i) std::copy(start[i].begin(), start[i].end(), memory[i]->data());
}
bool Drawn::allocate(Random& r, int64_t most_elements) {
  views.clear(), memory.clear();
  for (const Shape& shape : shapes) {
    const int64_t n = shape.numel();
    if (n < 0 || n > most_elements || byte_size(dtype) == 0) return false;
    Strides s = shape.contiguous();
    int64_t elements = n;
    if (padded && shape.rank > 1 && n > 0) {
      int64_t step = shape[shape.rank - 1] + 1 + int64_t(r.below(3));
      for (int a = shape.rank - 2; a >= 0; --a) s[a] = step, step *= shape[a];
      elements = step;
    }
    memory.push_back(std::make_unique<Memory>(uint64_t(elements) * byte_size(dtype)));
    views.push_back({memory.back()->data(), dtype, {}, shape, s});
  }
  return true;
}

std::optional<std::vector<Drawn>> draw_arguments(const AnyPlan& plan, Random& r, const DrawRules& rules) {
  const auto arguments = plan.arguments();
  if (!arguments.ok()) return {};
  std::vector<Drawn> drawn;
  const bool padded = rules.padded && r.one_in(3), generous = rules.generous || r.one_in(2);
  const Shape any{1 + int64_t(r.below(4)), int64_t(r.below(40))};
  for (const Argument& a : *arguments) {
    if (!a.tensor() || a.presence == Argument::Presence::unused) continue;
    Drawn d{a.info};
    d.given = a.presence == Argument::Presence::required || rules.generous || (generous && r.one_in(2));
    d.padded = padded && r.one_in(2);
    d.dtype = a.dtype.value_or(DType::f32);
    if (a.shape) d.shapes = {*a.shape};
    else if (a.info.type == "tensors" && !rules.open.empty()) d.shapes = rules.open;
    else d.shapes = {any};
    if (d.given && !d.allocate(r, rules.most_elements)) return {};
    drawn.push_back(std::move(d));
  }
  // Memory of the host that the plan takes for its device's: nothing is run here.
  const auto lie = [&](Device device) {
    for (Drawn& d : drawn)
      for (TensorView& v : d.views) v.device = device;
  };
  auto status = [&] {
    lie(plan.device());
    const Status s = plan.can_implement(values(drawn));
    lie({});
    return s;
  };
  Status s = status();
  // Not every op takes such strides, nor every optional argument without another.
  for (Drawn& d : drawn)
    if (d.padded && d.given && !s.ok()) d.padded = false, (void)d.allocate(r, rules.most_elements), s = status();
  for (Drawn& d : drawn)
    if (d.given && optional(d.info.role) && !s.ok()) d.given = false, s = status();
  if (!s.ok()) return {};
  for (Drawn& d : drawn) {
    if (!d.given) continue;
    const Values values = r.one_in(4) ? Values::wild : Values::small;
    for (auto& m : d.memory) {
      if (d.info.role != Role::out && d.info.role != Role::optional_out) fill(*m, d.dtype, values, rules.least, r);
      d.start.emplace_back(m->data(), m->data() + m->bytes());
    }
  }
  return drawn;
}
std::vector<ArgValue> values(const std::vector<Drawn>& drawn) {
  std::vector<ArgValue> list;
  for (const Drawn& d : drawn)
    if (d.given) list.push_back({d.info.name, d.views, {}});
  return list;
}
bool same_element(DType t, const char* a, const char* b) {
  if (std::memcmp(a, b, byte_size(t)) == 0) return true;
  if (is_complex(t)) {
    const DType part = counterpart(t);
    return same_element(part, a, b) && same_element(part, a + byte_size(part), b + byte_size(part));
  }
  return (t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64) && std::isnan(testing::read_element(t, a)) && std::isnan(testing::read_element(t, b));
}

}  // namespace baracuda::fuzz
