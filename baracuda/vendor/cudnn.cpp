#include "baracuda/vendor/cudnn.hpp"
#if !__has_include(<cudnn_graph.h>)  // it is not part of the toolkit

namespace baracuda::cudnn {
class Graph {};
std::string missing() { return "this build has no cuDNN: there was no cudnn_graph.h"; }
Result<SharedGraph> forward(const Stream&, const Attention&) { return Status(Code::unsupported, missing()); }
Result<SharedGraph> backward(const Stream&, const Attention&) { return Status(Code::unsupported, missing()); }
uint64_t workspace_size(const Graph&) { return 0; }
bool same_bits_again(const Graph&) { return false; }
Status run(const Stream&, const Graph&, const Tensors&, void*) { return {Code::unsupported, missing()}; }
}  // namespace baracuda::cudnn

#else
#include <cudnn_graph.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>
#include "baracuda/core/text.hpp"
#include "baracuda/device/launch.hpp"
#include "baracuda/vendor/opened.hpp"

namespace baracuda::cudnn {
namespace {

constexpr const char* kFile = "libcudnn.so.9";
constexpr size_t kOldest = 91900;  // what has run; before 9.16 the backward needs lengths of multiples of 128

struct Functions {
  std::string missing;
  size_t number = 0;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_text;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) make;
  decltype(&cudnnBackendDestroyDescriptor) drop;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};
Functions load() {
  Functions f{};
  Opened library(kFile);
  library.find("cudnnGetVersion", f.version), library.find("cudnnGetErrorString", f.error_text);
  library.find("cudnnCreate", f.create), library.find("cudnnSetStream", f.set_stream);
  library.find("cudnnBackendCreateDescriptor", f.make), library.find("cudnnBackendDestroyDescriptor", f.drop);
  library.find("cudnnBackendSetAttribute", f.set), library.find("cudnnBackendGetAttribute", f.get);
  library.find("cudnnBackendFinalize", f.finalize), library.find("cudnnBackendExecute", f.execute);
  f.missing = library.missing();
  if (!f.missing.empty()) return f;
  f.number = f.version();
  if (f.number < kOldest) f.missing = text(kFile, " is cuDNN ", f.number / 10000, ".", f.number / 100 % 100, ", 9.19 or newer is needed");
  return f;
}
const Functions& functions() {
  static const Functions f = load();
  return f;
}
Status failed(std::string_view what, cudnnStatus_t s) {
  const Functions& f = functions();
  const Code code = CUDNN_STATUS_CATEGORY(s) == CUDNN_STATUS_NOT_SUPPORTED ? Code::unsupported : Code::backend_failure;
  return Status(code, text("cuDNN ", f.number / 10000, ".", f.number / 100 % 100, ": ", what, " gave ", f.error_text(s)));
}

// Two handles per device for all threads and streams, which take turns, so that a run does not wait for a kernel that is compiled; they live as
// long as the process. No run makes another.
constexpr int kMostDevices = 64;
enum Use { kCompiles, kRuns, kUses };
struct Handle {
  std::once_flag once;
  std::mutex turn;
  cudnnHandle_t handle = nullptr;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
};
Result<Handle*> handle_of(int device, Use use) {
  static auto* handles = new std::array<std::array<Handle, kUses>, kMostDevices>;  // outlives static destructors
  if (device < 0 || device >= kMostDevices) return Status(Code::unsupported, text("cuDNN: device ", device, "; at most ", kMostDevices, " are kept"));
  Handle& h = (*handles)[size_t(device)][use];
  std::call_once(h.once, [&] { h.status = functions().create(&h.handle); });
  if (h.status != CUDNN_STATUS_SUCCESS) return failed("cudnnCreate", h.status);
  return &h;
}

using Raw = cudnnBackendDescriptor_t;
using Dims = std::array<int64_t, 4>;
enum Id : int64_t { kQ = 1, kK, kV, kY, kLse, kDy, kDq, kDk, kDv, kDelta, kDqSums, kFirstOther };

}  // namespace

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    for (auto d = all.rbegin(); d != all.rend(); ++d) functions().drop(*d);
  }
  // Scalars are read at every run from where the graph keeps them.
  union Scalar { float f; int32_t i; };
  static constexpr size_t kMostScalars = 16, kMostTensors = 12;
  std::array<Scalar, kMostScalars> scalars{};
  std::array<int64_t, kMostScalars> scalar_ids{};
  size_t scalar_count = 0;
  std::vector<int64_t> tensors;  // ids
  std::vector<Raw> all;          // all descriptors, in the order of their making
  Raw plan = nullptr;
  int64_t workspace = 0;
  bool repeats = true;
};

