#pragma once
// A library of the CUDA half that is opened when it is first needed: its functions by name, so that the half loads where it is not installed.
#include <dlfcn.h>
#include <string>
#include "baracuda/core/text.hpp"

namespace baracuda {

class Opened {
 public:
  explicit Opened(const char* file) : file_(file) {
    for (const std::string& path : {std::string(file), text("/usr/local/cuda/lib64/", file)})
      if (!library_) library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) missing_ = text(file, " was not found by the loader nor in /usr/local/cuda/lib64");
  }
  template <class F> void find(const char* name, F& function) {
    if (!library_) return;
    function = reinterpret_cast<F>(dlsym(library_, name));
    if (!function) missing_ = text(file_, " has no ", name);
  }
  // Why there is no such library, or what it lacks; empty where all is there.
  const std::string& missing() const { return missing_; }

 private:
  const char* file_;
  void* library_ = nullptr;
  std::string missing_;
};

}  // namespace baracuda
