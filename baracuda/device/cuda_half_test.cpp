// The CUDA half as it was built, on any machine: it loads, says what it was built for, lists rows that keep the rules of rows, and
// where there is no GPU a CUDA stream is refused in words that name what is missing.
#include <gtest/gtest.h>
#include <cstdlib>
#include <set>
#include "baracuda/core/cuda_half.hpp"
#include "baracuda/core/registry.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using testing::expect_refused;

class CudaHalfTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("BARACUDA_CUDA_LIBRARY", BARACUDA_CUDA_HALF, 0); }
};

TEST_F(CudaHalfTest, Loads) {
  const auto half = cuda_half();
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_STREQ((*half)->build_id, build_id());
  EXPECT_FALSE((*half)->architectures.empty());
}
TEST_F(CudaHalfTest, RowsAreOfOpsThatExist) {
  const auto half = cuda_half();
  ASSERT_TRUE(half.ok());
  std::set<std::string_view> ops;
  for (const CudaRows& rows : (*half)->rows) {
    EXPECT_TRUE(find_op(rows.op)) << rows.op;
    EXPECT_GT(rows.count, 0u) << rows.op;
    EXPECT_TRUE(ops.insert(rows.op).second) << rows.op << " is listed twice";
  }
  int rows = 0;
  for (const OpInfo& op : registry())
    for (const auto& row : op.rows()) {
      if (row.device != DeviceKind::cuda) continue;
      ++rows;
      EXPECT_TRUE(ops.count(op.name)) << op.name;
      EXPECT_NE(row.name.find(".cuda."), std::string_view::npos) << row.name;
    }
  EXPECT_GE(rows, int(ops.size()));
}
TEST_F(CudaHalfTest, AStreamWorksOrSaysWhatIsMissing) {
  const auto s = Stream::cuda();
  if (s.ok()) {
    EXPECT_GE(s->arch, 80);
    expect_refused(Stream::cuda(nullptr, 1000).status(), Code::unsupported, {"device 1000"});
    return;
  }
  EXPECT_EQ(name(s.status().code()), name(Code::unsupported));
  const std::string m = s.status().message();
  EXPECT_TRUE(m.find("driver") != std::string::npos || m.find("device") != std::string::npos) << m;
  // What needs the device fails with the same words, and the CPU goes on.
  EXPECT_FALSE(allocate({DeviceKind::cuda, 0}, 256).ok());
  EXPECT_TRUE(allocate({DeviceKind::cpu, 0}, 0).ok());
}

}  // namespace
}  // namespace baracuda
