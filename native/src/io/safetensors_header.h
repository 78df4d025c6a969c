// The header of a safetensors file: what it says, checked against itself and against the size of
// its file. Nothing here touches the tensors' data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kael/dtype.h"
#include "kael/tensor.h"

namespace kael::io {

// An element type that the format knows. kael checks files of every type, and makes tensors of
// those that have a `dtype`.
struct SafeTensorsType {
    std::string_view name;
    unsigned bits;
    std::optional<DType> dtype;
};

// The type of that name, or nullptr.
[[nodiscard]] const SafeTensorsType* find_safetensors_type(std::string_view name);
// The type that kael writes `dtype` as.
[[nodiscard]] const SafeTensorsType& safetensors_type(DType dtype);
// Position in the format's list of types. Writers put larger ones first, which keeps every tensor
// aligned.
[[nodiscard]] int safetensors_rank(const SafeTensorsType& type);

struct SafeTensorsEntry {
    std::string name;
    const SafeTensorsType* type = nullptr;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin = 0; // bytes, counted from the end of the header
    std::uint64_t end = 0;
};

struct SafeTensorsHeader {
    std::vector<SafeTensorsEntry> entries; // in the order of their data, which has no holes
    std::vector<std::pair<std::string, std::string>> metadata;
};

// Bytes before the header: its length.
inline constexpr std::size_t kSafeTensorsPrefix = 8;
// The longest header that the format allows.
inline constexpr std::uint64_t kMaxSafeTensorsHeader = 100'000'000;

// The length of the header, from the first kSafeTensorsPrefix bytes of a file of `file_bytes`
// bytes; the header lies inside the file. `file_bytes` below kSafeTensorsPrefix is an error, and
// `prefix` is not read then.
[[nodiscard]] std::size_t safetensors_header_length(const std::byte* prefix,
                                                    std::uint64_t file_bytes,
                                                    const std::filesystem::path& path);

// Parses and checks the `header` of a file of `file_bytes` bytes. Every entry's data lies inside
// the file and has the size that its type and shape need.
[[nodiscard]] SafeTensorsHeader parse_safetensors_header(std::string_view header,
                                                         std::uint64_t file_bytes,
                                                         const std::filesystem::path& path);

// The dtype and shape of a tensor made from `entry`; unsupported where kael has no such tensors.
[[nodiscard]] std::pair<DType, Shape> tensor_layout(const SafeTensorsEntry& entry,
                                                    const std::filesystem::path& path);

} // namespace kael::io
