// Which elements integers and masks as an index name, as in t[rows, columns] and t[t > 0].
#pragma once

#include <string>
#include <vector>

#include "kael/tensor.h"

namespace kael {

struct Places {
    std::vector<int> dimensions; // of the tensor, ascending
    std::vector<Tensor> indices; // in them, beside each other: int64, contiguous, of one shape

    [[nodiscard]] const Shape& shape() const { return indices.front().shape(); }
    // Whether no other dimension is between them. What is picked then stands where they were, else
    // in front.
    [[nodiscard]] bool are_adjacent() const;
    // The first dimension of what is picked.
    [[nodiscard]] int front() const { return are_adjacent() ? dimensions.front() : 0; }
    // Every dimension of a tensor of that rank, these first.
    [[nodiscard]] std::vector<int> order(int rank) const;
    // The shape of what is picked of a tensor of shape `whole`.
    [[nodiscard]] Shape picked(const Shape& whole) const;
    // int64 with one dimension: the indices into these dimensions of `whole` when they are one.
    [[nodiscard]] Tensor joined(const Shape& whole) const;
};

// `indices[i]` begins at `dimensions[i]`, and the next one behind it. A tensor of integers, from
// -size to size - 1, is for one dimension; all of them broadcast. A mask of bools has the sizes of
// the dimensions that it is for, one or more, and names the elements where it is true, in row-major
// order. `name` is the operator's, for the errors.
[[nodiscard]] Places find_places(const Tensor& x, const std::vector<int>& dimensions,
                                 const std::vector<Tensor>& indices, const std::string& name);

namespace forward {

// Writes `source`, which broadcasts to the shape of what is picked and is converted as by
// Tensor::to, to these places of x. Of several values for one place the last one stays.
void put_(Tensor& x, const Places& places, const Tensor& source, const std::string& name);

} // namespace forward
} // namespace kael
