// oneDNN matmul with extents and strides given at run time, so that one primitive serves every block.
#include "baracuda/core/text.hpp"
#include "baracuda/vendor/library_product.hpp"

#if BARACUDA_WITH_ONEDNN
#include <dlfcn.h>
#include <dnnl.hpp>
#endif

namespace baracuda {
namespace {

#if BARACUDA_WITH_ONEDNN

// oneDNN runs on the OpenMP runtime that it was linked with; a thread's own setting decides about its calls.
class OneThread {
 public:
  OneThread() {
    if (!runtime().set) return;
    before_ = runtime().get();
    if (before_ != 1) runtime().set(1);
  }
  ~OneThread() { if (before_ > 1) runtime().set(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  struct Runtime { void (*set)(int); int (*get)(); };
  static const Runtime& runtime() {
    static const Runtime r = [] {
      Runtime found{reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")),
                    reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))};
      return found.set && found.get ? found : Runtime{};
    }();
    return r;
  }
  int before_ = 1;
};

struct Prepared {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::memory::data_type in{};
  dnnl::matmul overwrite, accumulate;
};
Status failure(const dnnl::error& e) {
  return {Code::backend_failure, text("onednn: status ", int(e.status), ", ", e.what())};
}

Result<std::shared_ptr<const void>> prepare(DType t) {
  if (t != DType::f32 && t != DType::bf16) return Status(Code::unsupported, text("oneDNN has no ", name(t), " products on this processor"));
  if (const unsigned runtime = dnnl_version()->cpu_runtime; runtime != DNNL_RUNTIME_OMP && runtime != DNNL_RUNTIME_SEQ)
    return Status(Code::unsupported, "this oneDNN cannot be held to one thread: it was not built for OpenMP");
  try {
    OneThread one;
    using dnnl::memory;
    auto p = std::make_shared<Prepared>();
    p->in = t == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    const memory::dims any = {DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_DIM_VAL};
    const memory::desc in(any, p->in, any), out(any, memory::data_type::f32, memory::dims{DNNL_RUNTIME_DIM_VAL, 1});
    dnnl::primitive_attr attr;
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
    p->overwrite = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(in, in, out), p->engine));
    p->accumulate = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(in, in, out), attr, p->engine));
    return std::shared_ptr<const void>(std::move(p));
  } catch (const dnnl::error& e) {
    return failure(e);
  }
}
Status run(const void* prepared, DType, const LibraryBlock& b) {
  const Prepared& p = *static_cast<const Prepared*>(prepared);
  try {
    OneThread one;
    using dnnl::memory;
    const memory a_memory({{b.m, b.k}, p.in, memory::dims{b.a_row, b.a_col}}, p.engine, const_cast<void*>(b.a));
    const memory b_memory({{b.k, b.n}, p.in, memory::dims{b.b_row, b.b_col}}, p.engine, const_cast<void*>(b.b));
    const memory c_memory({{b.m, b.n}, memory::data_type::f32, memory::dims{b.c_row, 1}}, p.engine, b.c);
    dnnl::stream stream(p.engine);
    (b.accumulate ? p.accumulate : p.overwrite)
        .execute(stream, {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, c_memory}});
    stream.wait();
    return {};
  } catch (const dnnl::error& e) {
    return failure(e);
  }
}

#else

Result<std::shared_ptr<const void>> prepare(DType) { return Status(Code::unsupported, "this build has no oneDNN"); }
Status run(const void*, DType, const LibraryBlock&) { return {Code::unsupported, "this build has no oneDNN"}; }

#endif

}  // namespace

const LibraryProduct& onednn_product() {
  static constexpr LibraryProduct product{prepare, run};
  return product;
}

}  // namespace baracuda
