// Selection for a device of compute capability 9.0 by what the driver chose of this build for it, without a GPU: rows whose kernels have the
// instructions of sm_90a refuse where the code is another's. Launched there they would do nothing.
#include <gtest/gtest.h>
#include <algorithm>
#include "baracuda/core/registry.hpp"
#include "baracuda/device/code.hpp"

namespace {
baracuda::device::CodeFacts code_that_runs;
}
// The linker sends the half's calls here.
extern "C" int __wrap_cudaGetDevice(int* device) { return *device = 0; }
extern "C" int __wrap__ZN8baracuda6device9find_codeERNS0_9CodeFactsE(baracuda::device::CodeFacts& code) {
  code = code_that_runs;
  return 0;
}

namespace baracuda {
namespace {

constexpr std::string_view kRefusal = "what runs on this device was not built for sm_90a";
struct Case { std::string_view op, row; std::vector<KeyValue> problem; bool elsewhere; };  // elsewhere: it asks for more, a library or a device, that is not here
const Case kCases[] = {
    {"flash_sdpa", "flash_sdpa.cuda.wgmma", {{"dtype", "bf16"}, {"q_len", "256"}, {"k_len", "256"}}, false},
    {"flash_sdpa", "flash_sdpa.cuda.split", {{"dtype", "bf16"}, {"q_len", "1"}, {"k_len", "4096"}}, false},
    {"flash_sdpa_backward", "flash_sdpa_backward.cuda.wgmma", {{"dtype", "bf16"}, {"q_len", "256"}, {"k_len", "256"}}, false},
    {"gemm", "gemm.cuda.wgmma", {{"dtype", "bf16"}, {"m", "512"}, {"n", "512"}, {"k", "512"}}, false},
    {"fused_linear_cross_entropy", "fused_linear_cross_entropy.cuda.kept",
     {{"dtype", "bf16"}, {"tokens", "512"}, {"hidden", "4096"}, {"classes", "1024"}, {"grad_x", "true"}, {"grad_w", "true"}}, true},
    {"fused_linear_cross_entropy", "fused_linear_cross_entropy.cuda.fused",
     {{"dtype", "bf16"}, {"tokens", "512"}, {"hidden", "4096"}, {"classes", "1024"}, {"grad_x", "true"}, {"grad_w", "true"}}, true},
    {"softmax", "softmax.cuda.spread", {{"dtype", "bf16"}, {"shape", "4,262144"}}, true},
    {"softmax_backward", "softmax_backward.cuda.spread", {{"dtype", "bf16"}, {"shape", "4,262144"}}, true},
    {"layer_norm", "layer_norm.cuda.spread", {{"dtype", "bf16"}, {"shape", "4,262144"}}, true},
    {"layer_norm_backward", "layer_norm_backward.cuda.spread", {{"dtype", "bf16"}, {"shape", "4,262144"}}, true},
    {"rms_norm", "rms_norm.cuda.spread", {{"dtype", "bf16"}, {"shape", "4,262144"}}, true},
    {"rms_norm_backward", "rms_norm_backward.cuda.spread", {{"dtype", "bf16"}, {"shape", "4,262144"}}, true}};

// What the row says; "" where it accepts.
std::string reason(const OpInfo& op, const Case& c) {
  const Stream stream{{DeviceKind::cuda, 0}, 90, nullptr};
  const auto told = op.explain(stream, c.problem, {.require_kernel = c.row});
  EXPECT_TRUE(told.ok()) << told.status().to_string();
  if (!told.ok()) return {};
  for (const RowVerdict& v : told->rows)
    if (v.kernel == c.row) return v.accepted ? std::string() : v.reason;
  ADD_FAILURE() << "no row " << c.row;
  return {};
}

TEST(CudaCode, RowsOfSm90aAskWhichCodeRuns) {
  for (const Case& c : kCases) {
    const OpInfo* op = find_op(c.op);
    if (!op) continue;  // a build of other families
    SCOPED_TRACE(c.row);
    for (const int arch : {80, 90}) {  // PTX for an older architecture, and code for 9.0 without the letter
      code_that_runs = {arch, false};
      EXPECT_NE(reason(*op, c).find(kRefusal), std::string::npos) << reason(*op, c);
    }
    code_that_runs = {90, true};
    const std::string why = reason(*op, c);
    if (c.elsewhere) EXPECT_EQ(why.find(kRefusal), std::string::npos) << why;
    else EXPECT_EQ(why, "");
  }
}
// So that a row to come is not forgotten above: every row that needs 9.0 is in the list or among those whose kernels any code of 9.0 has.
TEST(CudaCode, EveryRowOfNinePointZeroIsKnown) {
  const std::string_view clusters[] = {"softmax.cuda.cluster", "softmax_backward.cuda.cluster", "layer_norm.cuda.cluster", "layer_norm_backward.cuda.cluster", "rms_norm.cuda.cluster",
                                       "rms_norm_backward.cuda.cluster"};
  for (const OpInfo& op : registry())
    for (const RowInfo& row : op.rows()) {
      if (row.device != DeviceKind::cuda || row.min_arch < 90) continue;
      const bool asks = std::any_of(std::begin(kCases), std::end(kCases), [&](const Case& c) { return c.row == row.name; });
      EXPECT_TRUE(asks || std::find(std::begin(clusters), std::end(clusters), row.name) != std::end(clusters)) << row.name;
    }
}

}  // namespace
}  // namespace baracuda
