// OpenBLAS products. Its pthread build has one thread count for the process: it is set to 1 when the first plan that
// uses it is made. Calls are made one at a time: builds without locks share their packing buffers between threads, and
// concurrent calls then give other results (seen with the serial build of 0.3.21 on 16 threads). So this row has the
// speed of one thread; it is there for comparison and for those who require it.
#include <mutex>
#include "baracuda/core/text.hpp"
#include "baracuda/vendor/library_product.hpp"

#if BARACUDA_WITH_OPENBLAS
// The C interface of OpenBLAS with 32-bit integers. Declared here: distributions keep its header in different places.
extern "C" {
enum BlasOrder { kBlasRowMajor = 101 };
enum BlasTranspose { kBlasNoTrans = 111, kBlasTrans = 112 };
void cblas_sgemm(BlasOrder, BlasTranspose, BlasTranspose, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                 int ldb, float beta, float* c, int ldc);
void cblas_dgemm(BlasOrder, BlasTranspose, BlasTranspose, int m, int n, int k, double alpha, const double* a, int lda, const double* b,
                 int ldb, double beta, double* c, int ldc);
void openblas_set_num_threads(int);
int openblas_get_num_threads(void);
}
#endif

namespace baracuda {
namespace {

#if BARACUDA_WITH_OPENBLAS

Result<LibraryState> prepare(const LibraryShapes& s) {
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return Status(Code::unsupported, text("OpenBLAS has no ", name(s.dtype), " products"));
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  return LibraryState();
}
Status run(const void*, const LibraryShapes& s, const LibraryBlock& b) {
  for (int64_t extent : {b.m, b.n, b.k, b.lda, b.ldb, b.ldc})
    if (extent > INT32_MAX) return {Code::unsupported, text("openblas: ", extent, " exceeds its 32-bit integers")};
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto a_trans = s.trans_a ? kBlasTrans : kBlasNoTrans, b_trans = s.trans_b ? kBlasTrans : kBlasNoTrans;
  if (s.dtype == DType::f32)
    cblas_sgemm(kBlasRowMajor, a_trans, b_trans, int(b.m), int(b.n), int(b.k), 1, static_cast<const float*>(b.a), int(b.lda),
                static_cast<const float*>(b.b), int(b.ldb), b.accumulate, static_cast<float*>(b.c), int(b.ldc));
  else
    cblas_dgemm(kBlasRowMajor, a_trans, b_trans, int(b.m), int(b.n), int(b.k), 1, static_cast<const double*>(b.a), int(b.lda),
                static_cast<const double*>(b.b), int(b.ldb), b.accumulate, static_cast<double*>(b.c), int(b.ldc));
  return {};
}

#else

Result<LibraryState> prepare(const LibraryShapes&) { return Status(Code::unsupported, "this build has no OpenBLAS"); }
Status run(const void*, const LibraryShapes&, const LibraryBlock&) { return {Code::unsupported, "this build has no OpenBLAS"}; }

#endif

int64_t scratch_bytes(const void*) { return 0; }

}  // namespace

const LibraryProduct& openblas_product() {
  static constexpr LibraryProduct product{false, prepare, scratch_bytes, run};
  return product;
}

}  // namespace baracuda
