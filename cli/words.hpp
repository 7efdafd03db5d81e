#pragma once
// What `run`, `verify` and `bench` take behind the op: field=value or --name value, where name is a field or an argument.
#include <string>
#include <vector>
#include "baracuda/core/registry.hpp"

namespace baracuda::cli {

struct Word { std::string name, value; };
// "--axis 1", "--axis=1" and "axis=1" alike; a flag without a value is refused by name.
Result<std::vector<Word>> split_words(const std::vector<std::string>& rest);
// Refuses what is no op, with the one that was probably meant.
Result<const OpInfo*> known_op(const std::string& name);

}  // namespace baracuda::cli
