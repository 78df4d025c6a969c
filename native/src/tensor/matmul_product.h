// A product of matrices as the loops over it see it.
#pragma once

#include <cstdint>
#include <vector>

namespace kael::forward {

// Matrices [rows, depth] . [depth, columns], one for each index of the batch.
struct Product {
    std::int64_t rows = 0;
    std::int64_t depth = 0;
    std::int64_t columns = 0;
    std::int64_t row_stride_a = 0;
    std::int64_t column_stride_a = 0;
    std::int64_t row_stride_b = 0;
    std::int64_t column_stride_b = 0;
    std::vector<std::int64_t> offsets_a; // of the matrices, in elements
    std::vector<std::int64_t> offsets_b;
};

} // namespace kael::forward
