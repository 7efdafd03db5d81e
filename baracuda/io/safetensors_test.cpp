#include "baracuda/io/safetensors.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

namespace baracuda::io {
namespace {

std::string file_with(std::string_view json, size_t data_bytes, std::optional<uint64_t> length = {}) {
  std::string f(8, '\0');
  const uint64_t n = length.value_or(json.size());
  for (int i = 0; i < 8; ++i) f[size_t(i)] = char(n >> (8 * i));
  f += json;
  f.resize(f.size() + data_bytes);
  return f;
}
Result<SafetensorsHeader> parse(const std::string& file) { return parse_safetensors(std::as_bytes(std::span(file))); }

TEST(Safetensors, reads_a_header) {
  const std::string f = file_with(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
                                  R"("a":{"shape":[2,3],"data_offsets":[0,12],"dtype":"BF16"},"e":{"dtype":"I64","shape":[0,5],"data_offsets":[12,12]}}   )", 16);
  const auto h = parse(f);
  ASSERT_TRUE(h.ok()) << h.status().to_string();
  ASSERT_EQ(h->tensors.size(), 3u);
  EXPECT_EQ(h->tensors[0].name, "a");
  EXPECT_EQ(h->tensors[0].dtype, DType::bf16);
  EXPECT_EQ(h->tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(h->tensors[0].offset, f.size() - 16);
  EXPECT_EQ(h->find("b")->offset, f.size() - 4);
  EXPECT_EQ(h->find("b")->bytes, 4u);
  EXPECT_EQ(h->find("e")->bytes, 0u);
  EXPECT_EQ(h->metadata.at("format"), "pt");
  EXPECT_EQ(h->find("c"), nullptr);
  EXPECT_TRUE(parse(file_with("{}", 0)).ok());
}

TEST(Safetensors, refuses_malformed_files) {
  const auto tensor = [](std::string_view fields) { return "{\"t\":{" + std::string(fields) + "}}"; };
  const std::string ok_type = R"("dtype":"F32","shape":[2])";
  const struct { std::string file, message; Code code = Code::invalid_problem; } cases[] = {
      {"", "too short"},
      {"1234567", "too short"},
      {std::string(8, '\xFF'), "exceeds the limit"},
      {file_with("{}", 0, 3), "exceeds the file"},
      {file_with("{}", 0, 0), "does not begin with '{'"},
      {file_with(" {}", 0), "does not begin with '{'"},
      {file_with("[1]", 0), "does not begin with '{'"},
      {file_with("{", 0), "not JSON at its byte"},
      {file_with("{}}", 0), "not JSON at its byte"},
      {file_with("{\"a\xFF\":1}", 0), "not JSON at its byte"},
      {file_with(R"({"a":1})", 0), "tensor 'a': a number where the format has an object"},
      {file_with(R"({"a":null})", 0), "null where the format has an object"},
      {file_with(R"({"a":[[[[)", 0), "an array where the format has an object"},
      {file_with(R"({"a":{"dtype":{"x":1}}})", 0), "an object where the format has a string"},
      {file_with(R"({"__metadata__":{"k":1}})", 0), "__metadata__: a number where the format has a string"},
      {file_with(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "duplicate metadata key 'k'"},
      {file_with(R"({"__metadata__":{},"__metadata__":{}})", 0), "duplicate name"},
      {file_with(R"({"t":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})", 8), "duplicate name 't'"},
      {file_with(tensor(ok_type), 8), "lacks data_offsets"},
      {file_with(tensor(R"("shape":[2],"data_offsets":[0,8])"), 8), "lacks dtype"},
      {file_with(tensor(R"("dtype":"F32","data_offsets":[0,8])"), 8), "lacks shape"},
      {file_with(tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), 8), "unknown dtype 'F33'"},
      {file_with(tensor(R"("dtype":"F32","dtype":"F32")"), 8), "two fields 'dtype'"},
      {file_with(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), 8), "unknown field 'x'"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0])"), 8), "has 1 numbers, not 2"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,8,8])"), 8), "more than 2 numbers"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,-8])"), 8), "a negative number"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,8.0])"), 8), "not an integer"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,99999999999999999999])"), 8), "not an integer of 64 bits"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[8,0])"), 8), "data_offsets 8 > 0"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,8])"), 7), "ends at byte 8 of the data, which has 7"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,8])"), 9), "1 bytes after the last tensor"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,4])"), 4), "takes 8 bytes, data_offsets give 4"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[1,9])"), 9), "leaves a hole"},
      {file_with(tensor(ok_type + R"(,"data_offsets":[0,18446744073709551615])"), 8), "of the data, which has 8"},
      {file_with(tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0), "overflows"},
      {file_with(tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0), "overflows"},
      {file_with(tensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0])"), 0), "exceeds 2^63"},
      {file_with(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,0])"), 0), "a negative number"},
      {file_with(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4), "more than 8 dimensions", Code::unsupported},
      {file_with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6), "overlaps"},
      {file_with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4), "overlaps"},
      {file_with("{\"line\\nbreak\":1}", 0), "tensor 'line\\x0abreak'"},
  };
  for (const auto& c : cases) {
    const auto r = parse(c.file);
    ASSERT_FALSE(r.ok()) << c.message;
    EXPECT_EQ(r.status().code(), c.code) << c.message;
    EXPECT_NE(r.status().message().find(c.message), std::string::npos) << "expected: " << c.message << "\ngot: " << r.status().message();
    EXPECT_EQ(r.status().message().find('\n'), std::string::npos);
  }
}

TEST(Safetensors, deep_nesting_and_long_text_cost_nothing) {
  EXPECT_FALSE(parse(file_with("{\"a\":" + std::string(1'000'000, '['), 0)).ok());
  EXPECT_FALSE(parse(file_with("{\"" + std::string(1'000'000, 'x') + "\":1}", 0)).ok());
}

