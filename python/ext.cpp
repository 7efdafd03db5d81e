// The extension: plans by name over the registry, tensors through DLPack or the buffer protocol. What a user sees is in
// the Python files beside it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <cstring>
#include <map>
#include "baracuda/core/registry.hpp"
#include "baracuda/core/transfer.hpp"
#include "baracuda/host/thread_team.hpp"
#include "baracuda/io/ops_json.hpp"
#include "baracuda_version.hpp"

namespace nb = nanobind;
using namespace baracuda;

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;
using Input = nb::ndarray<nb::ro>;
using Output = nb::ndarray<>;

[[noreturn]] void raise(const Status& s) {
  nb::object error = nb::module_::import_("baracuda.errors").attr("make")(std::string(name(s.code())), s.message(), s.needed(), s.got());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}
void check(const Status& s) { if (!s.ok()) raise(s); }

// The codes of DLPack, the later ones too.
nb::dlpack::dtype dlpack_of(DType t) {
  using Code = nb::dlpack::dtype_code;
  const DTypeFacts& f = kDTypeFacts[size_t(t)];
  const Code code = t == DType::boolean ? Code::Bool : t == DType::bf16 ? Code::Bfloat : t == DType::f8_e4m3fn ? Code::Float8_E4M3FN
                    : t == DType::f8_e5m2 ? Code::Float8_E5M2 : t == DType::f8_e4m3fnuz ? Code::Float8_E4M3FNUZ
                    : t == DType::f8_e5m2fnuz ? Code::Float8_E5M2FNUZ : f.complex ? Code::Complex : f.floating ? Code::Float
                    : f.is_signed ? Code::Int : Code::UInt;
  return {uint8_t(code), uint8_t(f.bits), 1};
}
DType dtype_of(const std::string& arg, nb::dlpack::dtype d) {
  for (size_t i = 0; i < kDTypes; ++i)
    if (bit_size(DType(i)) >= 8 && dlpack_of(DType(i)) == d) return DType(i);
  raise({Code::unsupported, text(arg, ": no dtype for DLPack code ", int(d.code), " with ", int(d.bits), " bits")});
}
DType dtype_named(const std::string& word) {
  DType t = DType::count;
  check(parse_value("dtype", word, t));
  return t;
}

// One tensor of an argument: a view, and what keeps its memory alive during the call.
struct Held { TensorView view; Input input; Output output; };
template <class Array> TensorView view_of(const std::string& arg, const Array& a, const std::optional<std::string>& as) {
  TensorView v;
  if (a.device_type() == nb::device::cpu::value || a.device_type() == nb::device::cuda_host::value) v.device = {};
  else if (a.device_type() == nb::device::cuda::value) v.device = {DeviceKind::cuda, a.device_id()};
  else raise({Code::unsupported, text(arg, ": DLPack device type ", a.device_type(), " is neither CPU nor CUDA")});
  v.dtype = as ? dtype_named(*as) : dtype_of(arg, a.dtype());
  if (int(byte_size(v.dtype)) * 8 != int(a.dtype().bits)) raise({Code::invalid_problem, text(arg, ": elements of ", int(a.dtype().bits), " bits cannot be ", v.dtype)});
  if (a.ndim() > size_t(kMaxRank)) raise({Code::invalid_problem, text(arg, ": rank ", a.ndim(), ", at most ", kMaxRank, " is allowed")});
  for (size_t i = 0; i < a.ndim(); ++i) v.shape.push_back(int64_t(a.shape(i))), v.strides.push_back(a.stride(i));
  v.data = const_cast<void*>(static_cast<const void*>(a.data()));
  // An empty tensor may come without memory; it is given all the same.
  static char empty alignas(16);
  if (!v.data && v.shape.rank == 0) v.data = &empty;
  return v;
}
Held hold(const std::string& arg, nb::handle object, bool written) {
  // (array, "bf16"): the dtype that the array's own words cannot say.
  std::optional<std::string> as;
  nb::object array = nb::borrow(object);
  if (nb::isinstance<nb::tuple>(object)) {
    nb::tuple pair = nb::borrow<nb::tuple>(object);
    if (nb::len(pair) != 2 || !nb::isinstance<nb::str>(pair[1])) raise({Code::invalid_problem, text(arg, " takes a tensor")});
    array = pair[0], as = nb::cast<std::string>(pair[1]);
  }
  Held h;
  if (written ? !nb::try_cast(array, h.output, false) : !nb::try_cast(array, h.input, false)) {
    std::string dtype;  // of big-endian numbers, say, or of objects
    if (nb::hasattr(array, "dtype")) {
      const nb::object its = array.attr("dtype");
      dtype = text(" of dtype ", nb::str(its).c_str());
    }
    raise({Code::invalid_problem, text(arg, written ? " takes a writable tensor with __dlpack__ or a buffer, not " : " takes a tensor with __dlpack__ or a buffer, not ",
                                       nb::type_name(array.type()).c_str(), dtype)});
  }
  h.view = written ? view_of(arg, h.output, as) : view_of(arg, h.input, as);
  return h;
}

