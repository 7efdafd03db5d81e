#include "baracuda/io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace baracuda::io {
namespace {

struct DTypeName { std::string_view text; DType dtype; };
constexpr DTypeName kNames[] = {
    {"BOOL", DType::boolean}, {"I8", DType::i8},   {"U8", DType::u8},   {"I16", DType::i16},        {"U16", DType::u16},
    {"I32", DType::i32},      {"U32", DType::u32}, {"I64", DType::i64}, {"U64", DType::u64},        {"F16", DType::f16},
    {"BF16", DType::bf16},    {"F32", DType::f32}, {"F64", DType::f64}, {"F8_E4M3", DType::f8_e4m3fn}, {"F8_E5M2", DType::f8_e5m2},
    {"C64", DType::c64}};

Status malformed(const std::string& why) { return {Code::invalid_problem, "malformed safetensors file: " + why}; }

// The header has a fixed shape, so it is read event by event into that shape: nothing else is ever built in memory, and
// depth, duplicate keys and number types are checked where they occur.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // data_offsets, in the order of header.tensors
  std::string error;

  bool start_object(size_t) override {
    switch (where_) {
      case Where::start: where_ = Where::top; return true;
      case Where::top_value:
        where_ = metadata_ ? Where::metadata : Where::tensor;
        return true;
      default: return unexpected("an object");
    }
  }
  bool end_object() override {
    if (where_ == Where::top) {
      where_ = Where::end;
    } else if (where_ == Where::metadata) {
      where_ = Where::top;
    } else {
      if (seen_ != 7) return fail(current() + " lacks " + (!(seen_ & 1) ? "dtype" : !(seen_ & 2) ? "shape" : "data_offsets"));
      if (offsets_.size() != 2) return fail(current() + ": data_offsets has " + std::to_string(offsets_.size()) + " numbers, not 2");
      header.tensors.push_back(std::move(entry_));
      ranges.emplace_back(offsets_[0], offsets_[1]);
      where_ = Where::top;
    }
    return true;
  }
  bool key(std::string& k) override {
    switch (where_) {
      case Where::top:
        if (!names_.insert(k).second) return fail("duplicate name " + in_quotes(k));
        metadata_ = k == "__metadata__";
        entry_ = {};
        entry_.name = k;
        seen_ = 0;
        offsets_.clear();
        where_ = Where::top_value;
        return true;
      case Where::metadata:
        if (header.metadata.count(k)) return fail("duplicate metadata key " + in_quotes(k));
        field_ = k;
        where_ = Where::metadata_value;
        return true;
      default: {
        const int bit = k == "dtype" ? 1 : k == "shape" ? 2 : k == "data_offsets" ? 4 : 0;
        if (!bit) return fail(current() + " has an unknown field " + in_quotes(k));
        if (seen_ & bit) return fail(current() + " has two fields " + in_quotes(k));
        seen_ |= bit;
        where_ = bit == 1 ? Where::dtype : bit == 2 ? Where::shape : Where::offsets;
        return true;
      }
    }
  }
  bool string(std::string& s) override {
    if (where_ == Where::metadata_value) {
      header.metadata.emplace(field_, s);
      where_ = Where::metadata;
      return true;
    }
    if (where_ != Where::dtype) return unexpected("a string");
    const auto* known = std::find_if(std::begin(kNames), std::end(kNames), [&](const DTypeName& n) { return n.text == s; });
    if (known == std::end(kNames)) return fail(current() + " has an unknown dtype " + in_quotes(s));
    entry_.dtype = known->dtype;
    where_ = Where::tensor;
    return true;
  }
  bool start_array(size_t) override {
    if (where_ == Where::shape) where_ = Where::in_shape;
    else if (where_ == Where::offsets) where_ = Where::in_offsets;
    else return unexpected("an array");
    return true;
  }
  bool end_array() override {
    where_ = Where::tensor;
    return true;
  }
  bool number_unsigned(uint64_t n) override {
    if (where_ == Where::in_shape) {
      if (n > uint64_t(INT64_MAX)) return fail(current() + ": an extent exceeds 2^63 - 1");
      entry_.shape.push_back(int64_t(n));
    } else if (where_ == Where::in_offsets) {
      if (offsets_.size() == 2) return fail(current() + ": data_offsets has more than 2 numbers");
      offsets_.push_back(n);
    } else {
      return unexpected("a number");
    }
    return true;
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return unexpected("a number that is not an integer of 64 bits"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return fail("the header is not JSON at its byte " + std::to_string(position));
  }

 private:
  enum class Where { start, top, top_value, metadata, metadata_value, tensor, dtype, shape, offsets, in_shape, in_offsets, end };

  std::string current() const { return "tensor " + in_quotes(entry_.name); }
  bool fail(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  bool unexpected(const char* what) {
    const std::string place = where_ == Where::start ? "the header" : metadata_ ? "__metadata__" : current();
    return fail(place + ": " + what + " where the format has " +
                (where_ == Where::start || where_ == Where::top_value ? "an object"
                 : where_ == Where::shape || where_ == Where::offsets ? "an array"
                 : where_ == Where::in_shape || where_ == Where::in_offsets ? "a number not below 0" : "a string"));
  }

  Where where_ = Where::start;
  bool metadata_ = false;
  int seen_ = 0;  // bits: dtype, shape, data_offsets
  SafetensorsEntry entry_;
  std::vector<uint64_t> offsets_;
  std::string field_;
  std::set<std::string, std::less<>> names_;
};

// Bytes of a dense tensor; false where the product does not fit.
bool dense_bytes(DType dtype, const Shape& shape, uint64_t& bytes) {
  const int64_t n = shape.numel();
  return n >= 0 && !__builtin_mul_overflow(uint64_t(n), uint64_t(byte_size(dtype)), &bytes);
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const SafetensorsEntry& e) { return e.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes) {
  if (json.empty() || json[0] != '{') return malformed("the header does not begin with '{'");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader, nlohmann::json::input_format_t::json, /*strict=*/true))
    return malformed(reader.error.empty() ? "the header cannot be read" : reader.error);
  SafetensorsHeader& header = reader.header;

