#include "baracuda/vendor/cublaslt.hpp"
#include <cublasLt.h>
#include <array>
#include <cstring>
#include <mutex>
#include "baracuda/core/text.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/vendor/opened.hpp"

namespace baracuda::cublaslt {
namespace {

#define BARACUDA_TEXT_OF(x) #x
#define BARACUDA_TEXT(x) BARACUDA_TEXT_OF(x)
constexpr const char* kFile = "libcublasLt.so." BARACUDA_TEXT(CUBLAS_VER_MAJOR);
#undef BARACUDA_TEXT
#undef BARACUDA_TEXT_OF

struct Functions {
  std::string missing;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescInit_internal) desc_init;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get;
};
Functions load() {
  Functions f{};
  Opened library(kFile);
  library.find("cublasLtCreate", f.create), library.find("cublasLtMatmul", f.matmul), library.find("cublasLtMatmulAlgoGetHeuristic", f.heuristic);
  library.find("cublasLtMatmulDescInit_internal", f.desc_init), library.find("cublasLtMatmulDescSetAttribute", f.desc_set);
  library.find("cublasLtMatrixLayoutInit_internal", f.layout_init), library.find("cublasLtMatrixLayoutSetAttribute", f.layout_set);
  library.find("cublasLtMatmulPreferenceInit_internal", f.preference_init), library.find("cublasLtMatmulPreferenceSetAttribute", f.preference_set);
  library.find("cublasLtMatmulAlgoConfigGetAttribute", f.config_get);
  f.missing = library.missing();
  return f;
}
const Functions& functions() {
  static const Functions f = load();
  return f;
}
Status failed(std::string_view what, cublasStatus_t s) {
  return Status(s == CUBLAS_STATUS_ALLOC_FAILED ? Code::out_of_memory : Code::backend_failure, text("cuBLASLt: ", what, " gave status ", int(s)));
}

// One handle per device, for all threads and streams; it lives as long as the process.
constexpr int kMostDevices = 64;
Result<cublasLtHandle_t> handle(int device) {
  static std::array<cublasLtHandle_t, kMostDevices> handles;
  static std::array<cublasStatus_t, kMostDevices> status;
  static std::array<std::once_flag, kMostDevices> once;
  if (device < 0 || device >= kMostDevices) return Status(Code::unsupported, text("cuBLASLt: device ", device, "; at most ", kMostDevices, " are kept"));
  const auto i = size_t(device);
  std::call_once(once[i], [&] { status[i] = functions().create(&handles[i]); });
  if (status[i] != CUBLAS_STATUS_SUCCESS) return failed("cublasLtCreate", status[i]);
  return handles[i];
}

cudaDataType_t type_of(DType t) { return t == DType::f16 ? CUDA_R_16F : t == DType::bf16 ? CUDA_R_16BF : t == DType::f64 ? CUDA_R_64F : CUDA_R_32F; }

// The library's descriptions of a product; on the stack, so that a run allocates nothing.
struct Description {
  cublasLtMatmulDescOpaque_t op;
  cublasLtMatrixLayoutOpaque_t a, b, d;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

