// The C functions over the registry. Nothing leaves them but a code: no exception, no crash on null.
#include "c/baracuda.h"
#include <mutex>
#include "baracuda/core/dlpack.hpp"
#include "baracuda/core/registry.hpp"
#include "baracuda/host/thread_team.hpp"
#include "baracuda/io/ops_json.hpp"
#include "baracuda_version.hpp"

using namespace baracuda;

struct baracuda_stream { Stream stream; };
struct baracuda_plan {
  std::shared_ptr<const AnyPlan> plan;
  std::string texts[5];
  mutable std::once_flag once;
  mutable std::vector<Argument> arguments;
  mutable Status failure;  // of arguments()
};

namespace {

constexpr uint8_t kNoCode = 255;
static_assert(BARACUDA_BACKEND_FAILURE == int(Code::backend_failure) && BARACUDA_WORKSPACE_TOO_SMALL == int(Code::workspace_too_small) &&
              BARACUDA_IO_ERROR == int(Code::io_error) && BARACUDA_UNSUPPORTED == int(Code::unsupported));

thread_local Status last;

baracuda_code done(Status s) {
  if (s.ok()) return BARACUDA_OK;
  last = std::move(s);
  return baracuda_code(last.code());
}
Status wrong(std::string message) { return {Code::invalid_problem, std::move(message)}; }
// Runs f, which returns a Status, and turns what it throws into one.
template <class F> baracuda_code guarded(F f) noexcept {
  try {
    try {
      return done(f());
    } catch (const std::bad_alloc&) {
      return done({Code::out_of_memory, "out of memory"});
    } catch (const std::exception& e) {
      return done({Code::backend_failure, e.what()});
    }
  } catch (...) {  // not even the words fit into memory
    return BARACUDA_OUT_OF_MEMORY;
  }
}
Status settings_of(const char* what, const baracuda_setting* list, size_t count, std::vector<KeyValue>& out) {
  if (count > 0 && !list) return wrong(text("c: ", count, " ", what, ", but the list is null"));
  for (size_t i = 0; i < count; ++i) {
    if (!list[i].key || !list[i].value) return wrong(text("c: ", what, "[", i, "] has a null ", list[i].key ? "value" : "key"));
    out.push_back({list[i].key, list[i].value});
  }
  return {};
}
// A tensor of `memory` bytes from data on, where they are known.
Result<TensorView> view_of(const char* arg, size_t i, const DLTensor* t, const uint64_t* memory) {
  auto named = [&](const Status& s) { return Status(s.code(), text(arg, "[", i, "]: ", s.message()), s.needed(), s.got()); };
  if (!t) return named(wrong("the tensor is null"));
  if (t->ndim > 0 && !t->shape) return named(wrong("the tensor has no shape"));
  Result<TensorView> v = from_dlpack(*t);
  if (!v.ok()) return named(v.status());
  if (!memory || v->device.kind != DeviceKind::cpu) return v;
  const uint64_t size = byte_size(v->dtype);
  if (t->byte_offset % size) return named(wrong(text("byte_offset ", t->byte_offset, " is not a multiple of the element size ", size)));
  if (t->byte_offset > uint64_t(INT64_MAX)) return named(wrong(text("byte_offset ", t->byte_offset, " exceeds 2^63 - 1")));
  Result<TensorView> checked = TensorView::over(t->data, *memory, v->dtype, v->shape, &v->strides, int64_t(t->byte_offset / size), v->device);
  if (!checked.ok()) return named(checked.status());
  return v;
}
// Views and values stay where they are until the thread's next call, so that a run allocates nothing once they have grown.
struct Arguments {
  std::vector<TensorView> views;
  std::vector<ArgValue> values;
};
Status arguments_of(const baracuda_arg* args, size_t count, Arguments& out) {
  out.views.clear(), out.values.clear();
  if (count > 0 && !args) return wrong(text("c: ", count, " arguments, but the list is null"));
  for (size_t i = 0; i < count; ++i) {
    const baracuda_arg& a = args[i];
    if (!a.name) return wrong(text("c: argument ", i, " has no name"));
    if (a.kind == BARACUDA_TENSORS && a.count > 0 && !a.tensors) return wrong(text("c: ", a.name, " has ", a.count, " tensors, but their list is null"));
    if (a.kind == BARACUDA_TENSORS)
      for (size_t k = 0; k < a.count; ++k) {
        BARACUDA_TRY_ASSIGN(v, view_of(a.name, k, a.tensors[k], a.capacity ? a.capacity + k : nullptr));
        out.views.push_back(v);
      }
  }
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const baracuda_arg& a = args[i];
    switch (a.kind) {
      case BARACUDA_TENSORS: out.values.push_back({a.name, {out.views.data() + at, a.count}, {}}), at += a.count; break;
      case BARACUDA_INT: out.values.push_back({a.name, {}, a.number.i}); break;
      case BARACUDA_UINT: out.values.push_back({a.name, {}, a.number.u}); break;
      case BARACUDA_FLOAT: out.values.push_back({a.name, {}, a.number.f}); break;
      default: return wrong(text("c: ", a.name, " has kind ", a.kind, ", which is none of 0 to 3"));
    }
  }
  return {};
}
thread_local Arguments arguments;

