#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "kael/error.h"

#include "base/in_quotes.h"
#include "io/json.h"

namespace kael::io {

namespace {

// In the order of the format, by which files are sorted when they are written.
constexpr std::array<SafeTensorsType, 22> kTypes = {{
    {"BOOL", 8, DType::boolean},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::uint8},
    {"I8", 8, DType::int8},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, DType::float16},
    {"BF16", 16, DType::bfloat16},
    {"I32", 32, DType::int32},
    {"U32", 32, {}},
    {"F32", 32, DType::float32},
    {"C64", 64, {}},
    {"F64", 64, DType::float64},
    {"I64", 64, DType::int64},
    {"U64", 64, {}},
}};

std::string show(const std::vector<std::uint64_t>& shape) {
    std::string text = "[";
    constexpr std::size_t kShown = 32;
    for (std::size_t i = 0; i < std::min(shape.size(), kShown); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    }
    return text + (shape.size() > kShown ? ", ...]" : "]");
}

// Collects entries and metadata, and refuses every value that is not of its field's kind.
class HeaderVisitor final : public JsonVisitor {
public:
    explicit HeaderVisitor(SafeTensorsHeader& header) : header_(header) {}

    void begin_object() override {
        switch (place_) {
        case Place::root:
            place_ = Place::names;
            return;
        case Place::metadata:
            place_ = Place::metadata_keys;
            return;
        case Place::entry:
            header_.entries.emplace_back().name = name_;
            found_ = {};
            place_ = Place::fields;
            return;
        default:
            unexpected(JsonKind::object);
        }
    }

    JsonMember key(std::string_view key) override {
        switch (place_) {
        case Place::names:
            name_ = key;
            place_ = key == "__metadata__" ? Place::metadata : Place::entry;
            return JsonMember::visit;
        case Place::metadata_keys:
            name_ = key;
            place_ = Place::metadata_value;
            return JsonMember::visit;
        default:
            return field(key);
        }
    }

    void end_object() override {
        if (place_ == Place::fields) {
            check_fields();
        }
        place_ = Place::names;
    }

    void null() override {
        if (place_ != Place::metadata) {
            unexpected(JsonKind::null);
        }
        place_ = Place::names;
    }

    void string(std::string_view value) override {
        if (place_ == Place::metadata_value) {
            header_.metadata.emplace_back(name_, value);
            place_ = Place::metadata_keys;
        } else if (place_ == Place::type) {
            entry().type = find_safetensors_type(value);
            if (entry().type == nullptr) {
                fail("tensor " + in_quotes(name_) + ": the format has no dtype " +
                     in_quotes(value));
            }
            place_ = Place::fields;
        } else {
            unexpected(JsonKind::string);
        }
    }

    void begin_array() override {
        if (place_ != Place::shape && place_ != Place::offsets) {
            unexpected(JsonKind::array);
        }
        place_ = place_ == Place::shape ? Place::shape_numbers : Place::offset_numbers;
    }

    void unsigned_integer(std::uint64_t value) override {
        if (place_ == Place::shape_numbers) {
            entry().shape.push_back(value);
        } else if (place_ == Place::offset_numbers && offset_count_ < 2) {
            (offset_count_++ == 0 ? entry().begin : entry().end) = value;
        } else {
            unexpected(JsonKind::unsigned_integer);
        }
    }

    void end_array() override {
        if (place_ == Place::offset_numbers && offset_count_ != 2) {
            fail("tensor " + in_quotes(name_) + ": data_offsets holds " +
                 std::to_string(offset_count_) + " numbers, expected 2");
        }
        place_ = Place::fields;
    }

private:
    // What the next value belongs to.
    enum class Place {
        root,
        names,
        metadata,
        metadata_keys,
        metadata_value,
        entry,
        fields,
        type,
        shape,
        shape_numbers,
        offsets,
        offset_numbers,
    };
    struct Found {
        bool type = false;
        bool shape = false;
        bool offsets = false;
    };

    SafeTensorsEntry& entry() { return header_.entries.back(); }

    JsonMember field(std::string_view key) {
        if (key == "dtype") {
            found_.type = true;
            place_ = Place::type;
        } else if (key == "shape") {
            found_.shape = true;
            place_ = Place::shape;
        } else if (key == "data_offsets") {
            found_.offsets = true;
            offset_count_ = 0;
            place_ = Place::offsets;
        } else {
            return JsonMember::skip;
        }
        return JsonMember::visit;
    }

