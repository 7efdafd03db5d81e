#include "baracuda/ops/softmax/softmax.hpp"
#include <sys/mman.h>
#include <cmath>
#include "baracuda/host/isa.hpp"
#include "baracuda/testing/large.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using namespace testing;

constexpr DType kDTypesHere[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr SoftmaxKind kKinds[] = {SoftmaxKind::softmax, SoftmaxKind::log_softmax, SoftmaxKind::softmin, SoftmaxKind::safe_softmax};

// Element r of line l, as an index of the row-major values.
struct Axis {
  int64_t n, lines, inner;
  explicit Axis(const SoftmaxDescriptor& d) {
    const int axis = int(d.axis < 0 ? d.axis + d.shape.rank : d.axis);
    n = d.shape[axis], inner = d.shape.product(axis + 1, d.shape.rank), lines = n ? d.shape.numel() / n : 0;
  }
  size_t at(int64_t line, int64_t r) const { return size_t(line / inner * inner * n + r * inner + line % inner); }
};
struct Values { std::vector<double> v, scale; };
// The oracle, and how far its terms are from the result: exp takes the rounding of its argument with it.
Values softmax_oracle(const SoftmaxDescriptor& d, const std::vector<double>& x) {
  const Axis axis(d);
  Values o{std::vector<double>(x.size()), std::vector<double>(x.size())};
  const double sign = d.kind == SoftmaxKind::softmin ? -1 : 1;
  for (int64_t l = 0; l < axis.lines; ++l) {
    double m = -INFINITY, sum = 0;
    for (int64_t r = 0; r < axis.n; ++r) m = std::max(m, sign * x[axis.at(l, r)]);
    for (int64_t r = 0; r < axis.n; ++r) sum += std::exp(sign * x[axis.at(l, r)] - m);
    for (int64_t r = 0; r < axis.n; ++r) {
      const size_t i = axis.at(l, r);
      const double t = sign * x[i] - m;
      if (d.kind == SoftmaxKind::log_softmax) o.v[i] = t - std::log(sum), o.scale[i] = 1 + std::fabs(t) + std::log(sum);
      else o.v[i] = std::exp(t) / sum, o.scale[i] = o.v[i] * (1 + std::fabs(t));
    }
  }
  return o;
}
Values backward_oracle(const SoftmaxDescriptor& d, const std::vector<double>& dy, const std::vector<double>& y) {
  const Axis axis(d);
  const bool log = d.kind == SoftmaxKind::log_softmax;
  const double sign = d.kind == SoftmaxKind::softmin ? -1 : 1;
  Values o{std::vector<double>(y.size()), std::vector<double>(y.size())};
  for (int64_t l = 0; l < axis.lines; ++l) {
    double sum = 0, magnitude = 0;
    for (int64_t r = 0; r < axis.n; ++r) {
      const size_t i = axis.at(l, r);
      const double term = log ? dy[i] : dy[i] * y[i];
      sum += term, magnitude += std::fabs(term);
    }
    for (int64_t r = 0; r < axis.n; ++r) {
      const size_t i = axis.at(l, r);
      const double p = log ? std::exp(y[i]) : y[i];
      o.v[i] = log ? dy[i] - p * sum : sign * p * (dy[i] - sum);
      o.scale[i] = log ? std::fabs(dy[i]) + p * magnitude : p * (std::fabs(dy[i]) + magnitude);
    }
  }
  return o;
}
void check_values(const SoftmaxDescriptor& d, Layout layout = Layout::dense, double spread = 2) {
  SCOPED_TRACE(text(describe(d), " layout ", int(layout)));
  const DType out = d.out_dtype.value_or(d.dtype);
  const Axis axis(d);
  const Tensor x = Tensor::normal(d.dtype, d.shape, 1, 0.5, spread, layout);
  Tensor y(out, d.shape, layout);
  ASSERT_OK(run_plan<Softmax>(d, {x, y}));
  const Values want = softmax_oracle(d, x.values());
  EXPECT_CLOSE(y, want.v, {.ulps = 1, .terms = double(axis.n)}, &want.scale);
  EXPECT_TRUE(y.guards_intact());
  const Tensor dy = Tensor::normal(out, d.shape, 2, 0.3, 1, layout);
  Tensor dx(d.dtype, d.shape, layout);
  ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
  const Values dwant = backward_oracle(d, dy.values(), y.values());
  EXPECT_CLOSE(dx, dwant.v, {.ulps = 1, .terms = double(axis.n)}, &dwant.scale);
  EXPECT_TRUE(dx.guards_intact());
}

TEST(Softmax, ValuesForEveryKindDtypeAxisAndStride) {
  for (DType t : kDTypesHere)
    for (DType out : kDTypesHere) {
      if (out != t && (byte_size(out) <= byte_size(t))) continue;
      for (SoftmaxKind kind : kKinds)
        for (int64_t axis : {0, 1, -1}) check_values({kind, t, {3, 19, 37}, axis, out});
    }
  for (Layout layout : {Layout::padded, Layout::transposed, Layout::reversed, Layout::outer_reversed, Layout::every_other})
    for (DType t : kDTypesHere)
      for (int64_t axis : {0, 1, 2}) check_values({axis == 1 ? SoftmaxKind::log_softmax : SoftmaxKind::softmin, t, {9, 17, 21}, axis}, layout);
}
TEST(Softmax, LengthsOfTheAxis) {
  for (int64_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000, 4095, 4096, 4097, 8192, 12289})
    for (DType t : {DType::bf16, DType::f32, DType::f64}) {
      const SoftmaxKind kind = kKinds[n % 4];
      check_values({kind, t, {n < 100 ? 70 : 3, n}, 1}, n % 2 ? Layout::dense : Layout::padded);
      check_values({kind, t, {n, n < 100 ? 70 : 9}, 0}, n % 2 ? Layout::padded : Layout::dense);
    }
  // Dense rows, each of which begins elsewhere in 16 bytes, and ends there; some lengths leave a warp one element.
  for (int64_t n : {33, 67, 70, 127, 129, 257, 513, 518, 545, 1023, 1025, 1026, 8193, 8705, 12289})
    for (DType t : {DType::f16, DType::bf16, DType::f32}) check_values({kKinds[n % 4], t, {n < 2000 ? 37 : 5, n}, 1});
  check_values({SoftmaxKind::softmax, DType::f32, {200000}, 0});
  check_values({SoftmaxKind::log_softmax, DType::bf16, {2, 140000}, 1});
  check_values({SoftmaxKind::log_softmax, DType::f64, {9000, 3, 2}, 0});
  // Rows that no block of a GPU holds, whole pieces of 16 bytes and not; one of a short last piece.
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t n : {16400, 33000, 40961, 81928}) {
      check_values({SoftmaxKind(n / 8 % 4), t, {11, n}, 1});
      check_values({SoftmaxKind::softmin, t, {2, 3, n}, 2}, n % 8 ? Layout::padded : Layout::dense);
    }
}
// Short rows that follow on one another, as many as blocks do not divide, and such that do not; a special one beside others; the gradient over its input.
TEST(Softmax, ShortRows) {
  for (DType t : {DType::f16, DType::bf16, DType::f32}) {
    for (int64_t n : {1, 3, 10, 17, 33, 65, 70, 127, 301, 650}) check_values({kKinds[n % 4], t, {283, n}, 1});
    for (int64_t n : {8, 24, 64, 200}) check_values({kKinds[n / 8 % 4], t, {1283, n}, 1});
    check_values({SoftmaxKind::softmax, t, {9001, 35}, 1});
    check_values({SoftmaxKind::log_softmax, t, {53, 1023}, 1});
    check_values({SoftmaxKind::softmax, t, {3, 19, 65}, 2}, Layout::padded);
    check_values({SoftmaxKind::softmin, t, {3, 19, 65}, 2}, Layout::outer_reversed);
    for (bool log : {false, true}) {
      const SoftmaxDescriptor d{log ? SoftmaxKind::log_softmax : SoftmaxKind::softmax, t, {45, 99}, 1};
      Tensor dy = Tensor::normal(t, d.shape, 1), y(t, d.shape), dx(t, d.shape), with(t, d.shape);
      ASSERT_OK(run_plan<Softmax>(d, {Tensor::normal(t, d.shape, 2), y}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
      Tensor special = dy;
      special.set(17 * 99 + 98, NAN);
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {special, y, with}));
      for (int64_t i = 0; i < 45 * 99; ++i)
        if (i / 99 == 17) EXPECT_TRUE(std::isnan(with.at(i))) << i;
        else EXPECT_EQ(with.at(i), dx.at(i)) << i;
      check_repeat_bits<SoftmaxBackward>(d, {dy, y, with});
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dy}));
      EXPECT_TRUE(dy.same_bits(dx));
    }
  }
}
TEST(Softmax, FewUlpInF32) {
  for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const SoftmaxDescriptor d{kind, DType::f32, {50, 1000}};
    const Tensor x = Tensor::uniform(DType::f32, d.shape, 1, -1, 1);
    Tensor y(DType::f32, d.shape);
    ASSERT_OK(run_plan<Softmax>(d, {x, y}));
    EXPECT_LE(compare(y, softmax_oracle(d, x.values()).v, {.ulps = 8}).worst_ulp, 4);
  }
}
TEST(Softmax, WideRangeKeepsSubnormals) {
  std::vector<double> values;
  for (int i = 0; i < 120; ++i) values.push_back(-i * 0.9);
  for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const SoftmaxDescriptor d{kind, DType::f32, {120}};
    const Tensor x(DType::f32, d.shape, values);
    Tensor y(DType::f32, d.shape);
    ASSERT_OK(run_plan<Softmax>(d, {x, y}));
    const Values want = softmax_oracle(d, x.values());
    EXPECT_CLOSE(y, want.v, {.ulps = 1}, &want.scale);
    if (kind == SoftmaxKind::softmax) EXPECT_GT(y.at(112), 0);
  }
  // Chunks far apart: the second one is small beside the first, the third nothing.
  Tensor x = Tensor::uniform(DType::f32, {3 * 4096}, 3, -1, 1);
  for (int64_t i = 0; i < 4096; ++i) x.set(4096 + i, x.at(4096 + i) - 75), x.set(8192 + i, x.at(8192 + i) - 3e4);
  Tensor y(DType::f32, x.shape());
  const SoftmaxDescriptor d{SoftmaxKind::softmax, DType::f32, x.shape()};
  ASSERT_OK(run_plan<Softmax>(d, {x, y}));
  const Values want = softmax_oracle(d, x.values());
  EXPECT_CLOSE(y, want.v, {.ulps = 1, .terms = 4096}, &want.scale);
  EXPECT_GT(y.at(5000), 0);
  EXPECT_EQ(y.at(10000), 0);
}
// A chunk of -inf beside one whose maximum is far from 0 weighs nothing.
TEST(Softmax, case_chunk_of_negative_infinity) {
  for (double top : {-72.1, -300.0, 80.0})
    for (bool column : {false, true})
      for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax, SoftmaxKind::safe_softmax})
        for (int64_t n : {8192, 24576}) {
          const SoftmaxDescriptor d{kind, DType::f32, column ? Shape{n, 1} : Shape{1, n}, column ? 0 : 1};
          Tensor x(DType::f32, d.shape), y(DType::f32, d.shape);
          for (int64_t i = 0; i < n; ++i) x.set(i, i < 4096 ? -INFINITY : i == 5000 ? top : top - 200);
          ASSERT_OK(run_plan<Softmax>(d, {x, y}));
          const bool log = kind == SoftmaxKind::log_softmax;
          EXPECT_EQ(y.at(5000), log ? 0 : 1) << top;
          EXPECT_EQ(y.at(5001), log ? rounded(DType::f32, x.at(5001) - x.at(5000)) : 0) << top;
          EXPECT_EQ(y.at(17), log ? -INFINITY : 0) << top;
        }
}
// The same line gives the same bits as a row, as a column, by any instruction set, alone or split over threads.
TEST(Softmax, SameBitsHoweverTheLineLies) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA dense rows have an order of their own";
  for (DType t : {DType::bf16, DType::f32, DType::f64})
    for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax})
      for (int64_t n : {5, 100, 4500, 9000}) {
        const Shape rows{6, n};
        const Tensor x = Tensor::normal(t, rows, 1, 0, 3), dy = Tensor::normal(t, rows, 2);
        std::vector<uint8_t> first_y, first_dx;
        for (Isa most : {Isa::avx512, Isa::avx2, Isa::portable}) {
          limit_isa(most);
          for (int form = 0; form < 5; ++form) {  // rows; columns; rows of every other element; a wide transposed batch; one row at a time
            const Layout layout = form == 1 || form == 3 ? Layout::transposed : form == 2 ? Layout::every_other : Layout::dense;
            const Shape shape = form == 3 ? Shape{40, n} : rows;
            Tensor a(t, shape, layout), da(t, shape, layout), y(t, shape, layout), dx(t, shape, layout);
            for (int64_t i = 0; i < a.numel(); ++i) a.set(i, x.at(i % x.numel())), da.set(i, dy.at(i % x.numel()));
            if (form < 4) {
              ASSERT_OK(run_plan<Softmax>({kind, t, shape}, {a, y}));
              ASSERT_OK(run_plan<SoftmaxBackward>({kind, t, shape}, {da, y, dx}));
            } else {
              for (int64_t r = 0; r < 6; ++r) {
                auto row = [&](TensorView v) {
                  v.data = v.as<char>() + r * n * int64_t(byte_size(t)), v.shape = {1, n};
                  return v;
                };
                ASSERT_OK(run_plan<Softmax>({kind, t, {1, n}}, {row(a), row(y)}));
                ASSERT_OK(run_plan<SoftmaxBackward>({kind, t, {1, n}}, {row(da), row(y), row(dx)}));
              }
            }
            std::vector<uint8_t> y_bytes = y.element_bytes(), dx_bytes = dx.element_bytes();
            y_bytes.resize(size_t(6 * n) * byte_size(t)), dx_bytes.resize(y_bytes.size());
            if (first_y.empty()) first_y = y_bytes, first_dx = dx_bytes;
            EXPECT_TRUE(y_bytes == first_y && dx_bytes == first_dx) << text(t, " ", enum_name(kind), " ", n, " form ", form, " ", name(most));
          }
        }
        limit_isa(Isa::avx512bf16);
      }
}
// A long row gives the same bits alone and among others, in place and not.
// Batches that begin and end anywhere, which are other alignments and other neighbours.
TEST(Softmax, ShortRowsDoNotDependOnTheBatch) {
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t n : {5, 33, 127, 130, 601, 1001}) {
      const SoftmaxDescriptor many{SoftmaxKind::softmax, t, {61, n}, 1};
      const Tensor x = Tensor::normal(t, many.shape, 1, 0, 3), dy = Tensor::normal(t, many.shape, 2);
      Tensor y(t, many.shape), dx(t, many.shape);
      ASSERT_OK(run_plan<Softmax>(many, {x, y}));
      ASSERT_OK(run_plan<SoftmaxBackward>(many, {dy, y, dx}));
      for (int64_t first : {0, 1, 6, 27})
        for (int64_t count : {1, 2, 19, 34}) {
          const SoftmaxDescriptor some{SoftmaxKind::softmax, t, {count, n}, 1};
          const size_t offset = size_t(first * n) * byte_size(t), bytes = size_t(count * n) * byte_size(t);
          const auto rows = [&](const Tensor& all) {
            TensorView v = all;
            v.shape = some.shape, v.data = all.view().as<char>() + offset;
            return v;
          };
          Tensor y1(t, some.shape), dx1(t, some.shape), here = x, grad = dy;
          ASSERT_OK(run_plan<Softmax>(some, {rows(x), y1}));
          ASSERT_OK(run_plan<SoftmaxBackward>(some, {rows(dy), y1, dx1}));
          EXPECT_EQ(std::memcmp(y1.view().data, rows(y).data, bytes), 0) << name(t) << " " << n << " " << first << " " << count;
          EXPECT_EQ(std::memcmp(dx1.view().data, rows(dx).data, bytes), 0) << name(t) << " " << n << " " << first << " " << count;
          ASSERT_OK(run_plan<Softmax>(some, {rows(here), rows(here)}));
          ASSERT_OK(run_plan<SoftmaxBackward>(some, {rows(grad), rows(here), rows(grad)}));
          for (int64_t i = 0; i < 61 * n; ++i) {
            const bool in = i / n >= first && i / n < first + count;
            ASSERT_EQ(here.at(i), (in ? y : x).at(i)) << name(t) << " " << n << " " << i;
            ASSERT_EQ(grad.at(i), (in ? dx : dy).at(i)) << name(t) << " " << n << " " << i;
          }
        }
    }
}
// Columns that several blocks of a GPU have together, and some of those.
TEST(Softmax, ColumnsDoNotDependOnTheOthers) {
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (const auto& [n, columns] : {std::pair<int64_t, int64_t>{513, 1100}, {700, 72}, {2049, 200}, {5000, 40}, {8192, 72}}) {
      const SoftmaxKind kind = kKinds[n % 4];
      const SoftmaxDescriptor all{kind, t, {n, columns}, 0}, some{kind, t, {n, 24}, 0};
      check_values(all);
      const Tensor x = Tensor::normal(t, all.shape, 1, 0, 3), dy = Tensor::normal(t, all.shape, 2);
      Tensor y(t, all.shape), dx(t, all.shape), y1(t, some.shape), dx1(t, some.shape);
      check_repeat_bits<Softmax>(all, {x, y});
      check_repeat_bits<SoftmaxBackward>(all, {dy, y, dx});
      const auto part = [&](const Tensor& of) {
        TensorView v = of;
        v.shape = some.shape, v.data = of.view().as<char>() + 8 * byte_size(t);
        return v;
      };
      ASSERT_OK(run_plan<Softmax>(some, {part(x), y1}));
      ASSERT_OK(run_plan<SoftmaxBackward>(some, {part(dy), y1, dx1}));
      for (int64_t i = 0; i < n * 24; ++i) {
        ASSERT_EQ(y1.at(i), y.at(i / 24 * columns + 8 + i % 24)) << name(t) << " " << n << " " << i;
        ASSERT_EQ(dx1.at(i), dx.at(i / 24 * columns + 8 + i % 24)) << name(t) << " " << n << " " << i;
      }
    }
}
TEST(Softmax, LongRowsDoNotDependOnTheBatch) {
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t n : {20480, 70000}) {
      const SoftmaxDescriptor many{SoftmaxKind::softmax, t, {23, n}, 1}, one{SoftmaxKind::softmax, t, {1, n}, 1};
      const Tensor x = Tensor::normal(t, many.shape, 1, 0, 3), dy = Tensor::normal(t, many.shape, 2);
      Tensor y(t, many.shape), dx(t, many.shape), y1(t, one.shape), dx1(t, one.shape);
      ASSERT_OK(run_plan<Softmax>(many, {x, y}));
      ASSERT_OK(run_plan<SoftmaxBackward>(many, {dy, y, dx}));
      const size_t bytes = size_t(n) * byte_size(t);
      const auto row = [&](const Tensor& all, int64_t r) {
        TensorView v = all;
        v.shape = one.shape, v.data = all.view().as<char>() + size_t(r) * bytes;
        return v;
      };
      for (int64_t r : {0, 9, 22}) {
        ASSERT_OK(run_plan<Softmax>(one, {row(x, r), y1}));
        ASSERT_OK(run_plan<SoftmaxBackward>(one, {row(dy, r), y1, dx1}));
        EXPECT_EQ(std::memcmp(y1.view().data, row(y, r).data, bytes), 0) << name(t) << " " << n << " " << r;
        EXPECT_EQ(std::memcmp(dx1.view().data, row(dx, r).data, bytes), 0) << name(t) << " " << n << " " << r;
      }
      check_repeat_bits<Softmax>(many, {x, y}), check_repeat_bits<SoftmaxBackward>(many, {dy, y, dx});
      check_contract<Softmax>(one, {row(x, 5), y1}), check_contract<SoftmaxBackward>(one, {row(dy, 5), row(y, 5), dx1});
      Tensor here(t, many.shape), grad(t, many.shape);
      std::memcpy(here.view().data, x.view().data, 23 * bytes), std::memcpy(grad.view().data, dy.view().data, 23 * bytes);
      ASSERT_OK(run_plan<Softmax>(many, {here, here}));
      ASSERT_OK(run_plan<SoftmaxBackward>(many, {grad, here, grad}));
      EXPECT_TRUE(here.same_bits(y) && grad.same_bits(dx));
    }
}
// Rows of a tensor larger than the caches, which begin with a line of them or not, are what each row is alone: near their maximum, far from it, none
// positive, masked, with infinities and NaN, with a chunk that is small beside the others.
TEST(Softmax, RowsFarBelowZero) {  // with a few elements behind the last whole lines or the last chunk; batches as large as what is written past the caches
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{8, 65}, {8, 4097}, {8, 8193}, {187500, 70}}) {
      if (rows > 8 && t != DType::bf16) continue;
      for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax, SoftmaxKind::safe_softmax}) {
        if (rows > 8 && kind != SoftmaxKind::softmax) continue;
        const SoftmaxDescriptor d{kind, t, {rows, n}, 1}, one{kind, t, {1, n}, 1};
        SCOPED_TRACE(describe(d));
        Tensor x = Tensor::normal(t, d.shape, 1, -200, 2), y(t, d.shape), alone(t, one.shape);
        for (int64_t i = 0; kind == SoftmaxKind::safe_softmax && i < n; ++i) x.set(2 * n + i, -INFINITY);
        ASSERT_OK(run_plan<Softmax>(d, {x, y}));
        Values want = softmax_oracle(d, x.values());
        for (int64_t i = 0; kind == SoftmaxKind::safe_softmax && i < n; ++i) want.v[size_t(2 * n + i)] = 0, want.scale[size_t(2 * n + i)] = 0;
        EXPECT_CLOSE(y, want.v, {.ulps = 1, .terms = double(n)}, &want.scale);
        for (int64_t r = 0; r < 8; ++r) {
          TensorView row = x;
          row.shape = one.shape, row.data = x.view().as<char>() + r * n * int64_t(byte_size(t));
          ASSERT_OK(run_plan<Softmax>(one, {row, alone}));
          EXPECT_EQ(std::memcmp(alone.view().data, y.view().as<char>() + r * n * int64_t(byte_size(t)), size_t(n) * byte_size(t)), 0) << r;
        }
      }
    }
}
TEST(Softmax, RowsPastTheCaches) {
  if (on_cuda()) GTEST_SKIP() << "on CUDA nothing is written past the caches";
  for (DType t : {DType::f16, DType::bf16, DType::f32})
    for (int64_t n : {1024, 4001, 9000})
      for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
        const int64_t rows = (int64_t(25) << 20) / (n * int64_t(byte_size(t))), bytes = n * int64_t(byte_size(t));
        const SoftmaxDescriptor d{kind, t, {rows, n}, 1}, one{kind, t, {1, n}, 1};
        const Tensor pool = Tensor::normal(t, {64, n}, 1, 0, 3), dy = Tensor::normal(t, {64, n}, 2);
        Tensor x(t, d.shape), y(t, d.shape), dys(t, d.shape), dx(t, d.shape), y1(t, one.shape), dx1(t, one.shape);
        const auto row = [&](const Tensor& all, int64_t r) {
          TensorView v = all;
          v.shape = one.shape, v.data = all.view().as<char>() + r * bytes;
          return v;
        };
        for (int64_t r = 0; r < rows; ++r) {
          std::memcpy(row(x, r).data, row(pool, r % 64).data, size_t(bytes)), std::memcpy(row(dys, r).data, row(dy, r % 64).data, size_t(bytes));
          const int form = int(r / 3 % 11);
          for (int64_t i = 0; i < n && (form == 1 || form == 3); ++i) x.set(r * n + i, form == 1 ? -std::fabs(x.at(r * n + i)) - 0.5 : i % 3 ? -INFINITY : 2);
          if (form == 2) x.set(r * n + n / 2, -90), x.set(r * n + n - 1, -1e4);
          if (form == 4) x.set(r * n + r % n, NAN);
          if (form == 5) x.set(r * n + r % n, INFINITY);
          if (form == 6) x.set(r * n + r % n, 60000);
          for (int64_t i = 4096; i < 8192 && i < n && form == 7; ++i) x.set(r * n + i, x.at(r * n + i) - 75);
        }
        ASSERT_OK(run_plan<Softmax>(d, {x, y}));
        ASSERT_OK(run_plan<SoftmaxBackward>(d, {dys, y, dx}));
        int64_t wrong = 0;
        for (int64_t r = 0; r < rows; r += r < 70 ? 1 : 61) {
          ASSERT_OK(run_plan<Softmax>(one, {row(x, r), y1}));
          ASSERT_OK(run_plan<SoftmaxBackward>(one, {row(dys, r), row(y, r), dx1}));
          const int form = int(r / 3 % 11);
          if (form == 4 || form == 5) wrong += !std::isnan(y.at(r * n + 1)) || !std::isnan(y.at(r * n + n - 1)) || !std::isnan(y1.at(7)) || !std::isnan(dx.at(r * n + 2));
          else wrong += std::memcmp(row(y, r).data, y1.view().data, size_t(bytes)) != 0 || std::memcmp(row(dx, r).data, dx1.view().data, size_t(bytes)) != 0;
        }
        EXPECT_EQ(wrong, 0) << name(t) << " " << n << " " << enum_name(kind);
      }
}
TEST(Softmax, NanInfinityAndNegativeInfinity) {
  const double inf = INFINITY;
  for (int64_t n : {4, 20, 37, 900, 5000, 20480})
    for (bool column : {false, true})
      for (SoftmaxKind kind : kKinds) {
        // lines: all -inf, one NaN, one +inf, -inf beside finite ones, all NaN, ordinary
        const SoftmaxDescriptor d{kind, DType::f32, column ? Shape{n, 6} : Shape{6, n}, column ? 0 : 1};
        const Axis axis(d);
        const double sign = kind == SoftmaxKind::softmin ? -1 : 1;
        std::vector<double> v(size_t(6 * n), 0.0);
        for (int64_t r = 0; r < n; ++r) {
          v[axis.at(0, r)] = -sign * inf, v[axis.at(4, r)] = NAN;
          for (int l : {1, 2, 3, 5}) v[axis.at(l, r)] = double(r % 3);
        }
        v[axis.at(1, 2)] = NAN, v[axis.at(2, n - 1)] = sign * inf;
        for (int64_t r = 1; r < n; ++r) v[axis.at(3, r)] = -sign * inf;
        const Tensor x(DType::f32, d.shape, v);
        Tensor y(DType::f32, d.shape), dx(DType::f32, d.shape);
        ASSERT_OK(run_plan<Softmax>(d, {x, y}));
        const bool log = kind == SoftmaxKind::log_softmax;
        for (int64_t r = 0; r < n; ++r) {
          if (kind == SoftmaxKind::safe_softmax) EXPECT_EQ(y.at(int64_t(axis.at(0, r))), 0);
          else EXPECT_TRUE(std::isnan(y.at(int64_t(axis.at(0, r)))));
          for (int l : {1, 2, 4}) EXPECT_TRUE(std::isnan(y.at(int64_t(axis.at(l, r))))) << l << " " << r;
          EXPECT_EQ(y.at(int64_t(axis.at(3, r))), r == 0 ? (log ? 0 : 1) : (log ? -inf : 0)) << r;
          EXPECT_TRUE(std::isfinite(y.at(int64_t(axis.at(5, r)))));
        }
        if (kind != SoftmaxKind::safe_softmax) continue;  // no gradient where the output is 0
        const Tensor dy = Tensor::normal(DType::f32, d.shape, 3);
        ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
        for (int64_t r = 0; r < n; ++r) EXPECT_EQ(dx.at(int64_t(axis.at(0, r))), 0);
      }
}
TEST(Softmax, LargeValuesDoNotOverflow) {
  for (DType t : kDTypesHere) {
    const double top = t == DType::f16 ? 65504 : t == DType::bf16 ? 3e38 : t == DType::f32 ? 3.4e38 : 1.7e308;
    const Tensor x(t, {3}, {top, top, -top});
    Tensor y(t, {3});
    ASSERT_OK(run_plan<Softmax>({SoftmaxKind::softmax, t, {3}}, {x, y}));
    EXPECT_EQ(y.values(), (std::vector<double>{0.5, 0.5, 0}));
    ASSERT_OK(run_plan<Softmax>({SoftmaxKind::log_softmax, t, {3}}, {x, y}));
    EXPECT_EQ(y.at(0), rounded(t, -std::log(2.0)));
  }
}
TEST(Softmax, case_softmax_bf16_512) {
  for (DType t : kDTypesHere) {
    const Tensor x(t, {512}, std::vector<double>(512, 0));
    Tensor y(t, {512});
    ASSERT_OK(run_plan<Softmax>({SoftmaxKind::softmax, t, {512}}, {x, y}));
    EXPECT_EQ(y.values(), std::vector<double>(512, 0.001953125));
    ASSERT_OK(run_plan<Softmax>({SoftmaxKind::log_softmax, t, {512}}, {x, y}));
    EXPECT_EQ(y.at(511), t == DType::bf16 ? -6.25 : rounded(t, -std::log(512.0)));
  }
}
// Offsets beyond 2^31 elements, in memory of which only the touched pages exist.
TEST(Softmax, case_reduce_2g_elements) {
  if (on_cuda()) GTEST_SKIP() << "the harness copies what lies between the elements";
  constexpr int64_t far = (int64_t(1) << 31) + 64, elements = 2 * far + 64;
  auto map = [] { return mmap(nullptr, size_t(elements) * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); };
  void *x = map(), *y = map();
  if (x == MAP_FAILED || y == MAP_FAILED) GTEST_SKIP() << "no address space";
  for (bool along : {false, true}) {  // the far stride between lines, and along the axis
    const Shape shape{3, 40};
    Strides strides;
    strides.push_back(far), strides.push_back(1);
    TensorView vx = TensorView::dense(x, DType::bf16, shape), vy = TensorView::dense(y, DType::bf16, shape);
    vx.strides = vy.strides = strides;
    const Tensor near = Tensor::normal(DType::bf16, shape, 5);
    Tensor want(DType::bf16, shape);
    put_bytes(vx, near.element_bytes());
    const SoftmaxDescriptor d{SoftmaxKind::softmax, DType::bf16, shape, along ? 0 : 1};
    ASSERT_OK(run_plan<Softmax>(d, {vx, vy}));
    ASSERT_OK(run_plan<Softmax>(d, {near, want}));
    EXPECT_TRUE(bytes_of(vy) == want.element_bytes());
  }
  munmap(x, size_t(elements) * 2), munmap(y, size_t(elements) * 2);
}
TEST(Softmax, InPlaceAndBroadcast) {
  for (int64_t n : {6, 50, 5000})
    for (int64_t axis : {0, 1}) {
      const SoftmaxDescriptor d{SoftmaxKind::softmax, DType::f32, axis ? Shape{9, n} : Shape{n, 9}, axis};
      const Tensor x = Tensor::normal(DType::f32, d.shape, 1), dy = Tensor::normal(DType::f32, d.shape, 2);
      Tensor y(DType::f32, d.shape), dx(DType::f32, d.shape), saved(DType::f32, d.shape);
      Tensor same(DType::f32, d.shape, x.values()), grad(DType::f32, d.shape, dy.values());
      ASSERT_OK(run_plan<Softmax>(d, {x, y}));
      ASSERT_OK(run_plan<Softmax>(d, {same, same}));
      EXPECT_TRUE(same.same_bits(y));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {grad, y, grad}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, same, same}));
      EXPECT_TRUE(grad.same_bits(dx) && same.same_bits(dx));
      TensorView row = x;  // the first line for all
      row.strides[axis ? 0 : 1] = 0;
      ASSERT_OK(run_plan<Softmax>(d, {row, saved}));
      const Axis at(d);
      for (int64_t l = 0; l < 9; ++l)
        for (int64_t r = 0; r < n; ++r) ASSERT_EQ(saved.at(int64_t(at.at(l, r))), y.at(int64_t(at.at(0, r))));
    }
}
// Written past the caches, unless they are the input: the same bits, also where rows do not begin at cache lines.
TEST(Softmax, LargerThanTheCaches) {
  for (const auto& [t, shape] : {std::pair<DType, Shape>{DType::f32, {1600, 4099}}, {DType::f32, {1601, 4096}}, {DType::f32, {801, 8195}}, {DType::bf16, {3100, 4128}}}) {
    const size_t bytes = size_t(shape.numel()) * byte_size(t);
    const Large x(t, shape), y(t, shape), dx(t, shape, 1), same(t, shape);
    ASSERT_GE(int64_t(bytes), kPastCaches);
    for (int64_t axis : {0, 1}) {
      const SoftmaxDescriptor d{axis ? SoftmaxKind::softmax : SoftmaxKind::log_softmax, t, shape, axis};
      std::memcpy(same.view().data, x.view().data, bytes);
      ASSERT_OK(run_plan<Softmax>(d, {x, y}));
      ASSERT_OK(run_plan<Softmax>(d, {same, same}));
      EXPECT_TRUE(same.same_bits(y));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {x, y, dx}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {x, same, same}));
      EXPECT_TRUE(same.same_bits(dx));
    }
  }
}
TEST(Softmax, EmptyAndScalar) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 3}}) {
    Tensor x(DType::f32, shape), y(DType::f32, shape);
    EXPECT_OK(run_plan<Softmax>({SoftmaxKind::softmax, DType::f32, shape}, {x, y}));
    EXPECT_OK(run_plan<SoftmaxBackward>({SoftmaxKind::softmax, DType::f32, shape}, {x, x, y}));
  }
  const Tensor x(DType::f32, {}, {5});
  Tensor y(DType::f32, {}), dx(DType::f32, {});
  for (int64_t axis : {0, -1}) {
    ASSERT_OK(run_plan<Softmax>({SoftmaxKind::softmax, DType::f32, {}, axis}, {x, y}));
    EXPECT_EQ(y.at(0), 1);
    ASSERT_OK(run_plan<SoftmaxBackward>({SoftmaxKind::softmax, DType::f32, {}, axis}, {x, y, dx}));
    EXPECT_EQ(dx.at(0), 0);
  }
}
TEST(Softmax, GradientIsTheDerivative) {
  for (SoftmaxKind kind : kKinds)
    for (int64_t axis : {0, 1}) {
      const SoftmaxDescriptor d{kind, DType::f64, {6, 11}, axis};
      Tensor x = Tensor::normal(DType::f64, d.shape, 1), y(DType::f64, d.shape), dx(DType::f64, d.shape);
      const Tensor dy = Tensor::normal(DType::f64, d.shape, 2);
      ASSERT_OK(run_plan<Softmax>(d, {x, y}));
      ASSERT_OK(run_plan<SoftmaxBackward>(d, {dy, y, dx}));
      check_directional([&] {
        Tensor now(DType::f64, d.shape);
        EXPECT_OK(run_plan<Softmax>(d, {x, now}));
        double sum = 0;
        for (int64_t i = 0; i < now.numel(); ++i) sum += dy.at(i) * now.at(i);
        return sum;
      }, x, dx, 3);
    }
}
TEST(Softmax, ContractAndRepeatedBits) {
  for (const SoftmaxDescriptor& d : {SoftmaxDescriptor{SoftmaxKind::softmax, DType::bf16, {30, 100}, 1}, {SoftmaxKind::log_softmax, DType::f32, {7, 9000}, 1},
                                     {SoftmaxKind::softmin, DType::f32, {4500, 70}, 0}, {SoftmaxKind::softmax, DType::f16, {5, 40, 33}, 1, DType::f32},
                                     {SoftmaxKind::log_softmax, DType::f64, {1, 200000}, 1}, {SoftmaxKind::safe_softmax, DType::bf16, {500, 3}, -1},
                                     {SoftmaxKind::softmax, DType::f32, {70, 1500}, 0}, {SoftmaxKind::log_softmax, DType::bf16, {3, 90, 1003}, 1},
                                     {SoftmaxKind::log_softmax, DType::f16, {900, 77}, 1}}) {
    const DType out = d.out_dtype.value_or(d.dtype);
    const Tensor x = Tensor::normal(d.dtype, d.shape, 1), dy = Tensor::normal(out, d.shape, 2), y0 = Tensor::uniform(out, d.shape, 3, -3, 0);
    Tensor y(out, d.shape), dx(d.dtype, d.shape);
    check_repeat_bits<Softmax>(d, {x, y});
    check_repeat_bits<SoftmaxBackward>(d, {dy, y0, dx});
    if (d.shape.numel() > 4000) continue;
    check_contract<Softmax>(d, {x, y});
    check_contract<SoftmaxBackward>(d, {dy, y0, dx});
  }
  EXPECT_TRUE(SoftmaxPlan::select(Stream::cpu(), {.shape = {4, 8}}, {.require_batch_invariant = true}).ok());
}
TEST(Softmax, Refusals) {
  auto refused = [](SoftmaxDescriptor d, Code code, std::initializer_list<std::string_view> fragments) {
    expect_refused(SoftmaxPlan::select(Stream::cpu(), d).status(), code, fragments);
    expect_refused(SoftmaxBackwardPlan::select(Stream::cpu(), d).status(), code, fragments);
  };
  refused({.shape = {2, 3}, .axis = 2}, Code::invalid_problem, {"axis 2", "[-2, 2)", "[2, 3]"});
  refused({.shape = {2, 3}, .axis = -3}, Code::invalid_problem, {"axis -3"});
  refused({.shape = {}, .axis = 1}, Code::invalid_problem, {"axis 1", "[-1, 1)"});
  refused({.kind = SoftmaxKind(9), .shape = {2}}, Code::invalid_problem, {"kind 9"});
  refused({.dtype = DType::f32, .shape = {2}, .out_dtype = DType::bf16}, Code::invalid_problem, {"out_dtype bf16", "f32"});
  refused({.dtype = DType::f64, .shape = {2}, .out_dtype = DType::f32}, Code::invalid_problem, {"out_dtype f32", "f64"});
  refused({.dtype = DType::f16, .shape = {2}, .out_dtype = DType::bf16}, Code::invalid_problem, {"out_dtype bf16", "f16"});
  refused({.dtype = DType::i32, .shape = {2}}, Code::unsupported, {"no i32", "f16 bf16 f32 f64"});
  refused({.dtype = DType::c64, .shape = {2}}, Code::unsupported, {"no c64"});
  refused({.shape = {2, -1}}, Code::invalid_problem, {"shape"});
}

}  // namespace
}  // namespace baracuda
