// baracuda run: one op on tensors from files.
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/on_device.hpp"
#include "cli/tensor_files.hpp"
#include "cli/words.hpp"

namespace baracuda::cli {

Result<std::vector<Word>> split_words(const std::vector<std::string>& rest) {
  std::vector<Word> words;
  for (size_t i = 0; i < rest.size(); ++i) {
    const std::string& s = rest[i];
    const bool dashes = s.starts_with("--");
    const size_t equals = s.find('=');
    const std::string name = s.substr(dashes ? 2 : 0, equals == s.npos ? s.npos : equals - (dashes ? 2 : 0));
    if (equals != s.npos) words.push_back({name, s.substr(equals + 1)});
    else if (!dashes) return Status(Code::invalid_problem, text("'", s, "' is neither field=value nor --name value"));
    else if (i + 1 == rest.size()) return Status(Code::invalid_problem, text("--", name, " has no value"));
    else words.push_back({name, rest[++i]});
  }
  return words;
}
Result<const OpInfo*> known_op(const std::string& name) {
  if (const OpInfo* op = find_op(name)) return op;
  if (const OpInfo* op = op_of_kind(name)) return Status(Code::invalid_problem, text("no op '", name, "'; it is a kind of ", op->name, ": ", op->name, " --kind ", name));
  return Status(Code::invalid_problem, text(no_op(name), "; `baracuda ops` lists them"));
}

namespace {

struct Options {
  std::string op, device = "cpu";
  std::vector<std::string> outputs;
};
struct Slot {  // an argument of the op
  ArgInfo info;
  std::vector<io::HostTensor> tensors;
  std::vector<TensorView> views;
  std::string to;  // file of an output
  ArgValue number;
  bool reads() const { return info.role == Role::in || info.role == Role::optional_in || info.role == Role::inout || info.role == Role::optional_inout; }
};
Status parse_number(const ArgInfo& info, const std::string& value, ArgValue& to) {
  if (info.type == "float") {
    double d;
    BARACUDA_TRY(parse_value(info.name, value, d));
    to.number = d;
  } else {
    int64_t i;
    BARACUDA_TRY(parse_value(info.name, value, i));
    to.number = i;
  }
  return {};
}

Status run(const Options& o, const std::vector<std::string>& rest) {
  BARACUDA_TRY_ASSIGN(op, known_op(o.op));
  BARACUDA_TRY_ASSIGN(words, split_words(rest));
  std::vector<Slot> slots;
  for (ArgInfo& info : op->args()) slots.push_back({std::move(info), {}, {}, {}, {}});
  std::vector<KeyValue> settings;
  for (const Word& w : words) {
    Slot* slot = nullptr;
    for (Slot& s : slots)
      if (s.info.name == w.name) slot = &s;
    bool field = false;
    for (const FieldInfo& f : op->fields()) field = field || f.name == w.name;
    // A word that is both an argument and a field: a file is the argument.
    if (!slot || (field && !is_tensor_file(w.value))) {
      settings.push_back({w.name, w.value});
    } else if (slot->info.role == Role::value) {
      BARACUDA_TRY(parse_number(slot->info, w.value, slot->number));
      slot->number.name = slot->info.name;
    } else if (!slot->reads() || (written(slot->info.role) && !slot->tensors.empty() && slot->info.type == "tensor")) {
      slot->to = w.value;
    } else {
      BARACUDA_TRY_ASSIGN(t, load_tensor(w.value));
      slot->tensors.push_back(std::move(t));
    }
  }
  std::vector<ArgValue> args;
  for (Slot& s : slots) {
    for (const io::HostTensor& t : s.tensors) s.views.push_back(t.view());
    if (!s.tensors.empty()) args.push_back({s.info.name, s.views, {}});
  }
  const auto inferred = infer_fields(*op, args);
  std::vector<KeyValue> all;
  for (const auto& [name, value] : inferred) all.push_back({name, value});
  all.insert(all.end(), settings.begin(), settings.end());  // what is said comes last and counts
  BARACUDA_TRY_ASSIGN(stream, stream_on(o.device));
  BARACUDA_TRY_ASSIGN(plan, op->select(stream, all, {}));
  BARACUDA_TRY_ASSIGN(arguments, plan->arguments());

  // -o FILE is the first output that has no file; -o NAME=FILE names one.
  for (const std::string& out : o.outputs) {
    const size_t equals = out.find('=');
    Slot* at = nullptr;
    for (Slot& s : slots) {
      if (!written(s.info.role) || s.info.type != "tensor") continue;
      if (equals == out.npos ? s.to.empty() && (!optional(s.info.role) || out.ends_with(".safetensors")) : s.info.name == out.substr(0, equals)) { at = &s; break; }
    }
    if (!at) return {Code::invalid_problem, text("-o ", out, ": ", op->name, " has no such output")};
    at->to = equals == out.npos ? out : out.substr(equals + 1);
  }
  TensorWriter writer;
  args.clear();
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& s = slots[i];
    const Argument& a = arguments[i];
    if (s.info.role == Role::value) {
      if (!s.number.name.empty()) args.push_back(s.number);
      continue;
    }
    const bool needed = a.presence == Argument::Presence::required || !s.to.empty();
    if (s.tensors.empty() && needed && written(s.info.role) && a.dtype && a.shape) {
      BARACUDA_TRY_ASSIGN(t, io::HostTensor::make(*a.dtype, *a.shape));
      s.tensors.push_back(std::move(t));
      s.views.assign(1, s.tensors[0].view());
    }
    if (s.tensors.empty()) continue;
    args.push_back({s.info.name, s.views, {}});
    if (!s.to.empty()) BARACUDA_TRY(writer.add(s.to, s.info.name, s.views[0]));
  }
  Call call(stream, *plan);
  BARACUDA_TRY(call.take(args));
  BARACUDA_TRY(call.once());
  BARACUDA_TRY(writer.write());
  fmt::print("{} {}\nkernel {}\n", op->name, plan->descriptor(), plan->sku().kernel);
  for (const Slot& s : slots)
    if (written(s.info.role) && !s.tensors.empty())
      fmt::print("{:<12} {} {}{}{}\n", s.info.name, name(s.views[0].dtype), to_string(s.views[0].shape), s.to.empty() ? "" : " -> ", s.to);
  return {};
}

}  // namespace

std::function<int()> run_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("op", o->op, "the op")->required();
  app.add_option("-o", o->outputs, "FILE of the first output, or NAME=FILE; .npy or .safetensors")->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_device(app, o->device);
  app.allow_extras();
  app.footer("Behind the op: fields as field=value or --field value; tensors as --ARG FILE.npy or FILE.safetensors:NAME (repeated for a list);\n"
             "numbers as --ARG value. dtype, shape and fields that are an argument's shape or dtype follow from the files.\n"
             "An argument that is read and written is overwritten in memory; its result goes to -o NAME=FILE.\n"
             "Example: baracuda run unary --kind exp --x x.npy -o y.npy");
  return [o, &app] {
    const Status s = run(*o, app.remaining());
    fflush(stdout);
    return s.ok() ? kDone : fail("run", s);
  };
}

}  // namespace baracuda::cli