Status find_arguments(const baracuda_plan* p) {
  if (!p) return wrong("c: the plan is null");
  std::call_once(p->once, [&] {
    auto found = p->plan->arguments();
    if (found.ok()) p->arguments = *std::move(found);
    else p->failure = found.status();
  });
  return p->failure;
}

}  // namespace

extern "C" {

const char* baracuda_version(void) { return BARACUDA_VERSION; }

const char* baracuda_last_error(baracuda_code* code, uint64_t* needed, uint64_t* got) {
  if (code) *code = baracuda_code(last.code());
  if (needed) *needed = last.needed();
  if (got) *got = last.got();
  return last.message().c_str();
}

const char* baracuda_ops_json(void) {
  const char* json = nullptr;
  (void)guarded([&] {
    static const std::string all = io::ops_json();
    json = all.c_str();
    return Status();
  });
  return json;
}

baracuda_code baracuda_set_threads(int32_t n) {
  return guarded([&] {
    if (n < 1) return wrong(text("c: ", n, " threads, at least 1 is needed"));
    set_threads(n);
    return Status();
  });
}

baracuda_code baracuda_stream_create(DLDevice device, void* cuda_stream, baracuda_stream** stream) {
  return guarded([&]() -> Status {
    if (!stream) return wrong("c: there is no place for the stream");
    *stream = nullptr;
    Stream s = Stream::cpu();
    if (device.device_type == kDLCUDA) {
      BARACUDA_TRY_ASSIGN(cuda, Stream::cuda(cuda_stream, device.device_id));
      s = cuda;
    } else if (device.device_type != kDLCPU) {
      return wrong(text("c: device type ", int(device.device_type), " is neither CPU nor CUDA"));
    }
    *stream = new baracuda_stream{s};
    return {};
  });
}
void baracuda_stream_destroy(baracuda_stream* stream) { delete stream; }

baracuda_code baracuda_plan_create(const char* op, const baracuda_setting* fields, size_t field_count, const baracuda_setting* preferences,
                                   size_t preference_count, const baracuda_stream* stream, baracuda_plan** plan) {
  return guarded([&]() -> Status {
    if (!plan) return wrong("c: there is no place for the plan");
    *plan = nullptr;
    if (!op) return wrong("c: the op is null");
    const OpInfo* info = find_op(op);
    if (!info) return wrong(text("c: ", no_op(op)));
    std::vector<KeyValue> settings, wishes;
    BARACUDA_TRY(settings_of("fields", fields, field_count, settings));
    BARACUDA_TRY(settings_of("preferences", preferences, preference_count, wishes));
    PlanPreference preference;
    for (const KeyValue& w : wishes) BARACUDA_TRY(set_preference(preference, w.key, w.value));
    BARACUDA_TRY_ASSIGN(made, info->select(stream ? stream->stream : Stream::cpu(), settings, preference));
    auto p = std::make_unique<baracuda_plan>();
    const KernelSku sku = made->sku();
    p->texts[BARACUDA_TEXT_KERNEL] = sku.kernel;
    p->texts[BARACUDA_TEXT_SKU] = to_string(sku);
    p->texts[BARACUDA_TEXT_GUARANTEE] = to_string(sku.guarantee);
    p->texts[BARACUDA_TEXT_DESCRIPTOR] = made->descriptor();
    for (const WorkspaceItem& item : made->workspace_items()) p->texts[BARACUDA_TEXT_WORKSPACE] += text(item.bytes, " ", item.name, "\n");
    p->plan = made;
    *plan = p.release();
    return {};
  });
}
void baracuda_plan_destroy(baracuda_plan* plan) { delete plan; }

const char* baracuda_plan_text(const baracuda_plan* plan, baracuda_text which) {
  return plan && unsigned(which) < std::size(plan->texts) ? plan->texts[which].c_str() : nullptr;
}
baracuda_code baracuda_plan_workspace_size(const baracuda_plan* plan, uint64_t* bytes) {
  return guarded([&] {
    if (!plan || !bytes) return wrong(plan ? "c: there is no place for the size" : "c: the plan is null");
    *bytes = plan->plan->workspace_size();
    return Status();
  });
}
baracuda_code baracuda_plan_argument_count(const baracuda_plan* plan, size_t* count) {
  return guarded([&]() -> Status {
    if (!count) return wrong("c: there is no place for the count");
    BARACUDA_TRY(find_arguments(plan));
    *count = plan->arguments.size();
    return {};
  });
}
baracuda_code baracuda_plan_argument(const baracuda_plan* plan, size_t index, baracuda_argument* to) {
  return guarded([&]() -> Status {
    if (!to) return wrong("c: there is no place for the argument");
    BARACUDA_TRY(find_arguments(plan));
    if (index >= plan->arguments.size()) return wrong(text("c: argument ", index, ", there are ", plan->arguments.size()));
    const Argument& a = plan->arguments[index];
    // These views come from string literals, so that they end in a zero.
    *to = {a.info.name.data(), name(a.info.role).data(), a.info.type.data(), name(a.presence).data(), a.dtype.has_value(), a.shape.has_value(),
           {kNoCode, 0, 0}, 0, {}, a.count};
    if (a.dtype) to->dtype = dlpack_dtype(*a.dtype).value_or(DLDataType{kNoCode, uint8_t(bit_size(*a.dtype)), 1});
    if (a.shape) {
      to->ndim = a.shape->rank;
      std::copy_n(a.shape->dim, a.shape->rank, to->shape);
    }
    return {};
  });
}
baracuda_code baracuda_plan_can_implement(const baracuda_plan* plan, const baracuda_arg* args, size_t count) {
  return guarded([&]() -> Status {
    if (!plan) return wrong("c: the plan is null");
    BARACUDA_TRY(arguments_of(args, count, arguments));
    return plan->plan->can_implement(arguments.values);
  });
}
baracuda_code baracuda_plan_run(const baracuda_plan* plan, const baracuda_stream* stream, void* workspace, uint64_t workspace_bytes,
                                const baracuda_arg* args, size_t count) {
  return guarded([&]() -> Status {
    if (!plan) return wrong("c: the plan is null");
    BARACUDA_TRY(arguments_of(args, count, arguments));
    return plan->plan->run(stream ? stream->stream : Stream::cpu(), {workspace, workspace_bytes}, arguments.values);
  });
}

}  // extern "C"
