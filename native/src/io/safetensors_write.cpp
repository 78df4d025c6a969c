#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "base/in_quotes.h"
#include "base/replaced_file.h"
#include "io/json.h"
#include "io/safetensors_header.h"

namespace kael::io {

namespace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian, and kael reads and writes it as it is");

// The order of the data: types of larger elements first, so that everything is aligned; names
// within a type.
std::vector<const std::pair<std::string, Tensor>*> sorted(const NamedTensors& tensors) {
    std::vector<const std::pair<std::string, Tensor>*> order;
    order.reserve(tensors.size());
    for (const auto& entry : tensors) {
        KAEL_CHECK(entry.second.defined(),
                   "the tensor " << in_quotes(entry.first) << " is undefined");
        order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        const int first = safetensors_rank(safetensors_type(a->second.dtype()));
        const int second = safetensors_rank(safetensors_type(b->second.dtype()));
        return first != second ? first > second : a->first < b->first;
    });
    return order;
}

void check_names(const NamedTensors& tensors, const Metadata& metadata) {
    std::unordered_set<std::string_view> names;
    for (const auto& [name, tensor] : tensors) {
        KAEL_CHECK(name != "__metadata__",
                   "a tensor cannot be named \"__metadata__\": safetensors keeps that name");
        KAEL_CHECK(names.insert(name).second,
                   "the tensor name " << in_quotes(name) << " is given twice");
    }
    std::unordered_set<std::string_view> keys;
    for (const auto& [key, value] : metadata) {
        KAEL_CHECK(keys.insert(key).second,
                   "the metadata key " << in_quotes(key) << " is given twice");
    }
}

void append_metadata(std::string& header, const Metadata& metadata) {
    header += R"("__metadata__":{)";
    for (const auto& [key, value] : metadata) {
        header += header.back() == '{' ? "" : ",";
        append_json_string(header, key);
        header += ':';
        append_json_string(header, value);
    }
    header += '}';
}

void append_entry(std::string& header, const std::string& name, const Tensor& tensor,
                  std::int64_t begin) {
    append_json_string(header, name);
    header += R"(:{"dtype":")";
    header += safetensors_type(tensor.dtype()).name;
    header += R"(","shape":[)";
    for (const std::int64_t size : tensor.shape()) {
        header += header.back() == '[' ? "" : ",";
        header += std::to_string(size);
    }
    header += R"(],"data_offsets":[)";
    header += std::to_string(begin);
    header += ',';
    header += std::to_string(begin + tensor.nbytes());
    header += "]}";
}

// The length, the header, and spaces up to a multiple of 8 bytes.
std::string make_header(const std::vector<const std::pair<std::string, Tensor>*>& order,
                        const Metadata& metadata) {
    std::string header = "{";
    if (!metadata.empty()) {
        append_metadata(header, metadata);
    }
    std::int64_t begin = 0;
    for (const auto* entry : order) {
        header += header.size() == 1 ? "" : ",";
        append_entry(header, entry->first, entry->second, begin);
        begin += entry->second.nbytes();
    }
    header += '}';
    header.append((8 - header.size() % 8) % 8, ' ');
    KAEL_CHECK(header.size() <= kMaxSafeTensorsHeader,
               "the header would take " << header.size() << " bytes, safetensors allows "
                                        << kMaxSafeTensorsHeader);
    std::string prefix;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        prefix += static_cast<char>(std::uint64_t{header.size()} >> shift & 0xFF);
    }
    return prefix + header;
}

// The bytes of the file. Those of a bool are 0 and 1 there, while in memory any but 0 is true.
Tensor prepared(const Tensor& tensor) {
    return tensor.dtype() == DType::boolean ? tensor.to(DType::uint8).contiguous()
                                            : tensor.contiguous();
}

} // namespace

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
    check_names(tensors, metadata);
    const auto order = sorted(tensors);
    const std::string header = make_header(order, metadata);
    ReplacedFile file(path);
    file.write(std::as_bytes(std::span(header)));
    for (const auto* entry : order) {
        const Tensor tensor = prepared(entry->second);
        file.write({tensor.data_ptr_raw(), static_cast<std::size_t>(tensor.nbytes())});
    }
    file.commit();
}

} // namespace kael::io