// Every one-byte change and every truncation of a good file is either refused or still describes only bytes inside it.
TEST(Safetensors, damaged_headers_never_point_outside_the_file) {
  const std::string good = file_with(R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"y":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})", 19);
  ASSERT_TRUE(parse(good).ok());
  const auto inside = [](const std::string& f) {
    const auto h = parse(f);
    if (!h.ok()) return true;
    for (const auto& e : h->tensors)
      if (e.offset > f.size() || e.bytes > f.size() - e.offset) return false;
    return true;
  };
  for (size_t i = 0; i < good.size(); ++i) EXPECT_FALSE(parse(good.substr(0, i)).ok()) << i;
  std::mt19937 random(1);
  for (size_t i = 0; i < good.size(); ++i)
    for (int b = 0; b < 256; ++b) {
      std::string f = good;
      f[i] = char(b);
      ASSERT_TRUE(inside(f)) << i << ' ' << b;
    }
  for (int trial = 0; trial < 20000; ++trial) {
    std::string f = good;
    for (int k = 0; k < 3; ++k) f[8 + random() % (f.size() - 8)] = "0123456789[]{},:\"a"[random() % 18];
    ASSERT_TRUE(inside(f));
  }
}

class SafetensorsFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "baracuda_st_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir); }
  std::string at(const char* name) const { return (dir / name).string(); }
  std::filesystem::path dir;
};

TEST_F(SafetensorsFiles, round_trip) {
  uint8_t u[3] = {1, 2, 3};
  float f[6] = {0, -0.f, 1e-40f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3};
  bf16 h[2] = {{0x3f80}, {0xc000}};
  int64_t one = -5;
  const NamedTensor tensors[] = {{"bytes", TensorView::dense(u, {3})},
                                 {"f \"quoted\" \n", TensorView::dense(f, {2, 3})},
                                 {"half", TensorView::dense(h, {2})},
                                 {"empty", TensorView::dense(f, {0, 7})},
                                 {"scalar", TensorView::dense(&one, {})}};
  ASSERT_TRUE(write_safetensors(at("a"), tensors, {{"k", "v\n"}}).ok());
  auto file = SafetensorsFile::open(at("a"));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->header().metadata.at("k"), "v\n");
  EXPECT_EQ(file->header().tensors.size(), 5u);
  for (const auto& e : file->header().tensors) EXPECT_EQ(e.offset % byte_size(e.dtype), 0u) << e.name;
  for (const NamedTensor& t : tensors) {
    std::vector<std::byte> back(size_t(t.tensor.numel()) * byte_size(t.tensor.dtype) + 1, std::byte{0x5A});
    ASSERT_TRUE(file->read(t.name, TensorView::dense(back.data(), t.tensor.dtype, t.tensor.shape)).ok());
    EXPECT_EQ(memcmp(back.data(), t.tensor.data, back.size() - 1), 0) << t.name;
    EXPECT_EQ(back.back(), std::byte{0x5A});
  }
  float wrong[6];
  const struct { std::string_view name; TensorView to; std::string_view message; } cases[] = {
      {"gone", TensorView::dense(wrong, {6}), "'gone' is missing"},
      {"half", TensorView::dense(wrong, {2}), "is bf16 [2], expected f32 [2]"},
      {"bytes", TensorView::dense(u, {2}), "is u8 [3], expected u8 [2]"}};
  for (const auto& c : cases) {
    const Status s = file->read(c.name, c.to);
    EXPECT_EQ(s.code(), Code::invalid_problem);
    EXPECT_NE(s.message().find(c.message), std::string::npos) << s.message();
  }
}

TEST_F(SafetensorsFiles, open_errors_name_the_path) {
  ASSERT_TRUE(write_text(at("short"), "abc").ok());
  ASSERT_TRUE(write_text(at("cut"), file_with(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7)).ok());
  const struct { std::string path, message; Code code; } cases[] = {
      {at("absent"), "No such file", Code::io_error},
      {dir.string(), "it is a directory", Code::io_error},
      {at("short"), "3 bytes, too short", Code::invalid_problem},
      {at("cut"), "ends at byte 8 of the data, which has 7", Code::invalid_problem}};
  for (const auto& c : cases) {
    const auto r = SafetensorsFile::open(c.path);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.status().code(), c.code);
    EXPECT_NE(r.status().message().find(c.message), std::string::npos) << r.status().message();
    EXPECT_NE(r.status().message().find(c.path), std::string::npos) << r.status().message();
  }
}

TEST_F(SafetensorsFiles, write_refuses_bad_tensors) {
  float f[4] = {};
  TensorView strided = TensorView::dense(f, {2});
  strided.strides[0] = 2;
  TensorView packed = TensorView::dense(f, DType::i4, {2});
  const struct { std::vector<NamedTensor> tensors; std::string_view message; } cases[] = {
      {{{"a", TensorView::dense(f, {1})}, {"a", TensorView::dense(f, {1})}}, "reserved or used twice"},
      {{{"__metadata__", TensorView::dense(f, {1})}}, "reserved or used twice"},
      {{{"a", strided}}, "not contiguous host memory"},
      {{{"a", packed}}, "no such dtype"},
      {{{"\xFF", TensorView::dense(f, {1})}}, "not UTF-8"}};
  for (const auto& c : cases) {
    const Status s = write_safetensors(at("x"), c.tensors);
    EXPECT_EQ(s.code(), Code::invalid_problem);
    EXPECT_NE(s.message().find(c.message), std::string::npos) << s.message();
  }
  EXPECT_FALSE(std::filesystem::exists(at("x")));
}

}  // namespace
}  // namespace baracuda::io
