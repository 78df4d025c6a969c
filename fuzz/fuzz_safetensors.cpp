// The safetensors reader: any bytes are a file or a kael::Error, and both modes say the same.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "input.h"
#include "temporary_folder.h"

namespace {

using kael::fuzz::require;
using kael::io::LoadMode;
using kael::io::SafeTensors;

struct Outcome {
    std::optional<SafeTensors> loaded;
    std::string message;
};

Outcome load(const std::filesystem::path& path, LoadMode mode) {
    try {
        return {kael::io::read_safetensors(path, mode), ""};
    } catch (const kael::Error& error) {
        return {std::nullopt, error.message()};
    }
}

void require_same(const SafeTensors& copied, const SafeTensors& mapped) {
    require(copied.metadata == mapped.metadata);
    require(copied.tensors.size() == mapped.tensors.size());
    for (std::size_t i = 0; i < copied.tensors.size(); ++i) {
        const auto& [name, first] = copied.tensors[i];
        const kael::Tensor& second = mapped.tensors[i].second;
        require(name == mapped.tensors[i].first);
        require(first.dtype() == second.dtype() && first.shape() == second.shape());
        // Reads every byte of both.
        require(first.nbytes() == 0 || std::memcmp(first.data_ptr_raw(), second.data_ptr_raw(),
                                                   static_cast<std::size_t>(first.nbytes())) == 0);
        const auto address = reinterpret_cast<std::uintptr_t>(second.data_ptr_raw());
        require(address % static_cast<std::uintptr_t>(kael::item_size(second.dtype())) == 0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const kael::test::TemporaryFolder folder;
    const std::filesystem::path path =
        folder.write("input", {reinterpret_cast<const char*>(data), size});
    const Outcome copied = load(path, LoadMode::Copy);
    const Outcome mapped = load(path, LoadMode::Mapped);
    require(copied.loaded.has_value() == mapped.loaded.has_value());
    require(copied.message == mapped.message);
    require(copied.message.find('\n') == std::string::npos);
    if (copied.loaded.has_value()) {
        require_same(*copied.loaded, *mapped.loaded);
    }
    return 0;
}
