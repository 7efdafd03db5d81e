// Any bytes as a .npy file: what is accepted fills the file exactly and lies inside it, in either order; everything else is
// refused with a text of one line.
#include <cstdio>
#include <cstdlib>
#include "baracuda/io/npy.hpp"

using namespace baracuda;

namespace {
void require(bool fact, const char* what) {
  if (fact) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto h = io::parse_npy(std::as_bytes(std::span(data, size)), size);
  if (!h.ok()) {
    require(!h.status().message().empty(), "refused without a reason");
    require(h.status().message().find('\n') == std::string::npos, "the reason has more than one line");
    return 0;
  }
  require(h->shape.valid() && h->offset + uint64_t(h->shape.numel()) * byte_size(h->dtype) == size, "the elements do not fill the file");
  const TensorView v{const_cast<uint8_t*>(data) + h->offset, h->dtype, {}, h->shape, h->strides()};
  const Extent e = extent(v);
  require(e.low == 0 && e.high == h->shape.numel() - 1, "the strides leave the elements");
  return 0;
}
