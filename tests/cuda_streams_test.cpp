// Many threads and streams on one device at once, and two devices in one process; on a machine with a GPU (BARACUDA_TEST_DEVICE=cuda).
#include <gtest/gtest.h>
#include <cstring>
#include <thread>
#include "baracuda/ops/gated/gated.hpp"
#include "baracuda/testing/plan_checks.hpp"

namespace baracuda {
namespace {

using testing::expect_refused;
using testing::on_cuda;
using testing::Tensor;
using testing::test_stream;

// Device memory of a dense tensor.
class Held {
 public:
  Held(const Stream& stream, const TensorView& host) : stream_(stream), bytes_(uint64_t(host.numel()) * byte_size(host.dtype)), view_(host) {
    const auto data = allocate(stream.device, bytes_);
    if (!data.ok()) throw std::runtime_error(data.status().message());
    view_.data = *data, view_.device = stream.device;
  }
  ~Held() { deallocate(stream_.device, view_.data); }
  Held(const Held&) = delete;
  const TensorView& view() const { return view_; }
  Status put(const void* from) const { return (*cuda_half())->copy(stream_, view_.data, from, bytes_); }
  Status get(void* to) const { return (*cuda_half())->copy(stream_, to, view_.data, bytes_); }

 private:
  Stream stream_;
  uint64_t bytes_;
  TensorView view_;
};

// swiglu of `n` elements on a stream of its own, `times` times; what the last run wrote. The plan may be of another thread.
Status swiglu(const Stream& device, const Plan<Gated>* shared, int64_t n, uint64_t seed, int times, std::vector<float>& y, std::vector<float>& want) {
  const CudaHalf& half = **cuda_half();
  Stream stream = device;
  BARACUDA_TRY(half.make_stream(stream.device.index, stream.handle));
  const Tensor gate = Tensor::normal(DType::f32, {n}, seed), up = Tensor::normal(DType::f32, {n}, seed + 1);
  Tensor on_cpu(DType::f32, {n});
  const GatedDescriptor d{GatedKind::swiglu, DType::f32, {n}};
  BARACUDA_TRY_ASSIGN(cpu, GatedPlan::select(Stream::cpu(), d));
  BARACUDA_TRY(cpu.run(Stream::cpu(), {}, {gate, up, on_cpu}));
  BARACUDA_TRY_ASSIGN(own, GatedPlan::select(stream, d));
  const Plan<Gated>& plan = shared ? *shared : own;
  const TensorView g = gate, u = up, o = on_cpu;
  const Held there[] = {{stream, g}, {stream, u}, {stream, o}};
  y.assign(size_t(n), 0), want.assign(o.as<float>(), o.as<float>() + n);
  BARACUDA_TRY(there[0].put(g.data));
  BARACUDA_TRY(there[1].put(u.data));
  for (int i = 0; i < times; ++i) BARACUDA_TRY(plan.run(stream, {}, {there[0].view(), there[1].view(), there[2].view()}));
  BARACUDA_TRY(there[2].get(y.data()));
  BARACUDA_TRY(half.wait(stream));
  half.drop_stream(stream.device.index, stream.handle);
  return {};
}

TEST(CudaStreams, ManyThreadsShareAPlan) {
  if (!on_cuda()) GTEST_SKIP() << "BARACUDA_TEST_DEVICE is not cuda";
  constexpr int64_t n = 100003;
  const auto plan = GatedPlan::select(test_stream(), {GatedKind::swiglu, DType::f32, {n}});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> got(16), want(16);
  std::vector<Status> status(16);
  for (size_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] { status[i] = swiglu(test_stream(), i % 2 ? &*plan : nullptr, n, 100 * i + 1, 200, got[i], want[i]); });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(status[i].ok()) << status[i].to_string();
    EXPECT_TRUE(got[i] == want[i]) << "thread " << i << ": not the CPU's bits";
  }
}
TEST(CudaStreams, TwoDevicesInOneProcess) {
  if (!on_cuda()) GTEST_SKIP() << "BARACUDA_TEST_DEVICE is not cuda";
  const auto second = Stream::cuda(nullptr, 1);
  if (!second.ok()) GTEST_SKIP() << second.status().message();
  std::vector<float> got[4], want[4];
  Status status[4];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { status[i] = swiglu(i % 2 ? *second : test_stream(), nullptr, 5001, uint64_t(i) + 7, 50, got[i], want[i]); });
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(status[i].ok()) << status[i].to_string();
    EXPECT_TRUE(got[i] == want[i]) << "device " << i % 2 << ": not the CPU's bits";
  }
  // One thread, one device after the other; a plan of the one is not for the stream or the memory of the other.
  for (const Stream& s : {test_stream(), *second, test_stream()}) EXPECT_OK(swiglu(s, nullptr, 777, 3, 2, got[0], want[0]));
  const auto plan = GatedPlan::select(test_stream(), {GatedKind::swiglu, DType::f32, {4}});
  const Tensor x(DType::f32, {4});
  const Held first(test_stream(), x), other(*second, x);
  expect_refused(plan->run(*second, {}, {first.view(), first.view(), first.view()}), Code::invalid_problem, {"cuda:1", "cuda:0"});
  expect_refused(plan->run(test_stream(), {}, {first.view(), other.view(), first.view()}), Code::invalid_problem, {"up", "cuda:1", "cuda:0"});
}
TEST(CudaStreams, MemoryOfTheHostIsRefused) {
  if (!on_cuda()) GTEST_SKIP() << "BARACUDA_TEST_DEVICE is not cuda";
  const auto plan = GatedPlan::select(test_stream(), {GatedKind::swiglu, DType::f32, {4}});
  const Tensor x(DType::f32, {4});
  Tensor y(DType::f32, {4});
  expect_refused(plan->run(test_stream(), {}, {x, x, y}), Code::invalid_problem, {"gate", "cpu", "cuda:0"});
}

}  // namespace
}  // namespace baracuda
