#pragma once
// For refusals of a word that is none of a list: the word that was probably meant.
#include <span>
#include <string>
#include <string_view>

namespace baracuda {

// The name that takes the fewest letters changed, left out, added or swapped to get from `text`, the first among equals; empty where
// that is more than a third of them.
std::string_view near_name(std::string_view text, std::span<const std::string_view> names);
// "; did you mean NAME?", or nothing.
std::string did_you_mean(std::string_view text, std::span<const std::string_view> names);

}  // namespace baracuda