    void check_fields() const {
        if (!found_.type || !found_.shape || !found_.offsets) {
            fail("tensor " + in_quotes(name_) + " has no " +
                 (!found_.type    ? "dtype"
                  : !found_.shape ? "shape"
                                  : "data_offsets"));
        }
    }

    [[noreturn]] void unexpected(JsonKind kind) override {
        fail(described() + ", found " + std::string(io::name(kind)));
    }

    [[nodiscard]] std::string described() const {
        const std::string tensor = "tensor " + in_quotes(name_) + ": ";
        switch (place_) {
        case Place::root:
            return "expected the header to be an object";
        case Place::metadata:
            return "expected __metadata__ to be an object or null";
        case Place::metadata_value:
            return "expected the value of the metadata key " + in_quotes(name_) + " to be a string";
        case Place::type:
            return tensor + "expected dtype to be a string";
        case Place::shape:
            return tensor + "expected shape to be an array";
        case Place::shape_numbers:
            return tensor + "expected the numbers of shape to be unsigned integers";
        case Place::offsets:
            return tensor + "expected data_offsets to be an array";
        case Place::offset_numbers:
            return tensor + "expected data_offsets to be two unsigned integers";
        default:
            return tensor + "expected an object";
        }
    }

    SafeTensorsHeader& header_;
    Place place_ = Place::root;
    std::string name_; // of the tensor or the metadata key
    Found found_;
    int offset_count_ = 0;
};

// The bytes that the entry's type and shape need. The product is checked factor by factor, in
// order, as the reference does: a 0 does not excuse an overflow before it.
std::uint64_t bytes_needed(const SafeTensorsEntry& entry, const std::filesystem::path& path) {
    std::uint64_t product = 1;
    bool fits = true;
    for (const std::uint64_t size : entry.shape) {
        fits = fits && !__builtin_mul_overflow(product, size, &product);
    }
    fits = fits && !__builtin_mul_overflow(product, std::uint64_t{entry.type->bits}, &product);
    KAEL_CHECK_AS(ErrorCode::invalid_file, fits,
                  path.string() << ": tensor " << in_quotes(entry.name) << ": the size of "
                                << entry.type->name << ' ' << show(entry.shape) << " overflows");
    KAEL_CHECK_AS(ErrorCode::invalid_file, product % 8 == 0,
                  path.string() << ": tensor " << in_quotes(entry.name) << ": " << entry.type->name
                                << ' ' << show(entry.shape) << " takes " << product
                                << " bits, which is not a whole number of bytes");
    return product / 8;
}

void check_entry(const SafeTensorsEntry& entry, const std::filesystem::path& path) {
    const std::uint64_t needed = bytes_needed(entry, path);
    KAEL_CHECK_AS(
        ErrorCode::invalid_file, entry.begin <= entry.end && entry.end - entry.begin == needed,
        path.string() << ": tensor " << in_quotes(entry.name) << ": " << entry.type->name << ' '
                      << show(entry.shape) << " needs " << needed << " bytes, data_offsets says ["
                      << entry.begin << ", " << entry.end << ']');
}

// The tensors must cover the data from its first to its last byte, each byte once.
void check_layout(const SafeTensorsHeader& header, std::uint64_t header_bytes,
                  std::uint64_t file_bytes, const std::filesystem::path& path) {
    std::uint64_t covered = 0;
    for (const SafeTensorsEntry& entry : header.entries) {
        KAEL_CHECK_AS(ErrorCode::invalid_file, entry.begin == covered,
                      path.string()
                          << ": tensor " << in_quotes(entry.name) << ": its data begins at "
                          << entry.begin << ", but the tensors before it end at " << covered
                          << (entry.begin < covered ? ": they overlap"
                                                    : ": a hole lies between them"));
        covered = entry.end;
    }
    const std::uint64_t data_begin = kSafeTensorsPrefix + header_bytes;
    const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() - data_begin;
    const std::uint64_t expected = data_begin + std::min(covered, limit);
    KAEL_CHECK_AS(ErrorCode::invalid_file, expected <= file_bytes,
                  path.string() << ": expected " << expected << " bytes, the file has "
                                << file_bytes << ": an incomplete download?");
    KAEL_CHECK_AS(ErrorCode::invalid_file, expected == file_bytes,
                  path.string() << ": expected " << expected << " bytes, the file has "
                                << file_bytes << ": no tensor owns the rest");
}

} // namespace

