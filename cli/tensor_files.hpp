#pragma once
// Tensors of the command line: FILE.npy, FILE.safetensors:NAME, or FILE.safetensors where it holds one tensor.
#include <map>
#include "baracuda/io/npy.hpp"

namespace baracuda::cli {

// Whether a value names a file of tensors.
bool is_tensor_file(std::string_view value);
Result<io::HostTensor> load_tensor(const std::string& where);

// Outputs, gathered per file, so that several may go into one .safetensors.
class TensorWriter {
 public:
  // invalid_problem: an ending that is neither, a second tensor for one .npy. `name` is used where `where` gives none.
  Status add(const std::string& where, std::string_view name, const TensorView& tensor);
  Status write() const;

 private:
  struct Entry { std::string name; TensorView tensor; };
  std::map<std::string, std::vector<Entry>> files_;
};

}  // namespace baracuda::cli