namespace {

// Writes a graph down. The first error stays, and nothing is done after it.
class Writer {
 public:
  Writer(const Attention& a, Graph& g) : a_(a), g_(g), io_(a.dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16) {}

  // Tensors of the caller; dims as [batch, head, row, element].
  Raw rows(Id id, int64_t heads, int64_t length, int64_t width, bool transposed = false) {
    Dims dims{a_.batch, heads, length, width}, strides = lying(heads, length, width);
    if (transposed) std::swap(dims[2], dims[3]), std::swap(strides[2], strides[3]);
    g_.tensors.push_back(id);
    return tensor(id, io_, dims, strides, false);
  }
  Dims lying(int64_t heads, int64_t length, int64_t width) const {
    return a_.heads_last ? Dims{length * heads * width, width, heads * width, 1} : dense({a_.batch, heads, length, width});
  }
  Raw q(Id id) { return rows(id, a_.heads, a_.q_len, a_.head_dim); }
  Raw y(Id id) { return rows(id, a_.heads, a_.q_len, a_.head_dim_v); }
  Raw f32(Id id, int64_t width) {
    const Dims dims{a_.batch, a_.heads, a_.q_len, width};
    g_.tensors.push_back(id);
    return tensor(id, CUDNN_DATA_FLOAT, dims, dense(dims), false);
  }
  // Values between operations, which never reach memory unless the kernel needs that.
  Raw between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) { return tensor(next_++, type, dims, dense(dims), true); }
  Raw between(const Dims& dims, const Dims& strides, cudnnDataType_t type = CUDNN_DATA_FLOAT) { return tensor(next_++, type, dims, strides, true); }
  Dims scores() const { return {a_.batch, a_.heads, a_.q_len, a_.k_len}; }
  Dims sums() const { return {a_.batch, a_.heads, a_.q_len, 1}; }
  cudnnDataType_t io() const { return io_; }
  Raw number(float v) { return scalar({.f = v}, CUDNN_DATA_FLOAT); }
  Raw number(int32_t v) { return scalar({.i = v}, CUDNN_DATA_INT32); }