const SafeTensorsType* find_safetensors_type(std::string_view name) {
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                     [&](const auto& type) { return type.name == name; });
    return found == kTypes.end() ? nullptr : found;
}

const SafeTensorsType& safetensors_type(DType dtype) {
    return *std::find_if(kTypes.begin(), kTypes.end(),
                         [&](const auto& type) { return type.dtype == dtype; });
}

int safetensors_rank(const SafeTensorsType& type) {
    return static_cast<int>(&type - kTypes.data());
}

std::size_t safetensors_header_length(const std::byte* prefix, std::uint64_t file_bytes,
                                      const std::filesystem::path& path) {
    KAEL_CHECK_AS(ErrorCode::invalid_file, file_bytes >= kSafeTensorsPrefix,
                  path.string() << ": expected at least " << kSafeTensorsPrefix
                                << " bytes, the file has " << file_bytes
                                << ": an incomplete download?");
    std::uint64_t length = 0;
    for (std::size_t i = kSafeTensorsPrefix; i-- > 0;) {
        length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
    }
    KAEL_CHECK_AS(ErrorCode::invalid_file, length <= kMaxSafeTensorsHeader,
                  path.string() << ": the first 8 bytes give the header " << length
                                << " bytes, expected at most " << kMaxSafeTensorsHeader
                                << ": not a safetensors file?");
    KAEL_CHECK_AS(ErrorCode::invalid_file, length <= file_bytes - kSafeTensorsPrefix,
                  path.string() << ": expected " << kSafeTensorsPrefix + length
                                << " bytes up to the end of the header, the file has " << file_bytes
                                << ": an incomplete download?");
    return static_cast<std::size_t>(length);
}

SafeTensorsHeader parse_safetensors_header(std::string_view header, std::uint64_t file_bytes,
                                           const std::filesystem::path& path) {
    SafeTensorsHeader parsed;
    HeaderVisitor visitor(parsed);
    visit_json(header, path, kSafeTensorsPrefix, visitor);
    for (const SafeTensorsEntry& entry : parsed.entries) {
        check_entry(entry, path);
    }
    // Empty tensors may share a place: their names decide, so that the order is always the same.
    std::sort(parsed.entries.begin(), parsed.entries.end(),
              [](const SafeTensorsEntry& a, const SafeTensorsEntry& b) {
                  return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
              });
    check_layout(parsed, header.size(), file_bytes, path);
    return parsed;
}

std::pair<DType, Shape> tensor_layout(const SafeTensorsEntry& entry,
                                      const std::filesystem::path& path) {
    KAEL_CHECK_AS(ErrorCode::unsupported, entry.type->dtype.has_value(),
                  path.string() << ": tensor " << in_quotes(entry.name) << " has the dtype "
                                << entry.type->name << ", of which kael has no tensors");
    KAEL_CHECK_AS(ErrorCode::unsupported, entry.shape.size() <= std::size_t{kMaxRank},
                  path.string() << ": tensor " << in_quotes(entry.name) << " has "
                                << entry.shape.size() << " dimensions, kael's tensors have at most "
                                << kMaxRank);
    // Strides are 64-bit integers also where a dimension of 0 leaves nothing to stride over.
    std::uint64_t product = static_cast<std::uint64_t>(item_size(*entry.type->dtype));
    bool fits = true;
    Shape shape;
    for (const std::uint64_t size : entry.shape) {
        fits = fits &&
               !__builtin_mul_overflow(product, std::max<std::uint64_t>(size, 1), &product) &&
               product <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
        shape.push_back(static_cast<std::int64_t>(size));
    }
    KAEL_CHECK_AS(ErrorCode::unsupported, fits,
                  path.string() << ": tensor " << in_quotes(entry.name) << " has the shape "
                                << show(entry.shape) << ", whose strides do not fit in 64 bits");
    return {*entry.type->dtype, std::move(shape)};
}

} // namespace kael::io