  for (size_t i = 0; i < header.tensors.size(); ++i) {
    SafetensorsEntry& e = header.tensors[i];
    const auto [begin, end] = reader.ranges[i];
    const std::string who = "tensor " + in_quotes(e.name);
    if (!e.shape.rank_ok()) return Status(Code::unsupported, "safetensors: " + who + " has more than " + std::to_string(kMaxRank) + " dimensions");
    if (begin > end) return malformed(who + ": data_offsets " + std::to_string(begin) + " > " + std::to_string(end));
    if (end > data_bytes)
      return malformed(who + " ends at byte " + std::to_string(end) + " of the data, which has " + std::to_string(data_bytes));
    uint64_t bytes = 0;
    if (!dense_bytes(e.dtype, e.shape, bytes)) return malformed(who + ": the size of shape " + to_string(e.shape) + " overflows");
    if (bytes != end - begin)
      return malformed(who + ": " + std::string(name(e.dtype)) + " " + to_string(e.shape) + " takes " + std::to_string(bytes) +
                       " bytes, data_offsets give " + std::to_string(end - begin));
    e.offset = begin;  // from the start of the data until all are checked
    e.bytes = bytes;
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  uint64_t used = 0;
  for (SafetensorsEntry& e : header.tensors) {
    if (e.offset != used)
      return malformed("tensor " + in_quotes(e.name) + (e.offset < used ? " overlaps the one before it" : " leaves a hole before it"));
    used += e.bytes;
    e.offset += 8 + json.size();
  }
  if (used != data_bytes) return malformed(std::to_string(data_bytes - used) + " bytes after the last tensor");
  return std::move(header);
}

namespace {

// The header's length from the first 8 bytes, checked against what the file has.
Result<uint64_t> header_length(std::span<const std::byte> first, uint64_t file_bytes) {
  if (file_bytes < 8) return malformed(std::to_string(file_bytes) + " bytes, too short for the header's length");
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= uint64_t(first[size_t(i)]) << (8 * i);
  if (length > kMaxSafetensorsHeader)
    return malformed("a header length of " + std::to_string(length) + " exceeds the limit of " + std::to_string(kMaxSafetensorsHeader));
  if (length > file_bytes - 8)
    return malformed("a header length of " + std::to_string(length) + " exceeds the file, which has " + std::to_string(file_bytes) + " bytes");
  return length;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file) {
  BARACUDA_TRY_ASSIGN(length, header_length(file, file.size()));
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + 8, length);
  return parse_safetensors_header(json, file.size() - 8 - length);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  BARACUDA_TRY_ASSIGN(file, InputFile::open(path));
  const auto in_file = [&](const Status& s) { return Status(s.code(), in_quotes(path) + ": " + s.message()); };
  std::byte first[8] = {};
  if (file.size() >= 8) BARACUDA_TRY(file.read(0, first));
  const Result<uint64_t> length = header_length(first, file.size());
  if (!length.ok()) return in_file(length.status());
  std::string json(*length, '\0');
  BARACUDA_TRY(file.read(8, std::as_writable_bytes(std::span(json))));
  Result<SafetensorsHeader> header = parse_safetensors_header(json, file.size() - 8 - *length);
  if (!header.ok()) return in_file(header.status());
  return SafetensorsFile(std::move(file), *std::move(header));
}

Status SafetensorsFile::read(std::string_view name, const TensorView& to) const {
  const SafetensorsEntry* e = header_.find(name);
  const std::string who = in_quotes(path()) + ": tensor " + in_quotes(name);
  if (!e) return {Code::invalid_problem, who + " is missing"};
  if (e->dtype != to.dtype || e->shape != to.shape)
    return {Code::invalid_problem, who + " is " + std::string(baracuda::name(e->dtype)) + " " + to_string(e->shape) + ", expected " +
                                       std::string(baracuda::name(to.dtype)) + " " + to_string(to.shape)};
  if (!to.contiguous() || to.device.kind != DeviceKind::cpu)
    return {Code::invalid_problem, who + ": the destination must be contiguous host memory"};
  return file_.read(e->offset, {to.as<std::byte>(), size_t(e->bytes)});
}

Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names{"__metadata__"};
  for (const NamedTensor& t : tensors) {
    const auto* known = std::find_if(std::begin(kNames), std::end(kNames), [&](const DTypeName& n) { return n.dtype == t.tensor.dtype; });
    const char* wrong = !names.insert(t.name).second                                                 ? "its name is reserved or used twice"
                        : known == std::end(kNames)                                                  ? "the format has no such dtype"
                        : !t.tensor.shape.valid() || t.tensor.strides.rank != t.tensor.shape.rank    ? "its shape is not valid"
                        : !t.tensor.contiguous() || t.tensor.device.kind != DeviceKind::cpu ? "it is not contiguous host memory"
                                                                                                     : nullptr;
    if (wrong) return {Code::invalid_problem, "cannot write tensor " + in_quotes(t.name) + ": " + wrong};
    order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return byte_size(a->tensor.dtype) > byte_size(b->tensor.dtype);
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const NamedTensor* t : order) {
    uint64_t bytes = 0;
    if (!dense_bytes(t->tensor.dtype, t->tensor.shape, bytes) || bytes > uint64_t(INT64_MAX) - offset)
      return {Code::invalid_problem, "cannot write tensor " + in_quotes(t->name) + ": its size overflows"};
    const auto* type = std::find_if(std::begin(kNames), std::end(kNames), [&](const DTypeName& n) { return n.dtype == t->tensor.dtype; });
    auto& entry = header[t->name];
    entry["dtype"] = type->text;
    entry["shape"] = nlohmann::ordered_json::array();
    for (int i = 0; i < t->tensor.shape.rank; ++i) entry["shape"].push_back(t->tensor.shape[i]);
    entry["data_offsets"] = {offset, offset + bytes};
    offset += bytes;
  }
  std::string json;
  try {
    json = header.dump();
  } catch (const nlohmann::json::exception&) {
    return {Code::invalid_problem, "cannot write " + in_quotes(path) + ": a name or metadata is not UTF-8"};
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxSafetensorsHeader)
    return {Code::invalid_problem, "cannot write " + in_quotes(path) + ": the header exceeds " + std::to_string(kMaxSafetensorsHeader) + " bytes"};

  BARACUDA_TRY_ASSIGN(file, AtomicFile::create(path));
  std::byte length[8];
  for (int i = 0; i < 8; ++i) length[i] = std::byte(json.size() >> (8 * i) & 0xFF);
  BARACUDA_TRY(file.write(length));
  BARACUDA_TRY(file.write(json));
  for (const NamedTensor* t : order) {
    uint64_t bytes = 0;
    dense_bytes(t->tensor.dtype, t->tensor.shape, bytes);
    BARACUDA_TRY(file.write({t->tensor.as<const std::byte>(), size_t(bytes)}));
  }
  return file.commit();
}

}  // namespace baracuda::io
