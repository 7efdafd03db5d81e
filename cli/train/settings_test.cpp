#include "cli/train/settings.hpp"

#include <gtest/gtest.h>

namespace baracuda::cli {
namespace {

TEST(Settings, presets_are_valid_and_found) {
  for (const Preset& p : presets()) {
    EXPECT_TRUE(validate(p.settings).ok()) << p.name << ": " << validate(p.settings).message();
    EXPECT_EQ(find_preset(p.name), &p);
  }
  EXPECT_EQ(find_preset("huge"), nullptr);
  EXPECT_NEAR(double(parameters(find_preset("124m")->settings)), 124e6, 1e6);
}

TEST(Settings, text_round_trip) {
  const Settings& s = find_preset("124m")->settings;
  Settings back;
  for_each_field<Settings>([&](const auto& f) { ASSERT_TRUE(set_field(back, f.name, field_text(s.*f.member)).ok()) << f.name; });
  EXPECT_TRUE(same_fields(s, back));
}

TEST(Settings, nonsense_is_refused_in_one_line) {
  const struct { const char *key, *value, *message; } cases[] = {
      {"vocabulary", "255", "vocabulary is 255: must be in [256"}, {"layers", "0", "layers is 0: must be in [1"},
      {"layers", "-3", "layers is -3"},                            {"width", "130", "width is 130: must be a multiple of heads, 4"},
      {"width", "12", "width / heads is 3: must be even"},         {"heads", "1", "heads is 1: must be a multiple of kv_heads"},
      {"kv_heads", "3", "heads is 4: must be a multiple of kv_heads, 3"}, {"context", "0", "context is 0"},
      {"steps", "0", "steps is 0"},                                {"batch", "0", "batch is 0"},
      {"lr", "0", "lr is 0: must be in (0, 100]"},                 {"lr", "-1", "lr is -1"},
      {"lr", "nan", "lr is nan"},                                  {"lr_floor", "2", "lr_floor is 2: must be in [0, 1]"},
      {"beta1", "1", "beta1 is 1: must be in [0, 1)"},             {"beta2", "nan", "beta2 is nan"},
      {"weight_decay", "-0.1", "weight_decay is -0.1"},            {"clip", "-1", "clip is -1"},
      {"dtype", "f16", "dtype is f16: must be f32 or bf16"},       {"seed", "-1", "seed is -1"},
      {"norm_eps", "0", "norm_eps is 0"},                          {"rope_theta", "inf", "rope_theta is inf"},
  };
  for (const auto& c : cases) {
    Settings s;
    const Status set = set_field(s, c.key, c.value);
    const Status status = set.ok() ? validate(s) : set;
    EXPECT_EQ(status.code(), Code::invalid_problem) << c.key << "=" << c.value;
    EXPECT_NE(status.message().find(set.ok() ? c.message : c.key), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  Settings s;
  s.batch = 1 << 20, s.context = 1 << 20;
  EXPECT_NE(validate(s).message().find("batch * context must be at most 2^31"), std::string::npos);
}

TEST(Settings, learning_rate_warms_up_and_decays) {
  Settings s;
  s.steps = 1000, s.warmup = 100, s.lr = 1, s.lr_floor = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 550), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1000), 0.1);
  for (int64_t t = 101; t < 1000; ++t) EXPECT_GT(learning_rate(s, t), learning_rate(s, t + 1));
  s.warmup = 0;
  EXPECT_LE(learning_rate(s, 1), 1);
  s.warmup = 5000;
  EXPECT_DOUBLE_EQ(learning_rate(s, 1000), 0.2);
}

}  // namespace
}  // namespace baracuda::cli