class PyPlan {
 public:
  PyPlan(const std::string& op, const Settings& fields, const Settings& preferences, const std::string& device) {
    const OpInfo* info = find_op(op);
    if (!info) raise({Code::invalid_problem, text(no_op(op), "; baracuda.op_names() lists them")});
    std::vector<KeyValue> settings;
    for (const auto& [key, value] : fields) settings.push_back({key, value});
    PlanPreference preference;
    for (const auto& [key, value] : preferences) check(set_preference(preference, key, value));
    const auto where = parse_device(device);
    check(where.status());
    if (where->kind == DeviceKind::cuda) {
      const auto cuda = Stream::cuda(nullptr, where->index);
      check(cuda.status());
      stream_ = *cuda;
    }
    auto made = info->select(stream_, settings, preference);
    check(made.status());
    plan_ = *made;
    for (ArgInfo& a : plan_->args()) roles_[std::string(a.name)] = a;
  }
  std::string device() const { return to_string(plan_->device()); }
  std::string op() const { return std::string(plan_->sku().op); }
  std::string kernel() const { return std::string(plan_->sku().kernel); }
  std::string sku() const { return to_string(plan_->sku()); }
  std::string guarantee() const { return to_string(plan_->sku().guarantee); }
  bool deterministic() const { return plan_->sku().guarantee.deterministic; }
  bool batch_invariant() const { return plan_->sku().guarantee.batch_invariant; }
  std::string descriptor() const { return plan_->descriptor(); }
  uint64_t workspace_size() const { return plan_->workspace_size(); }
  std::vector<std::pair<std::string, uint64_t>> workspace_items() const {
    std::vector<std::pair<std::string, uint64_t>> list;
    for (const WorkspaceItem& i : plan_->workspace_items()) list.emplace_back(std::string(i.name), i.bytes);
    return list;
  }
  // (name, role, type, presence, dtype, shape, count)
  nb::list arguments() const {
    auto found = plan_->arguments();
    check(found.status());
    nb::list list;
    for (const Argument& a : *found) {
      nb::object dtype = nb::none(), shape = nb::none();
      if (a.dtype) dtype = nb::str(name(*a.dtype).data(), name(*a.dtype).size());
      if (a.shape) {
        nb::list dims;
        for (int i = 0; i < a.shape->rank; ++i) dims.append(a.shape->dim[i]);
        shape = nb::tuple(dims);
      }
      list.append(nb::make_tuple(std::string(a.info.name), std::string(name(a.info.role)), std::string(a.info.type), std::string(name(a.presence)), dtype, shape, a.count));
    }
    return list;
  }
  void can_implement(const nb::dict& args) const {
    Call call = gather(args);
    check(plan_->can_implement(call.values));
  }
  // CUDA: queued on the cudaStream_t `handle`, with scratch of workspace_size() bytes at `scratch`; 0: this thread's own, which
  // serves one stream.
  void run(const nb::dict& args, uintptr_t handle, uintptr_t scratch) const {
    Call call = gather(args);
    Status s;
    {
      nb::gil_scoped_release release;
      thread_local std::map<std::pair<DeviceKind, int>, ScratchArena> arenas;
      Stream stream = stream_;
      stream.handle = reinterpret_cast<void*>(handle);
      Result<Workspace> workspace = Workspace{reinterpret_cast<void*>(scratch), plan_->workspace_size()};
      if (!scratch) workspace = arenas.try_emplace({stream.device.kind, stream.device.index}, stream.device).first->second.get(workspace->bytes);
      s = workspace.ok() ? plan_->run(stream, *workspace, call.values) : workspace.status();
    }
    check(s);
  }

 private:
  struct Call {
    std::map<std::string, std::vector<Held>> held;
    std::map<std::string, std::vector<TensorView>> views;
    std::vector<ArgValue> values;
  };
  Call gather(const nb::dict& args) const {
    Call c;
    for (auto [key, value] : args) {
      if (value.is_none()) continue;
      const auto at = roles_.find(nb::cast<std::string>(key));
      if (at == roles_.end()) {
        std::string known;
        for (const ArgInfo& a : plan_->args()) known += text(known.empty() ? "" : " ", a.name);
        raise({Code::invalid_problem, text(op(), ": no argument '", nb::cast<std::string>(key), "'; the arguments are ", known)});
      }
      const auto& [arg, info] = *at;
      if (info.role == Role::value) {
        ArgValue v{info.name, {}, {}};
        int64_t i; uint64_t u; double d;
        if (nb::try_cast(value, i, info.type == "int")) v.number = i;
        else if (nb::try_cast(value, u, info.type == "int")) v.number = u;
        else if (nb::try_cast(value, d)) v.number = d;
        else raise({Code::invalid_problem, text(op(), ": ", arg, " takes a number")});
        c.values.push_back(v);
        continue;
      }
      std::vector<Held>& held = c.held[arg];
      const bool list = info.type == "tensors", writes = written(info.role);
      if (list && !nb::isinstance<nb::list>(value)) raise({Code::invalid_problem, text(op(), ": ", arg, " takes a list of tensors")});
      if (list) for (nb::handle each : nb::borrow<nb::list>(value)) held.push_back(hold(text(op(), ": ", arg), each, writes));
      else held.push_back(hold(text(op(), ": ", arg), value, writes));
      std::vector<TensorView>& views = c.views[arg];
      for (const Held& h : held) views.push_back(h.view);
      c.values.push_back({info.name, views, {}});
    }
    return c;
  }