  Raw pointwise(cudnnPointwiseMode_t mode, Raw x, Raw b, Raw to, cudnnDataType_t compute = CUDNN_DATA_FLOAT, Raw choice = nullptr, int64_t axis = -1) {
    const Raw how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
    if (axis >= 0) set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    finalize(how, "a pointwise operation");
    const Raw op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (choice) set(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, choice);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    return queue(op, to);
  }
  Raw scored(cudnnPointwiseMode_t mode, Raw x, Raw b = nullptr) { return pointwise(mode, x, b, between(scores())); }
  Raw product(Raw a, Raw b, Raw to) {
    const Raw how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    finalize(how, "a product");
    const Raw op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, to);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    return queue(op, to);
  }
  Raw reduced(cudnnReduceTensorOp_t mode, Raw x, Raw to) {
    const Raw how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
    set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    finalize(how, "a reduction");
    const Raw op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to);
    return queue(op, to);
  }
  Raw seen_as(Raw x, Raw to) {
    const Raw op = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to);
    return queue(op, to);
  }
  Raw index(int64_t axis, Raw x) {
    return pointwise(CUDNN_POINTWISE_GEN_INDEX, x, nullptr, between(scores(), CUDNN_DATA_INT32), CUDNN_DATA_FLOAT, nullptr, axis);
  }
  // -inf for hidden keys, in the arrangement that the library's kernels know.
  Raw masked(Raw x) {
    const auto whole = [&](cudnnPointwiseMode_t mode, Raw i, int64_t by) {
      return pointwise(mode, i, number(int32_t(by)), between(scores(), CUDNN_DATA_INT32), CUDNN_DATA_INT32);
    };
    const auto kept = [&](cudnnPointwiseMode_t mode, Raw i, Raw j) {
      const Raw choice = pointwise(mode, i, j, between(scores(), CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
      return pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, number(-std::numeric_limits<float>::infinity()), between(scores()), CUDNN_DATA_FLOAT, choice);
    };
    if (a_.right >= 0) {
      Raw i = index(2, x);
      const Raw j = index(3, x);
      if (!a_.top_left) i = whole(CUDNN_POINTWISE_ADD, i, a_.k_len), i = whole(CUDNN_POINTWISE_SUB, i, a_.q_len);
      if (a_.right > 0) i = whole(CUDNN_POINTWISE_ADD, i, a_.right);
      x = kept(CUDNN_POINTWISE_CMP_GE, i, j);
    }
    if (a_.left >= 0) {
      const Raw i = index(2, x), j = index(3, x);
      const float shift = float(a_.left + 1 - (a_.top_left ? 0 : a_.k_len - a_.q_len));
      x = kept(CUDNN_POINTWISE_CMP_GT, pointwise(CUDNN_POINTWISE_ADD, j, number(shift), between(scores())), i);
    }
    return x;
  }

  Status compile(const Stream& stream) {
    BARACUDA_TRY_ASSIGN(h, handle_of(stream.device.index, kCompiles));
    std::lock_guard lock(h->turn);
    const Raw graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, h->handle);
    set_all(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, ops_);
    finalize(graph, "the graph");
    const Raw choices = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(choices, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(choices, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    finalize(choices, "the search for a kernel");
    int64_t count = 0;
    note(functions().get(choices, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr), "the search for a kernel");
    std::vector<Raw> found;
    for (int64_t i = 0; i < std::min<int64_t>(count, kMostChoices); ++i) found.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    note(functions().get(choices, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, int64_t(found.size()), &count, found.data()), "the search for a kernel");
    if (status_ != CUDNN_STATUS_SUCCESS) return failed(what_, status_);
    cudnnStatus_t last = CUDNN_STATUS_NOT_SUPPORTED;
    for (int64_t i = 0; i < std::min<int64_t>(count, int64_t(found.size())) && !g_.plan; ++i) {
      const Raw plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, h->handle);
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found[size_t(i)]);
      if (status_ != CUDNN_STATUS_SUCCESS) return failed(what_, status_);
      last = functions().finalize(plan);
      if (last == CUDNN_STATUS_SUCCESS) g_.plan = plan, read_notes(found[size_t(i)]);
    }
    if (!g_.plan) return failed("compiling a kernel", last);
    note(functions().get(g_.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, nullptr, &g_.workspace), "the workspace of a kernel");
    return status_ == CUDNN_STATUS_SUCCESS ? Status() : failed(what_, status_);
  }

 private:
  static constexpr int64_t kMostChoices = 8;
  static Dims dense(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
  void note(cudnnStatus_t s, std::string_view what) {
    if (status_ == CUDNN_STATUS_SUCCESS && s != CUDNN_STATUS_SUCCESS) status_ = s, what_ = what;
  }
  Raw make(cudnnBackendDescriptorType_t type) {
    Raw d = nullptr;
    if (status_ == CUDNN_STATUS_SUCCESS) note(functions().make(type, &d), "a description");
    if (d) g_.all.push_back(d);
    return d;
  }
  template <class T> void set_all(Raw d, cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, const T& values) {
    if (status_ == CUDNN_STATUS_SUCCESS) note(functions().set(d, attribute, type, int64_t(std::size(values)), std::data(values)), "a description");
  }
  template <class T> void set(Raw d, cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, const T& value) { set_all(d, attribute, type, std::array<T, 1>{value}); }
  void set(Raw d, cudnnBackendAttributeName_t attribute, Raw value) { set(d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, value); }
  void finalize(Raw d, std::string_view what) {
    if (status_ == CUDNN_STATUS_SUCCESS) note(functions().finalize(d), what);
  }
  Raw queue(Raw op, Raw result) {
    finalize(op, "an operation");
    ops_.push_back(op);
    return result;
  }
  Raw tensor(int64_t id, cudnnDataType_t type, const Dims& dims, const Dims& strides, bool is_virtual, bool by_value = false) {
    const Raw d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    set_all(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    set_all(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t(16));
    set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
    finalize(d, "a tensor");
    return d;
  }
  Raw scalar(Graph::Scalar v, cudnnDataType_t type) {
    if (g_.scalar_count == Graph::kMostScalars) return note(CUDNN_STATUS_INTERNAL_ERROR, "a scalar"), nullptr;
    const size_t i = g_.scalar_count++;
    g_.scalars[i] = v, g_.scalar_ids[i] = next_++;
    return tensor(g_.scalar_ids[i], type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
  }
  void read_notes(Raw choice) {
    Raw engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    note(functions().get(choice, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine), "the notes on a kernel");
    note(functions().get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, int64_t(notes.size()), &count, notes.data()), "the notes on a kernel");
    const auto end = notes.begin() + std::min<int64_t>(count, int64_t(notes.size()));
    g_.repeats = std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end;
  }

  const Attention& a_;
  Graph& g_;
  cudnnDataType_t io_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
  std::string_view what_;
  int64_t next_ = kFirstOther;
  std::vector<Raw> ops_;
};

void write_forward(Writer& w, const Attention& a) {
  const Raw kt = w.rows(kK, a.kv_heads, a.k_len, a.head_dim, true);
  Raw s = w.product(w.q(kQ), kt, w.between(w.scores()));
  s = w.masked(w.scored(CUDNN_POINTWISE_MUL, s, w.number(float(a.scale))));
  const Raw top = w.reduced(CUDNN_REDUCE_TENSOR_MAX, s, w.between(w.sums()));
  const Raw p = w.scored(CUDNN_POINTWISE_EXP, w.scored(CUDNN_POINTWISE_SUB, s, top));
  const Raw sum = w.reduced(CUDNN_REDUCE_TENSOR_ADD, p, w.between(w.sums()));
  w.pointwise(CUDNN_POINTWISE_ADD, top, w.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, w.between(w.sums())), w.f32(kLse, 1));
  const Raw share = w.pointwise(CUDNN_POINTWISE_DIV, p, sum, w.between(w.scores(), w.io()));
  w.product(share, w.rows(kV, a.kv_heads, a.k_len, a.head_dim_v), w.y(kY));
}

