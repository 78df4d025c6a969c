// IDX files, in which the MNIST images come (http://yann.lecun.com/exdb/mnist, "FILE FORMATS"): a
// magic number, a size for each dimension, all big-endian, and bytes in row-major order.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "kael/tensor.h"

namespace kael::data {

// uint8 [images, rows, columns], and uint8 [labels]. invalid_file for another magic number, and for
// a file that has more or fewer bytes than its sizes say.
[[nodiscard]] Tensor read_idx_images(const std::filesystem::path& path);
[[nodiscard]] Tensor read_idx_labels(const std::filesystem::path& path);

// The same from memory, for files that were packed. `origin` names them in errors.
[[nodiscard]] Tensor parse_idx_images(std::span<const std::byte> bytes, const std::string& origin);
[[nodiscard]] Tensor parse_idx_labels(std::span<const std::byte> bytes, const std::string& origin);

} // namespace kael::data
