#include "baracuda/io/npy.hpp"
#include <charconv>
#include <cstring>
#include "baracuda/core/text.hpp"

namespace baracuda::io {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

Status malformed(std::string_view what) { return {Code::invalid_problem, text("npy: ", what)}; }

// The word of a dtype after the byte order; nothing where numpy has none.
std::string_view word(DType t) {
  switch (t) {
    case DType::boolean: return "b1";
    case DType::i8: return "i1";
    case DType::u8: return "u1";
    case DType::i16: return "i2";
    case DType::u16: return "u2";
    case DType::i32: return "i4";
    case DType::u32: return "u4";
    case DType::i64: return "i8";
    case DType::u64: return "u8";
    case DType::f16: return "f2";
    case DType::bf16: return "V2";
    case DType::f32: return "f4";
    case DType::f64: return "f8";
    case DType::c64: return "c8";
    case DType::c128: return "c16";
    default: return {};
  }
}
Result<DType> dtype_of(std::string_view descr) {
  if (descr.size() >= 3 && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
    for (size_t i = 0; i < kDTypes; ++i)
      if (word(DType(i)) == descr.substr(1)) return DType(i);
  const bool big = !descr.empty() && descr[0] == '>';
  return Status(Code::unsupported, text("npy: dtype ", in_quotes(descr), big ? " is big-endian" : " is not supported"));
}

// The dict, read from left to right.
class Reader {
 public:
  explicit Reader(std::string_view s) : rest_(s) {}
  void space() { while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1); }
  bool take(std::string_view token) {
    space();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool quoted(std::string_view& out) {
    space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == rest_.npos) return false;
    out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool integer(int64_t& out) {
    space();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc()) return false;
    rest_.remove_prefix(size_t(end - rest_.data()));
    (void)(!rest_.empty() && rest_[0] == 'L' && (rest_.remove_prefix(1), true));  // Python 2 wrote 3L
    return true;
  }
  bool done() { return space(), rest_.empty(); }

 private:
  std::string_view rest_;
};
Status read_shape(Reader& r, Shape& shape) {
  if (!r.take("(")) return malformed("the shape is not a tuple");
  while (!r.take(")")) {
    int64_t extent;
    if (!r.integer(extent)) return malformed("the shape is not a tuple of integers");
    shape.push_back(extent);
    if (!r.take(",")) {
      if (!r.take(")")) return malformed("the shape is not a tuple of integers");
      break;
    }
  }
  if (!shape.rank_ok()) return {Code::unsupported, text("npy: the rank is above ", kMaxRank)};
  if (!shape.valid()) return malformed(text("shape ", shape, " has a negative extent or more than 2^63 - 1 elements"));
  return {};
}

}  // namespace

Strides NpyHeader::strides() const {
  if (!fortran) return shape.contiguous();
  Strides s = shape.contiguous();
  int64_t step = 1;
  for (int i = 0; i < shape.rank; ++i) s[i] = step, step *= shape[i] > 0 ? shape[i] : 1;
  return s;
}