void write_backward(Writer& w, const Attention& a) {
  const Raw q = w.q(kQ), dy = w.y(kDy), scale = w.number(float(a.scale));
  const Raw kt = w.rows(kK, a.kv_heads, a.k_len, a.head_dim, true), vt = w.rows(kV, a.kv_heads, a.k_len, a.head_dim_v, true);
  const Dims turned{a.batch, a.heads, a.k_len, a.q_len}, turned_strides{a.heads * a.q_len * a.k_len, a.q_len * a.k_len, 1, a.k_len};
  // [key, query] from [query, key]; dk or dv, summed over the heads of a group.
  const auto gathered = [&](Raw weights, Raw rows, Id id, int64_t width) {
    const Raw t = w.seen_as(weights, w.between(turned, turned_strides, w.io()));
    const Raw to = w.rows(id, a.kv_heads, a.k_len, width);
    if (a.heads == a.kv_heads) return void(w.product(t, rows, to));
    w.reduced(CUDNN_REDUCE_TENSOR_ADD, w.product(t, rows, w.between({a.batch, a.heads, a.k_len, width}, w.io())), to);
  };
  const Raw each = w.pointwise(CUDNN_POINTWISE_MUL, dy, w.y(kY), w.between({a.batch, a.heads, a.q_len, a.head_dim_v}));
  const Raw delta = w.pointwise(CUDNN_POINTWISE_MUL, w.reduced(CUDNN_REDUCE_TENSOR_ADD, each, w.between(w.sums())), w.number(1.0f), w.f32(kDelta, 1));
  Raw s = w.scored(CUDNN_POINTWISE_MUL, w.product(q, kt, w.between(w.scores())), scale);
  s = w.masked(w.scored(CUDNN_POINTWISE_SUB, s, w.f32(kLse, 1)));
  const Raw p = w.scored(CUDNN_POINTWISE_EXP, s);
  gathered(p, dy, kDv, a.head_dim_v);
  Raw ds = w.scored(CUDNN_POINTWISE_SUB, w.product(dy, vt, w.between(w.scores())), delta);
  ds = w.scored(CUDNN_POINTWISE_MUL, w.scored(CUDNN_POINTWISE_MUL, ds, p), scale);
  gathered(ds, q, kDk, a.head_dim);
  const Raw k = w.seen_as(kt, w.between({a.batch, a.kv_heads, a.k_len, a.head_dim}, w.lying(a.kv_heads, a.k_len, a.head_dim)));
  w.pointwise(CUDNN_POINTWISE_IDENTITY, w.product(ds, k, w.f32(kDqSums, a.head_dim)), nullptr, w.q(kDq));
}

