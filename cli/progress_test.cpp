#include "cli/progress.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace baracuda::cli {
namespace {

TEST(Progress, durations) {
  EXPECT_EQ(duration(0), "0:00");
  EXPECT_EQ(duration(59.6), "1:00");
  EXPECT_EQ(duration(3723), "1:02:03");
  EXPECT_EQ(duration(-1), "-:--");
  EXPECT_EQ(duration(INFINITY), "-:--");
  EXPECT_EQ(duration(NAN), "-:--");
}

TEST(Progress, plain_lines_carry_every_bit_of_the_loss) {
  EXPECT_EQ(progress_line(3, 2.5f), "step 3 loss 2.5");
  for (const float loss : {5.545177f, 1.0000001f, 0.1f, 3e-39f}) {
    const std::string line = progress_line(1, loss);
    EXPECT_EQ(strtof(line.c_str() + line.rfind(' '), nullptr), loss);
  }
}

TEST(Progress, the_bar_fits_the_terminal) {
  for (const int width : {1, 10, 40, 60, 80, 200}) {
    const std::string bar = progress_bar({50, 100, 1.23456f, 12345, 65}, width);
    EXPECT_LE(int(bar.size()), width);
    if (width >= 80) { EXPECT_NE(bar.find("50/100  loss 1.2346  12345 tokens/s  1:05 left"), std::string::npos) << bar; }
  }
  EXPECT_EQ(progress_bar({1, 2, 1, 1, 1}, 100).find("####################...................."), 1u);
}

TEST(Progress, writes_plain_lines_where_there_is_no_terminal) {
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  {
    Progress p(out, 7, 9, 100);
    p.step(8, 1.5f);
    p.step(9, 1.25f);
  }
  fclose(out);
  EXPECT_STREQ(text, "step 8 loss 1.5\nstep 9 loss 1.25\n");
  free(text);
}

}  // namespace
}  // namespace baracuda::cli
