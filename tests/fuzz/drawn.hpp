#pragma once
// Tensors for any plan: what AnyPlan::arguments() tells, in memory of exactly that size, with values drawn at random.
#include <optional>
#include "problem.hpp"

namespace baracuda::fuzz {

// Memory between guard bytes, 0xff at first. AddressSanitizer sees instrumented code touch the guards; damage() what other
// code wrote there.
class Memory {
 public:
  explicit Memory(uint64_t bytes, uint64_t alignment = 16);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return base_ + guard_; }
  uint64_t bytes() const { return bytes_; }
  // A byte outside that was written, relative to data().
  std::optional<int64_t> damage() const;

 private:
  void guard(bool closed) const;
  static constexpr uint64_t kGuard = 128;
  char* base_ = nullptr;
  uint64_t bytes_, guard_;
};

// One tensor argument, of a list all its tensors.
struct Drawn {
  ArgInfo info;
  DType dtype = DType::f32;
  std::vector<Shape> shapes;
  bool given = false, padded = false;  // padded: rows with a gap behind
  std::vector<TensorView> views;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::vector<char>> start;  // what a run finds: values, in outputs 0xff
  void restore();
  // Makes views and memory; false where that would be too large.
  bool allocate(Random& r, int64_t most_elements);
};
struct DrawRules {
  int64_t most_elements = 4096;  // of a tensor
  bool padded = true;            // some tensors may have gaps
  bool generous = false;         // every optional argument that the plan takes; else some
  int64_t least = -2;            // of integers, where they are small
  std::vector<Shape> open = {};  // of the tensors whose shape the descriptor leaves open; else one of a few elements
};
// The arguments of the plan; nothing where they are too large or it takes none of the combinations tried.
std::optional<std::vector<Drawn>> draw_arguments(const AnyPlan& plan, Random& r, const DrawRules& rules);
// Those that are given, as a caller passes them.
std::vector<ArgValue> values(const std::vector<Drawn>& drawn);
// The same bits, or NaN both.
bool same_element(DType t, const char* a, const char* b);

}  // namespace baracuda::fuzz
