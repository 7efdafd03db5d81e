#pragma once
// The registry as JSON, for programs and bindings: a list of ops, each
//   {"name", "category", "summary", "fields": [{"name", "type", "default", "optional", "help", "values"}],
//    "args": [{"name", "role", "type", "help", "default"}], "kernels": [{"name", "device", "backend", "min_arch", "dtypes", "guarantee": {..}}]}
// Field types: bool int float dtype ints enum (with values). Argument types: tensor tensors int float (with default).
#include <string>
#include <string_view>

namespace baracuda::io {

// Of every op, or of one.
std::string ops_json(std::string_view op = {});

}  // namespace baracuda::io
