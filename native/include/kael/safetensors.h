// safetensors files (https://github.com/huggingface/safetensors, README, "Format").
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kael/tensor.h"

namespace kael::io {

enum class LoadMode {
    Copy,   // read into memory: safe whatever happens to the file later
    Mapped, // mapped read-only, no copy; truncating the file while it is in use ends the process
            // (SIGBUS)
};

struct SafeTensors {
    NamedTensors tensors; // in the order of their data
    std::vector<std::pair<std::string, std::string>> metadata;
    // Mapped tensors whose bytes are not aligned for their dtype are copied one by one; how many,
    // and how much.
    std::int64_t copied_tensors = 0;
    std::int64_t copied_bytes = 0;

    // The tensor of that name, or nullptr.
    [[nodiscard]] const Tensor* find(std::string_view name) const;
};

// Throws kael::Error (invalid_file) for everything that docs/formats/safetensors.md forbids.
[[nodiscard]] SafeTensors read_safetensors(const std::filesystem::path& path, LoadMode mode);

// Reads `folder`/model.safetensors, or the shards that `folder`/model.safetensors.index.json lists.
[[nodiscard]] SafeTensors read_safetensors_folder(const std::filesystem::path& folder,
                                                  LoadMode mode);

// Writes beside `path` and renames, so that a mapping of an older file of that name stays intact.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata);

} // namespace kael::io
