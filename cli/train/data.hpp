#pragma once
// Training sequences from a text. A counter decides everything: sequence number i of a run is a function of (seed, i)
// alone, so a run continues anywhere without stored state.
//
// Each epoch cuts the text at a random offset into consecutive windows of `context` tokens (plus one, the last target)
// and visits them in a random order, each once.
#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include "baracuda/core/status.hpp"

namespace baracuda::cli {

// The splitmix64 finaliser as a hash of a counter. Reference: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014.
uint64_t mix(uint64_t a, uint64_t b);

// A bijection of [0, n) keyed by `key`: a four-round Feistel network on the next even number of bits, walked until the
// value falls below n.
uint64_t permute(uint64_t i, uint64_t n, uint64_t key);

class Windows {
 public:
  // invalid_problem: a text of fewer than context + 1 tokens.
  static Result<Windows> over(std::span<const uint8_t> text, int64_t context, uint64_t seed);
  int64_t per_epoch() const { return windows_; }
  // First token of sequence i.
  int64_t start(int64_t i) const;
  // Fills input and target (shifted by one), each [batch * context], with the sequences of `step` = 1, 2, ...
  void fill(int64_t step, int64_t batch, std::span<int64_t> input, std::span<int64_t> target) const;

 private:
  Windows(std::span<const uint8_t> text, int64_t context, uint64_t seed, int64_t windows)
      : text_(text), context_(context), windows_(windows), seed_(seed) {}
  std::span<const uint8_t> text_;
  int64_t context_, windows_;
  uint64_t seed_;
};

// A text split for training: the last twentieth, at most 64 KiB, is held out; nothing where it would be shorter than
// one sequence.
struct Corpus {
  std::vector<uint8_t> bytes;
  size_t training = 0;
  std::span<const uint8_t> train() const { return std::span(bytes).first(training); }
  std::span<const uint8_t> held_out() const { return std::span(bytes).subspan(training); }
  uint64_t fingerprint() const;  // of all bytes: FNV-1a, 64 bits
};
// Reads a UTF-8 text; the status names the path.
Result<Corpus> read_corpus(const std::string& path, int64_t context);

}  // namespace baracuda::cli