Result<SharedGraph> compiled(const Stream& stream, const Attention& a, void (*write)(Writer&, const Attention&)) {
  if (const std::string why = missing(); !why.empty()) return Status(Code::unsupported, why);
  device::OnDevice on(stream);
  BARACUDA_TRY(device::cuda_status(on.error(), "cuDNN"));
  const auto g = std::make_shared<Graph>();
  Writer w(a, *g);
  write(w, a);
  BARACUDA_TRY(w.compile(stream));
  BARACUDA_TRY(handle_of(stream.device.index, kRuns).status());
  return SharedGraph(g);
}

}  // namespace

std::string missing() { return functions().missing; }
Result<SharedGraph> forward(const Stream& stream, const Attention& a) { return compiled(stream, a, write_forward); }
Result<SharedGraph> backward(const Stream& stream, const Attention& a) { return compiled(stream, a, write_backward); }
uint64_t workspace_size(const Graph& g) { return uint64_t(g.workspace); }
bool same_bits_again(const Graph& g) { return g.repeats; }

Status run(const Stream& stream, const Graph& g, const Tensors& t, void* workspace) {
  const Functions& f = functions();
  device::OnDevice on(stream);
  BARACUDA_TRY(device::cuda_status(on.error(), "cuDNN"));
  BARACUDA_TRY_ASSIGN(h, handle_of(stream.device.index, kRuns));
  void* const by_id[] = {nullptr, t.q, t.k, t.v, t.y, t.lse, t.dy, t.dq, t.dk, t.dv, t.delta, t.dq_sums};
  std::array<int64_t, Graph::kMostTensors + Graph::kMostScalars> ids;
  std::array<const void*, Graph::kMostTensors + Graph::kMostScalars> data;
  size_t n = 0;
  for (const int64_t id : g.tensors) ids[n] = id, data[n++] = by_id[id];
  for (size_t i = 0; i < g.scalar_count; ++i) ids[n] = g.scalar_ids[i], data[n++] = &g.scalars[i];
  Raw pack = nullptr;
  cudnnStatus_t s = f.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  const auto then = [&](auto&& step) { if (s == CUDNN_STATUS_SUCCESS) s = step(); };
  then([&] { return f.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, int64_t(n), ids.data()); });
  then([&] { return f.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, int64_t(n), data.data()); });
  then([&] { return f.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace); });
  then([&] { return f.finalize(pack); });
  {
    std::lock_guard lock(h->turn);
    then([&] { return f.set_stream(h->handle, static_cast<cudaStream_t>(stream.handle)); });
    then([&] { return f.execute(h->handle, g.plan, pack); });
  }
  if (pack) f.drop(pack);
  return s == CUDNN_STATUS_SUCCESS ? Status() : failed("attention", s);
}

}  // namespace baracuda::cudnn
#endif