  Description(const Product& p, const void* bias) {
    const Functions& f = functions();
    const cublasComputeType_t compute = p.in == DType::f64 ? CUBLAS_COMPUTE_64F : p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    note(f.desc_init(&op, sizeof op, compute, p.in == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    layout(a, p.in, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
    layout(b, p.in, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
    layout(d, p.out, p.m, p.n, p.ldd, p.batch, p.stride_d);
  }
  void note(cublasStatus_t s) { if (status == CUBLAS_STATUS_SUCCESS) status = s; }
  template <class T> void set(cublasLtMatmulDescAttributes_t attribute, T value) { note(functions().desc_set(&op, attribute, &value, sizeof value)); }
  void layout(cublasLtMatrixLayoutOpaque_t& l, DType t, int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride) {
    const Functions& f = functions();
    note(f.layout_init(&l, sizeof l, type_of(t), uint64_t(rows), uint64_t(columns), ld));
    if (batch == 1) return;
    const auto count = int32_t(batch);
    note(f.layout_set(&l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    note(f.layout_set(&l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  }
};

// The library's first choice, but where d is many waves of tiles one of 176 x 128, 168 x 128 or 128 x 160 if it is among the next: on an H200
// logits of 32000 classes, k 4096, take 9 % less so, of 50304, k 768, 10 % less; x^T dlogits of 256000 classes, k 2048, 14 % less.
constexpr int kChoices = 8;
constexpr float kManyWaves = 16;
const cublasLtMatmulHeuristicResult_t* choice(const cublasLtMatmulHeuristicResult_t* all, int count) {
  if (count == 0 || all->wavesCount < kManyWaves) return all;
  for (int i = 1; i < count; ++i) {
    uint32_t tile = 0;
    size_t written = 0;
    if (all[i].state == CUBLAS_STATUS_SUCCESS && functions().config_get(&all[i].algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &written) == CUBLAS_STATUS_SUCCESS &&
        (tile == CUBLASLT_MATMUL_TILE_176x128 || tile == CUBLASLT_MATMUL_TILE_168x128 || tile == CUBLASLT_MATMUL_TILE_128x160))
      return all + i;
  }
  return all;
}

}  // namespace

std::string missing() { return functions().missing; }

Result<Algorithm> choose(const Stream& stream, const Product& p, uint64_t most_workspace) {
  const Functions& f = functions();
  device::OnDevice on(stream);
  BARACUDA_TRY(device::cuda_status(on.error(), "cuBLASLt"));
  BARACUDA_TRY_ASSIGN(lt, handle(stream.device.index));
  Description d(p, nullptr);
  cublasLtMatmulPreferenceOpaque_t preference;
  d.note(f.preference_init(&preference, sizeof preference));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) { d.note(f.preference_set(&preference, attribute, &value, sizeof value)); };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  // Halves are rounded before the bias is added where k is split.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(p.bias && p.in != DType::f32 ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(attribute, uint32_t(p.alignment));
  if (d.status != CUBLAS_STATUS_SUCCESS) return failed("a description", d.status);
  cublasLtMatmulHeuristicResult_t all[kChoices] = {};
  int count = 0;
  const cublasStatus_t s = f.heuristic(lt, &d.op, &d.a, &d.b, &d.d, &d.d, &preference, kChoices, all, &count);
  const cublasLtMatmulHeuristicResult_t& found = *choice(all, count);
  if (s != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS)
    return Status(Code::unsupported, text("cuBLASLt has no kernel for ", p.in, " to ", p.out, " of ", p.m, " x ", p.n, " x ", p.k, " (status ", int(s), ")"));
  Algorithm how;
  static_assert(sizeof how.data == sizeof found.algo);
  std::memcpy(how.data, &found.algo, sizeof how.data);
  how.workspace = found.workspaceSize;
  return how;
}

Status multiply(const Stream& stream, const Product& p, const Algorithm& how, double alpha, double beta, const Operands& o, void* workspace) {
  device::OnDevice on(stream);
  BARACUDA_TRY(device::cuda_status(on.error(), "cuBLASLt"));
  BARACUDA_TRY_ASSIGN(lt, handle(stream.device.index));
  Description d(p, o.bias);
  if (d.status != CUBLAS_STATUS_SUCCESS) return failed("a description", d.status);
  cublasLtMatmulAlgo_t algo;
  std::memcpy(&algo, how.data, sizeof algo);
  const float narrow[2] = {float(alpha), float(beta)};
  const double wide[2] = {alpha, beta};
  const void *const scale = p.in == DType::f64 ? static_cast<const void*>(&wide[0]) : &narrow[0], *const keep = p.in == DType::f64 ? static_cast<const void*>(&wide[1]) : &narrow[1];
  const cublasStatus_t s = functions().matmul(lt, &d.op, scale, o.a, &d.a, o.b, &d.b, keep, o.d, &d.d, o.d, &d.d, &algo, workspace, how.workspace,
                                              static_cast<cudaStream_t>(stream.handle));
  return s == CUBLAS_STATUS_SUCCESS ? Status() : failed("cublasLtMatmul", s);
}

}  // namespace baracuda::cublaslt
