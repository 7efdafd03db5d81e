// The C functions on any bytes: a text that says an op and its fields (as for fuzz_descriptor), then tensors whose every
// member is drawn at random over memory of known size. Nothing may crash, and every refusal has words.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "baracuda.h"
#include "problem.hpp"

using namespace baracuda;

namespace {

void require(baracuda_code code) {
  baracuda_code last = BARACUDA_OK;
  if (code == BARACUDA_OK) return;
  const char* words = baracuda_last_error(&last, nullptr, nullptr);
  if (words && *words && last == code) return;
  std::fprintf(stderr, "code %d without words\n", int(code));
  std::abort();
}
constexpr uint64_t kBytes = 4096;

// What the plan asks for, now and then with one thing changed.
struct Tensor {
  DLTensor t{};
  int64_t shape[10] = {}, strides[10] = {};
  uint64_t capacity = kBytes;
  alignas(64) char memory[kBytes];
};
void draw(Tensor& x, const baracuda_argument& a, fuzz::Random& r) {
  x.t.data = r.one_in(20) ? nullptr : x.memory;
  x.t.device = {r.one_in(30) ? kDLCUDA : r.one_in(30) ? kDLVulkan : kDLCPU, 0};
  x.t.dtype = a.dtype;
  if (r.one_in(20)) x.t.dtype = {uint8_t(r.below(8)), uint8_t(8 << r.below(5)), uint16_t(r.below(3))};
  x.t.ndim = r.one_in(20) ? int(r.below(12)) - 1 : a.ndim;
  for (int i = 0; i < 10; ++i) {
    x.shape[i] = r.one_in(20) ? int64_t(r.next()) >> r.below(64) : i < 8 ? a.shape[i] : 1;
    x.strides[i] = r.one_in(2) ? int64_t(r.below(9)) - 2 : int64_t(r.next()) >> r.below(64);
  }
  x.t.shape = r.one_in(30) ? nullptr : x.shape;
  x.t.strides = r.one_in(3) && x.t.ndim <= 10 ? x.strides : nullptr;
  x.t.byte_offset = r.one_in(10) ? r.next() >> r.below(64) : 0;
  std::memset(x.memory, 0, kBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const fuzz::Problem p = fuzz::parse_problem(text);
  std::vector<std::string> words;
  for (const KeyValue& s : p.settings) words.emplace_back(s.key), words.emplace_back(s.value);
  std::vector<baracuda_setting> fields;
  for (size_t i = 0; i < words.size(); i += 2) fields.push_back({words[i].c_str(), words[i + 1].c_str()});
  const std::string op = text.substr(0, text.find('\n'));
  baracuda_plan* plan = nullptr;
  require(baracuda_plan_create(op.c_str(), fields.data(), fields.size(), nullptr, 0, nullptr, &plan));
  if (!plan) return 0;
  size_t count = 0;
  uint64_t bytes = 0;
  require(baracuda_plan_argument_count(plan, &count));
  require(baracuda_plan_workspace_size(plan, &bytes));
  fuzz::Random r(p.seed + size);
  std::vector<Tensor> tensors(count);
  std::vector<const DLTensor*> pointers(count);
  std::vector<baracuda_arg> args;
  for (size_t i = 0; i < count; ++i) {
    baracuda_argument a;
    require(baracuda_plan_argument(plan, i, &a));
    if (!std::strcmp(a.presence, "unused") || (std::strcmp(a.presence, "required") && r.one_in(2))) continue;
    draw(tensors[i], a, r);
    pointers[i] = r.one_in(60) ? nullptr : &tensors[i].t;
    baracuda_arg arg{};
    arg.name = r.one_in(60) ? nullptr : a.name;
    arg.kind = std::strncmp(a.type, "tensor", 6) ? BARACUDA_INT : r.one_in(60) ? baracuda_kind(r.below(6)) : BARACUDA_TENSORS;
    arg.tensors = &pointers[i], arg.count = 1, arg.capacity = &tensors[i].capacity;  // without it nothing would keep a stride inside
    if (arg.kind != BARACUDA_TENSORS) arg.number.i = int64_t(r.below(4));
    args.push_back(arg);
  }
  require(baracuda_plan_can_implement(plan, args.data(), args.size()));
  if (bytes <= (1 << 20)) {
    std::vector<char> scratch(bytes + 512);
    const size_t at = size_t(256 - uintptr_t(scratch.data()) % 256) + (r.one_in(20) ? 8 : 0);
    require(baracuda_plan_run(plan, nullptr, r.one_in(20) ? nullptr : scratch.data() + at, bytes, args.data(), args.size()));
  }
  baracuda_plan_destroy(plan);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  fuzz::Random random(seed);
  if (random.one_in(4)) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = fuzz::mutate_problem({reinterpret_cast<const char*>(data), size}, random);
  const size_t n = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), n);
  return n;
}
