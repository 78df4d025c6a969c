// The IDX reader: any bytes are images or labels, or a kael::Error, and a file says the same as
// memory.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include "kael/error.h"
#include "kael/idx.h"

#include "input.h"
#include "temporary_folder.h"

namespace {

using kael::fuzz::require;

struct Outcome {
    kael::Tensor tensor;
    std::string message;
};

template <typename Load>
Outcome outcome_of(Load load) {
    try {
        return {load(), ""};
    } catch (const kael::Error& error) {
        return {{}, error.message()};
    }
}

void require_same(const Outcome& read, const Outcome& parsed) {
    require(read.message == parsed.message);
    require(read.message.find('\n') == std::string::npos);
    if (read.tensor.defined()) {
        require(read.tensor.shape() == parsed.tensor.shape());
        // Reads every byte of both.
        require(read.tensor.numel() == 0 ||
                std::memcmp(read.tensor.data_ptr_raw(), parsed.tensor.data_ptr_raw(),
                            static_cast<std::size_t>(read.tensor.nbytes())) == 0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const kael::test::TemporaryFolder folder;
    const std::filesystem::path path =
        folder.write("input", {reinterpret_cast<const char*>(data), size});
    const auto bytes = std::as_bytes(std::span(data, size));
    require_same(outcome_of([&] { return kael::data::read_idx_images(path); }),
                 outcome_of([&] { return kael::data::parse_idx_images(bytes, path.string()); }));
    require_same(outcome_of([&] { return kael::data::read_idx_labels(path); }),
                 outcome_of([&] { return kael::data::parse_idx_labels(bytes, path.string()); }));
    return 0;
}
