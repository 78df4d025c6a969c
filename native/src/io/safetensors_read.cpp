#include <algorithm>
#include <memory>
#include <string>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "base/in_quotes.h"
#include "base/input_file.h"
#include "base/mapped_file.h"
#include "io/safetensors_header.h"

namespace kael::io {

namespace {

struct Layout {
    DType dtype;
    Shape shape;
};

// Where every tensor will lie. Done for all of them before the first byte of data is read.
std::vector<Layout> layouts_of(const SafeTensorsHeader& header, const std::filesystem::path& path) {
    std::vector<Layout> layouts;
    layouts.reserve(header.entries.size());
    for (const SafeTensorsEntry& entry : header.entries) {
        auto [dtype, shape] = tensor_layout(entry, path);
        layouts.push_back({dtype, std::move(shape)});
    }
    return layouts;
}

// A C++ bool of any other value than 0 and 1 is undefined behaviour, and two programs that read it
// would disagree.
void check_booleans(const SafeTensorsEntry& entry, std::span<const std::byte> data,
                    std::uint64_t file_offset, const std::filesystem::path& path) {
    const auto wrong = std::find_if(data.begin(), data.end(),
                                    [](std::byte value) { return value > std::byte{1}; });
    KAEL_CHECK_AS(ErrorCode::invalid_file, wrong == data.end(),
                  path.string() << ": tensor " << in_quotes(entry.name) << ": byte "
                                << file_offset + static_cast<std::uint64_t>(wrong - data.begin())
                                << " of the file is " << std::to_integer<int>(*wrong)
                                << ", expected 0 or 1 in a BOOL tensor");
}

SafeTensors read_copied(const std::filesystem::path& path) {
    const InputFile file(path);
    std::array<std::byte, kSafeTensorsPrefix> prefix{};
    if (file.size() >= prefix.size()) {
        file.read(0, prefix);
    }
    std::string text(safetensors_header_length(prefix.data(), file.size(), path), '\0');
    file.read(kSafeTensorsPrefix, std::as_writable_bytes(std::span(text)));
    SafeTensorsHeader header = parse_safetensors_header(text, file.size(), path);
    const std::vector<Layout> layouts = layouts_of(header, path);
    const std::uint64_t data_begin = kSafeTensorsPrefix + text.size();

    SafeTensors loaded;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        SafeTensorsEntry& entry = header.entries[i];
        Tensor tensor = Tensor::empty(layouts[i].shape, layouts[i].dtype);
        const std::span<std::byte> bytes(tensor.storage()->data(), entry.end - entry.begin);
        file.read(data_begin + entry.begin, bytes);
        if (tensor.dtype() == DType::boolean) {
            check_booleans(entry, bytes, data_begin + entry.begin, path);
        }
        loaded.tensors.emplace_back(std::move(entry.name), std::move(tensor));
    }
    loaded.metadata = std::move(header.metadata);
    return loaded;
}

// A view of the mapping, or a copy where its bytes are not aligned for their type.
Tensor map_tensor(const std::shared_ptr<const MappedFile>& file, std::span<const std::byte> bytes,
                  const Layout& layout, const std::filesystem::path& path, SafeTensors& loaded) {
    if (bytes.empty()) {
        return Tensor::empty(layout.shape, layout.dtype);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    if (address % static_cast<std::uintptr_t>(item_size(layout.dtype)) != 0) {
        ++loaded.copied_tensors;
        loaded.copied_bytes += static_cast<std::int64_t>(bytes.size());
        return Tensor::from_bytes(bytes.data(), static_cast<std::int64_t>(bytes.size()),
                                  layout.shape, layout.dtype);
    }
    // Storage is read-only, so that nothing writes through this pointer.
    const std::int64_t offset = bytes.data() - file->bytes().data();
    auto storage = Storage::borrow(
        const_cast<std::byte*>(bytes.data()), static_cast<std::int64_t>(bytes.size()), file,
        /*read_only=*/true, "mapped from " + path.string() + " at byte " + std::to_string(offset),
        Storage::File{path.string(), offset});
    return Tensor::from_storage(std::move(storage), layout.dtype, layout.shape,
                                contiguous_strides(layout.shape), 0);
}

SafeTensors read_mapped(const std::filesystem::path& path) {
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    const std::span<const std::byte> bytes = file->bytes();
    const std::size_t header_bytes = safetensors_header_length(bytes.data(), bytes.size(), path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kSafeTensorsPrefix,
                                header_bytes);
    SafeTensorsHeader header = parse_safetensors_header(text, bytes.size(), path);
    const std::vector<Layout> layouts = layouts_of(header, path);
    const std::size_t data_begin = kSafeTensorsPrefix + header_bytes;

    SafeTensors loaded;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        SafeTensorsEntry& entry = header.entries[i];
        const std::span<const std::byte> data =
            bytes.subspan(data_begin + entry.begin, entry.end - entry.begin);
        if (layouts[i].dtype == DType::boolean) {
            check_booleans(entry, data, data_begin + entry.begin, path);
        }
        Tensor tensor = map_tensor(file, data, layouts[i], path, loaded);
        loaded.tensors.emplace_back(std::move(entry.name), std::move(tensor));
    }
    loaded.metadata = std::move(header.metadata);
    return loaded;
}

} // namespace

const Tensor* SafeTensors::find(std::string_view name) const {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    return found == tensors.end() ? nullptr : &found->second;
}

SafeTensors read_safetensors(const std::filesystem::path& path, LoadMode mode) {
    return mode == LoadMode::Copy ? read_copied(path) : read_mapped(path);
}

} // namespace kael::io