  Stream stream_ = Stream::cpu();
  std::shared_ptr<const AnyPlan> plan_;
  std::map<std::string, ArgInfo> roles_;
};

// Memory of its own, zeroed, aligned to 256 bytes; any framework takes it through __dlpack__.
nb::object empty(const std::string& dtype, const std::vector<int64_t>& dims) {
  const DType t = dtype_named(dtype);
  Shape shape;
  for (int64_t d : dims) shape.push_back(d);
  uint64_t bytes = 0;
  if (bit_size(t) < 8) raise({Code::unsupported, text("empty: ", t, " is packed")});
  if (!shape.valid() || __builtin_mul_overflow(uint64_t(shape.numel()), byte_size(t), &bytes)) raise({Code::invalid_problem, text("empty: ", shape, " is not a shape")});
  auto memory = allocate({}, bytes ? bytes : 1);
  check(memory.status());
  std::memset(*memory, 0, bytes);
  nb::capsule owner(*memory, [](void* p) noexcept { deallocate({}, p); });
  std::vector<size_t> extents(dims.begin(), dims.end());
  return nb::cast(nb::ndarray<nb::array_api>(*memory, extents.size(), extents.data(), owner, nullptr, dlpack_of(t), nb::device::cpu::value, 0));
}
// What the tensors given say about an op's fields: {argument: (dtype, shape)} to {field: text}.
std::map<std::string, std::string> infer(const std::string& op, const std::vector<std::tuple<std::string, std::string, std::vector<int64_t>>>& tensors) {
  const OpInfo* info = find_op(op);
  if (!info) return {};
  std::vector<TensorView> views;
  for (const auto& [name, dtype, dims] : tensors) {
    Shape shape;
    for (int64_t d : dims) shape.push_back(d);
    views.push_back(TensorView::dense(nullptr, dtype_named(dtype), shape));
  }
  std::vector<ArgValue> args;
  for (size_t i = 0; i < views.size(); ++i) args.push_back({std::get<0>(tensors[i]), {&views[i], 1}, {}});
  std::map<std::string, std::string> found;
  for (const auto& [field, value] : infer_fields(*info, args)) found.emplace(field, value);
  return found;
}
std::tuple<std::string, std::vector<int64_t>, std::string> describe_tensor(const nb::object& object, const std::string& arg) {
  const Held h = hold(arg, object, false);
  return {std::string(name(h.view.dtype)), std::vector<int64_t>(h.view.shape.dim, h.view.shape.dim + h.view.shape.rank), to_string(h.view.device)};
}

}  // namespace

NB_MODULE(_baracuda, m) {
  m.attr("__version__") = BARACUDA_VERSION;
  m.def("ops_json", [] { return io::ops_json(); });
  m.def("threads", [] { return threads(); });
  m.def("set_threads", [](int n) {
    if (n < 1) raise({Code::invalid_problem, text("set_threads: ", n, ", at least 1 is needed")});
    set_threads(n);
  }, nb::arg("n"));
  m.def("empty", empty);
  m.def("describe_tensor", describe_tensor, nb::arg("object"), nb::arg("name") = "tensor");
  m.def("infer", infer);
  nb::class_<PyPlan>(m, "Plan")
      .def(nb::init<const std::string&, const Settings&, const Settings&, const std::string&>())
      .def_prop_ro("device", &PyPlan::device)
      .def_prop_ro("op", &PyPlan::op)
      .def_prop_ro("kernel", &PyPlan::kernel)
      .def_prop_ro("sku", &PyPlan::sku)
      .def_prop_ro("guarantee", &PyPlan::guarantee)
      .def_prop_ro("deterministic", &PyPlan::deterministic)
      .def_prop_ro("batch_invariant", &PyPlan::batch_invariant)
      .def_prop_ro("descriptor", &PyPlan::descriptor)
      .def_prop_ro("workspace_size", &PyPlan::workspace_size)
      .def_prop_ro("workspace_items", &PyPlan::workspace_items)
      .def("arguments", &PyPlan::arguments)
      .def("can_implement", &PyPlan::can_implement)
      .def("run", &PyPlan::run, nb::arg("args"), nb::arg("stream") = 0, nb::arg("scratch") = 0);
}