Result<NpyHeader> parse_npy(std::span<const std::byte> start, uint64_t bytes) {
  const std::string_view s(reinterpret_cast<const char*>(start.data()), start.size());
  if (s.substr(0, 6) != kMagic || s.size() < 10) return malformed("this is no .npy file");
  const int version = int(uint8_t(s[6]));
  if (version < 1 || version > 3) return malformed(text("version ", version, " is not one of 1, 2, 3"));
  const size_t width = version == 1 ? 2 : 4;
  if (s.size() < 8 + width) return malformed("the header is cut off");
  uint64_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= uint64_t(uint8_t(s[8 + i])) << (8 * i);
  NpyHeader h;
  h.offset = 8 + width + length;
  if (length > kMaxNpyHeader) return malformed(text("a header of ", length, " bytes is longer than ", kMaxNpyHeader));
  if (h.offset > s.size()) return malformed(text("a header of ", length, " bytes does not fit into the file's ", bytes));
  Reader r(s.substr(8 + width, length));
  bool descr = false, order = false, shape = false;
  if (!r.take("{")) return malformed("the header is not a dict");
  while (!r.take("}")) {
    std::string_view key, value;
    if (!r.quoted(key) || !r.take(":")) return malformed("the header is not a dict of names");
    if (key == "descr" && !descr) {
      descr = true;
      if (!r.quoted(value)) return Status(Code::unsupported, "npy: a structured dtype is not supported");
      BARACUDA_TRY_ASSIGN(t, dtype_of(value));
      h.dtype = t;
    } else if (key == "fortran_order" && !order) {
      order = true;
      h.fortran = r.take("True");
      if (!h.fortran && !r.take("False")) return malformed("fortran_order is neither True nor False");
    } else if (key == "shape" && !shape) {
      shape = true;
      BARACUDA_TRY(read_shape(r, h.shape));
    } else {
      return malformed(text("the header has the key ", in_quotes(key), ", which is unknown or repeated"));
    }
    if (!r.take(",")) {
      if (!r.take("}")) return malformed("the header is not a dict of names");
      break;
    }
  }
  if (!r.done()) return malformed("the header goes on behind its dict");
  if (!descr || !order || !shape) return malformed("the header lacks descr, fortran_order or shape");
  uint64_t need = 0;
  if (__builtin_mul_overflow(uint64_t(h.shape.numel()), byte_size(h.dtype), &need) || __builtin_add_overflow(need, h.offset, &need))
    return malformed(text("shape ", h.shape, " exceeds 2^64 bytes"));
  if (need != bytes) return malformed(text("shape ", h.shape, " of ", h.dtype, " takes a file of ", need, " bytes, this one has ", bytes));
  return h;
}

Result<HostTensor> HostTensor::make(DType dtype, const Shape& shape) {
  uint64_t bytes = 0;
  if (!shape.valid() || byte_size(dtype) == 0 || __builtin_mul_overflow(uint64_t(shape.numel()), byte_size(dtype), &bytes))
    return Status(Code::invalid_problem, text("no tensor has shape ", shape, " of ", dtype));
  BARACUDA_TRY_ASSIGN(memory, allocate({}, bytes ? bytes : 1));
  std::memset(memory, 0, bytes);
  return HostTensor(TensorView::dense(memory, dtype, shape));
}

Result<HostTensor> read_npy(const std::string& path) {
  BARACUDA_TRY_ASSIGN(file, InputFile::open(path));
  std::vector<std::byte> start(std::min<uint64_t>(file.size(), 4096));
  BARACUDA_TRY(file.read(0, start));
  auto named = [&](const Status& s) { return Status(s.code(), text(in_quotes(path), ": ", s.message())); };
  Result<NpyHeader> header = parse_npy(start, file.size());
  if (!header.ok() && start.size() < file.size()) {  // a longer header
    start.resize(std::min<uint64_t>(file.size(), kMaxNpyHeader + 12));
    BARACUDA_TRY(file.read(0, start));
    header = parse_npy(start, file.size());
  }
  if (!header.ok()) return named(header.status());
  Result<HostTensor> tensor = HostTensor::make(header->dtype, header->shape);
  if (!tensor.ok()) return named(tensor.status());
  tensor->set_strides(header->strides());
  BARACUDA_TRY(file.read(header->offset, {tensor->view().as<std::byte>(), size_t(tensor->bytes())}));
  return tensor;
}

Status write_npy(const std::string& path, const TensorView& t) {
  if (t.device.kind != DeviceKind::cpu || !t.contiguous() || !t.shape.valid()) return malformed("only contiguous host tensors are written");
  const std::string_view type = word(t.dtype);
  if (type.empty()) return {Code::unsupported, text("npy: numpy has no word for ", t.dtype)};
  std::string shape;
  for (int i = 0; i < t.shape.rank; ++i) shape += text(t.shape[i], i + 1 < t.shape.rank ? ", " : t.shape.rank == 1 ? "," : "");
  std::string dict = text("{'descr': '", byte_size(t.dtype) == 1 ? "|" : "<", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  dict.append(63 - (10 + dict.size()) % 64, ' ');  // the elements begin at a multiple of 64
  dict += '\n';
  std::string head(kMagic);
  head += {1, 0, char(dict.size() & 255), char(dict.size() >> 8)};
  BARACUDA_TRY_ASSIGN(file, AtomicFile::create(path));
  BARACUDA_TRY(file.write(head + dict));
  BARACUDA_TRY(file.write(std::span(t.as<const std::byte>(), size_t(t.numel()) * byte_size(t.dtype))));
  return file.commit();
}

}  // namespace baracuda::io
