#include "cli/train/data.hpp"

#include <algorithm>
#include <bit>
#include "baracuda/core/text.hpp"
#include "baracuda/io/file.hpp"

namespace baracuda::cli {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t v = a + 0x9e3779b97f4a7c15u * (b + 1);
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return v ^ (v >> 31);
}

uint64_t permute(uint64_t i, uint64_t n, uint64_t key) {
  if (n <= 1) return i;
  const int half = (std::bit_width(n - 1) + 1) / 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (mix(mix(key, round), right) & mask);
      left = right, right = next;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

Result<Windows> Windows::over(std::span<const uint8_t> bytes, int64_t context, uint64_t seed) {
  const int64_t n = int64_t(bytes.size());
  if (n < context + 1)
    return Status(Code::invalid_problem, text("the text has ", n, " training tokens, a sequence takes context + 1 = ", context + 1));
  // One window fewer than fit without an offset, so that any offset below `context` leaves room for all.
  return Windows(bytes, context, seed, std::max<int64_t>(1, n / context - 1));
}

int64_t Windows::start(int64_t i) const {
  const uint64_t epoch = uint64_t(i / windows_), key = mix(seed_, epoch);
  const int64_t slack = std::min(int64_t(text_.size()) - 1 - windows_ * context_, context_ - 1);
  const int64_t offset = int64_t(mix(key, 4) % uint64_t(slack + 1));
  return offset + int64_t(permute(uint64_t(i % windows_), uint64_t(windows_), key)) * context_;
}

void Windows::fill(int64_t step, int64_t batch, std::span<int64_t> input, std::span<int64_t> target) const {
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t first = start((step - 1) * batch + b);
    for (int64_t t = 0; t < context_; ++t) {
      input[size_t(b * context_ + t)] = text_[size_t(first + t)];
      target[size_t(b * context_ + t)] = text_[size_t(first + t + 1)];
    }
  }
}

uint64_t Corpus::fingerprint() const {
  uint64_t h = 0xcbf29ce484222325u;
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001b3u;
  return h;
}

Result<Corpus> read_corpus(const std::string& path, int64_t context) {
  BARACUDA_TRY_ASSIGN(bytes, io::read_text(path));
  Corpus corpus{std::move(bytes)};
  const size_t held_out = std::min<size_t>(corpus.bytes.size() / 20, 64 << 10);
  corpus.training = corpus.bytes.size() - (held_out >= size_t(context) + 1 ? held_out : 0);
  if (corpus.training < size_t(context) + 1)
    return Status(Code::invalid_problem, text(io::in_quotes(path), " has ", corpus.training, " bytes, a sequence takes context + 1 = ", context + 1));
  return corpus;
}

}  // namespace baracuda::cli
