// What a plan takes for its arguments, found out by asking it. Arguments begin as something that no op takes; each refusal
// says what it would take instead (Expectation), or names an optional argument that is missing or not wanted. So this
// cannot say anything else than the op's own check does.
#include <algorithm>
#include "baracuda/core/registry.hpp"

namespace baracuda {
namespace {

// A tensor in the making; never dereferenced.
struct Guess {
  Argument argument;
  bool given = false, banned = false;  // banned: it was refused while it was given
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  size_t count = 1;  // tensors of a list: grows while the plan wants more than one
};
class Search {
 public:
  explicit Search(const AnyPlan& plan) : plan_(plan), op_(plan.sku().op) {
    const DType avoid = plan.sku().dtype;
    no_dtype_ = avoid == DType::u4 ? DType::i4 : DType::u4;
    for (ArgInfo& info : plan.args()) guesses_.push_back({{std::move(info), Argument::Presence::unused, {}, {}, 1}, false, false, {}, {}});
  }
  Result<std::vector<Argument>> run() {
    for (Guess& g : guesses_) g.given = g.argument.tensor() && !optional(g.argument.info.role);
    BARACUDA_TRY(settle());
    for (Guess& g : guesses_)
      if (!g.argument.tensor()) g.argument.presence = Argument::Presence::optional;
      else if (g.given) g.argument.presence = Argument::Presence::required;
    const std::vector<Guess> least = guesses_;
    // All at once, less what is refused in such company; then what was refused, alone.
    for (Guess& g : guesses_) g.given = g.argument.tensor();
    BARACUDA_TRY(settle());
    const std::vector<Guess> most = guesses_;
    std::vector<Argument> found;
    for (size_t i = 0; i < most.size(); ++i) {
      Guess g = most[i];
      if (g.argument.tensor() && g.argument.presence == Argument::Presence::unused) {
        guesses_ = g.given ? most : least;
        if (!g.given) guesses_[i].given = true, guesses_[i].banned = false;
        if (settle().ok() && guesses_[i].given && is_read(i)) g = guesses_[i], g.argument.presence = Argument::Presence::optional;
      }
      if (g.argument.presence != Argument::Presence::unused) g.argument.dtype = g.dtype, g.argument.shape = g.shape, g.argument.count = g.count;
      found.push_back(std::move(g.argument));
    }
    return found;
  }

 private:
  static constexpr Shape kNoShape{3, 1, 4, 1, 5, 9, 2, 6};

  Status ask(Expectation& e) const {
    std::vector<std::vector<TensorView>> views(guesses_.size());
    std::vector<ArgValue> values;
    uint64_t place = 1 << 12;  // they lie one behind the other, so that nothing overlaps
    for (size_t i = 0; i < guesses_.size(); ++i) {
      const Guess& g = guesses_[i];
      if (!g.given) continue;
      for (size_t k = 0; k < g.count; ++k) {
        const TensorView v = TensorView::dense(reinterpret_cast<void*>(place), g.dtype.value_or(no_dtype_), g.shape.value_or(kNoShape), plan_.device());
        uint64_t bytes = 0;
        if (__builtin_mul_overflow(uint64_t(v.numel()), std::max<size_t>(1, byte_size(v.dtype)), &bytes) || bytes > (uint64_t(1) << 63) - place)
          return {Code::out_of_memory, text(op_, ": no memory holds its arguments, ", g.argument.info.name, " has shape ", v.shape)};
        place += (bytes + (1 << 13) - 1) >> 12 << 12;
        views[i].push_back(v);
      }
      values.push_back({g.argument.info.name, views[i]});
    }
    e.arg.clear();
    return plan_.can_implement(values);
  }
  // The guess that a refusal is about: its text begins "op: argument", or "op: argument[0]" in a list.
  Guess* about(std::string_view words) {
    words = words.substr(0, words.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"));
    for (Guess& g : guesses_)
      if (g.argument.info.name == words) return &g;
    return nullptr;
  }
  // Changes guesses until the plan takes them; the refusal where none helps.
  Status settle() {
    for (size_t step = 0; step < 6 * guesses_.size() + 6 + kMaxRank; ++step) {
      Expectation e;
      const Status s = ask(e);
      if (s.ok()) return s;
      if (Guess* g = about(e.arg); g && g->given && (g->dtype != e.dtype || (e.shape && !(g->shape == e.shape)))) {
        g->dtype = e.dtype;
        if (e.shape) g->shape = e.shape;
        continue;
      } else if (g && g->given && g->argument.info.type == "tensors" && g->count < kMaxRank) {
        ++g->count;
        continue;
      }
      std::string_view words = s.message();
      if (words.substr(0, op_.size()) == op_ && words.size() > op_.size() + 2) words.remove_prefix(op_.size() + 2);
      Guess* g = about(words);
      if (!g || !g->argument.tensor() || !optional(g->argument.info.role) || (!g->given && g->banned)) return s;
      g->banned = g->banned || g->given;
      g->given = !g->given;
    }
    return invalid(op_, "its check asks for ever other arguments");
  }
  // Whether the plan minds what the argument is.
  bool is_read(size_t i) {
    const Guess kept = guesses_[i];
    guesses_[i].dtype.reset(), guesses_[i].shape.reset();
    Expectation e;
    const bool refused = !ask(e).ok();
    guesses_[i] = kept;
    return refused;
  }

  const AnyPlan& plan_;
  std::string_view op_;
  DType no_dtype_;
  std::vector<Guess> guesses_;
};

}  // namespace

Result<std::vector<Argument>> AnyPlan::arguments() const { return Search(*this).run(); }

}  // namespace baracuda
