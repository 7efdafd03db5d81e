#include "baracuda/core/guarantee.hpp"
#include "baracuda/core/fields.hpp"

namespace baracuda {

std::string to_string(const PrecisionGuarantee& g) {
  std::string s = text("math ", g.tf32 ? std::string_view("tf32") : name(g.math_precision), ", accumulator ", name(g.accumulator));
  s += g.deterministic ? ", deterministic" : ", not deterministic";
  if (g.bit_stable_on_same_hardware) s += ", bit-stable on the same hardware";
  if (g.batch_invariant) s += ", batch invariant";
  if (g.same_on_cpu_and_cuda) s += ", same bits on CPU and CUDA";
  return s;
}

std::string to_string(const KernelSku& s) {
  std::string t = text(s.category, ".", s.op, " ", s.dtype);
  if (s.aux_dtype != s.dtype) t += text("/", s.aux_dtype);
  t += text(" ", s.layout);
  if (s.epilogue != "none") t += text(" +", s.epilogue);
  t += text(" on ", name(s.device));
  if (s.arch) t += text(" sm_", s.arch);
  return t + text(": ", s.kernel, " (", name(s.backend), ")");
}

size_t hash(const KernelSku& s) {
  size_t h = 0;
  for (std::string_view part : {s.category, s.op, s.kernel, s.layout, s.epilogue}) hash_mix(h, std::hash<std::string_view>{}(part));
  const PrecisionGuarantee& g = s.guarantee;
  for (int v : {int(s.dtype), int(s.aux_dtype), int(s.backend), int(s.device), s.arch, int(g.math_precision), int(g.tf32),
                int(g.accumulator), int(g.deterministic), int(g.bit_stable_on_same_hardware), int(g.batch_invariant),
                int(g.same_on_cpu_and_cuda)})
    hash_mix(h, uint64_t(v));
  return h;
}

}  // namespace baracuda
