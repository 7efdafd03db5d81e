// oneDNN matmul: a primitive per extent of a block, made when the plan is. (One primitive with extents and strides given at
// run time would do, but oneDNN serves those by its reference loops.)
#include "baracuda/core/text.hpp"
#include "baracuda/vendor/library_product.hpp"

#if BARACUDA_WITH_ONEDNN
#include <algorithm>
#include <dlfcn.h>
#include <dnnl.hpp>
#include <vector>
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

struct Entry {
  int64_t m, n, k;
  bool accumulate;
  dnnl::memory::desc a, b, c, scratch;
  dnnl::matmul matmul;
};
struct Prepared {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::vector<Entry> entries;
  int64_t scratch_bytes = 0;
};
Status failure(const dnnl::error& e) {
  return {Code::backend_failure, text("onednn: status ", int(e.status), ", ", e.what())};
}

Result<LibraryState> prepare(const LibraryShapes& s) {
  if (s.dtype != DType::f32 && s.dtype != DType::bf16) return Status(Code::unsupported, text("oneDNN has no ", name(s.dtype), " products"));
  if (const unsigned runtime = dnnl_version()->cpu_runtime; runtime != DNNL_RUNTIME_OMP && runtime != DNNL_RUNTIME_SEQ)
    return Status(Code::unsupported, "this oneDNN cannot be held to one thread: it was not built for OpenMP");
  try {
    OneThread one;
    using dnnl::memory;
    const auto in = s.dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    const auto ab = memory::format_tag::ab, ba = memory::format_tag::ba;
    // Scratch of our own: the library's is shared by all primitives that one thread made, which several may run at once.
    dnnl::primitive_attr overwriting, accumulating;
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    accumulating.set_post_ops(sum);
    for (dnnl::primitive_attr* attr : {&overwriting, &accumulating}) attr->set_scratchpad_mode(dnnl::scratchpad_mode::user);
    auto p = std::make_shared<Prepared>();
    for (int64_t m : s.m)
      for (int64_t n : s.n)
        for (int64_t k : s.k)
          for (bool accumulate : {false, true}) {
            if (m == 0 || n == 0 || k == 0 || (accumulate && !s.accumulate)) continue;
            Entry e{m, n, k, accumulate, {{m, k}, in, s.trans_a ? ba : ab}, {{k, n}, in, s.trans_b ? ba : ab}, {{m, n}, memory::data_type::f32, ab}, {}, {}};
            const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(e.a, e.b, e.c), accumulate ? accumulating : overwriting, p->engine);
            e.scratch = pd.scratchpad_desc(), e.matmul = dnnl::matmul(pd);
            p->scratch_bytes = std::max(p->scratch_bytes, int64_t(e.scratch.get_size()));
            p->entries.push_back(std::move(e));
          }
    return LibraryState(std::move(p));
  } catch (const dnnl::error& e) {
    return failure(e);
  }
}
int64_t scratch_bytes(const void* prepared) { return static_cast<const Prepared*>(prepared)->scratch_bytes; }
Status run(const void* prepared, const LibraryShapes&, const LibraryBlock& b) {
  const Prepared& p = *static_cast<const Prepared*>(prepared);
  for (const Entry& e : p.entries)
    if (e.m == b.m && e.n == b.n && e.k == b.k && e.accumulate == b.accumulate) try {
        OneThread one;
        using dnnl::memory;
        dnnl::stream stream(p.engine);
        e.matmul.execute(stream, {{DNNL_ARG_SRC, memory(e.a, p.engine, const_cast<void*>(b.a))},
                                  {DNNL_ARG_WEIGHTS, memory(e.b, p.engine, const_cast<void*>(b.b))},
                                  {DNNL_ARG_DST, memory(e.c, p.engine, b.c)},
                                  {DNNL_ARG_SCRATCHPAD, memory(e.scratch, p.engine, b.scratch)}});
        stream.wait();
        return {};
      } catch (const dnnl::error& e) {
        return failure(e);
      }
  return {Code::backend_failure, text("onednn: no primitive for a block of ", b.m, "x", b.n, "x", b.k)};
}

#else

Result<LibraryState> prepare(const LibraryShapes&) { return Status(Code::unsupported, "this build has no oneDNN"); }
int64_t scratch_bytes(const void*) { return 0; }
Status run(const void*, const LibraryShapes&, const LibraryBlock&) { return {Code::unsupported, "this build has no oneDNN"}; }

#endif

}  // namespace

const LibraryProduct& onednn_product() {
  static constexpr LibraryProduct product{prepare, scratch_bytes, run};
  return product;
}

}  // namespace baracuda
