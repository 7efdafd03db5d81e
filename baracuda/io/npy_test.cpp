#include "baracuda/io/npy.hpp"
#include <gtest/gtest.h>
#include <unistd.h>
#include <cstring>
#include <filesystem>

namespace baracuda::io {
namespace {

std::string npy(std::string dict, size_t data_bytes, int version = 1) {
  std::string f("\x93NUMPY", 6);
  f += char(version), f += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) f += char(dict.size() >> (8 * i));
  f += dict;
  for (size_t i = 0; i < data_bytes; ++i) f += char(i);
  return f;
}
Result<NpyHeader> parse(const std::string& f) { return parse_npy(std::as_bytes(std::span(f)), f.size()); }
std::string scratch(const char* name) { return (std::filesystem::temp_directory_path() / (std::to_string(getpid()) + name)).string(); }

TEST(Npy, reads_headers) {
  auto h = parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n", 24));
  ASSERT_TRUE(h.ok()) << h.status().to_string();
  EXPECT_EQ(h->dtype, DType::f32);
  EXPECT_EQ(h->shape, (Shape{2, 3}));
  EXPECT_EQ(h->strides(), (Strides{3, 1}));
  h = parse(npy("{\"shape\":(),\"fortran_order\":True,\"descr\":\"|b1\"}", 1, 2));
  ASSERT_TRUE(h.ok()) << h.status().to_string();
  EXPECT_EQ(h->dtype, DType::boolean);
  EXPECT_EQ(h->shape.rank, 0);
  h = parse(npy("{'descr': '<V2', 'fortran_order': True, 'shape': (2, 3, 4)}", 48, 3));
  ASSERT_TRUE(h.ok()) << h.status().to_string();
  EXPECT_EQ(h->dtype, DType::bf16);
  EXPECT_EQ(h->strides(), (Strides{1, 2, 6}));
  EXPECT_TRUE(parse(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 5L)}", 0)).ok());
}
TEST(Npy, refuses_malformed_files) {
  const std::pair<std::string, const char*> bad[] = {
      {"", "no .npy file"},
      {"\x93NUMPX\x01\0\x02\0{}", "no .npy file"},
      {npy("{}", 0, 4), "version 4"},
      {npy("{}", 0).substr(0, 11), "does not fit"},
      {npy("[]", 0), "not a dict"},
      {npy("{'descr': '<f4', 'fortran_order': False}", 0), "lacks"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8), "'x'"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8), "repeated"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8), "big-endian"},
      {npy("{'descr': '<U4', 'fortran_order': False, 'shape': (2,)}", 8), "not supported"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8), "structured"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", 8), "neither True nor False"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8), "negative"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", 24), "tuple of integers"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", 8), "not a tuple"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 8), "more than 2^63"},
      {npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}", 8), "2^64"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4), "rank"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7), "takes a file of"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9), "takes a file of"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8), "goes on"},
      {npy("{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}", 8), ""}};
  for (const auto& [file, words] : bad) {
    const auto h = parse(file);
    EXPECT_FALSE(h.ok()) << words;
    EXPECT_NE(h.status().message().find(words), std::string::npos) << h.status().to_string();
    EXPECT_EQ(h.status().message().find('\n'), std::string::npos);
  }
}
TEST(Npy, writes_what_it_reads) {
  const std::string path = scratch("npy_round");
  for (size_t i = 0; i < kDTypes; ++i) {
    const DType t = DType(i);
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}, Shape{1, 0, 2}}) {
      if (bit_size(t) < 8) continue;
      auto a = HostTensor::make(t, shape);
      ASSERT_TRUE(a.ok());
      for (uint64_t k = 0; k < a->bytes(); ++k) a->view().as<uint8_t>()[k] = uint8_t(t == DType::boolean ? k % 2 : k * 7);
      const Status s = write_npy(path, a->view());
      if (is_float8(t)) { EXPECT_EQ(s.code(), Code::unsupported); continue; }
      ASSERT_TRUE(s.ok()) << s.to_string();
      EXPECT_EQ((std::filesystem::file_size(path) - a->bytes()) % 64, 0u);
      const auto b = read_npy(path);
      ASSERT_TRUE(b.ok()) << b.status().to_string();
      EXPECT_EQ(b->view().dtype, t);
      EXPECT_EQ(b->view().shape, shape);
      EXPECT_EQ(std::memcmp(b->view().data, a->view().data, a->bytes()), 0);
    }
  }
  std::filesystem::remove(path);
  EXPECT_EQ(read_npy(path).status().code(), Code::io_error);
  auto a = HostTensor::make(DType::f32, {2, 3});
  a->set_strides({1, 2});
  EXPECT_EQ(write_npy(path, a->view()).code(), Code::invalid_problem);
}

}  // namespace
}  // namespace baracuda::io
