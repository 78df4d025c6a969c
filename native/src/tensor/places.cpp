#include "tensor/places.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kael/error.h"
#include "kael/indexing.h"
#include "kael/promotion.h"

#include "tensor/blocks.h"
#include "tensor/defined.h"
#include "tensor/dimensions.h"
#include "tensor/forward_views.h"
#include "tensor/overlap.h"

namespace kael {

namespace {

// Each dimension of a mask must have the size of the tensor's.
void check_mask(const Tensor& x, int dimension, const Tensor& mask, const std::string& name) {
    KAEL_CHECK(mask.rank() > 0, name << ": a mask without dimensions, expected one or more");
    for (int i = 0; i < mask.rank(); ++i) {
        const int place = dimension + i;
        const bool exists = place < x.rank();
        KAEL_CHECK(exists && mask.size(i) == x.size(place),
                   name << ": a mask of shape " << to_string(mask.shape()) << " from dimension "
                        << dimension << " on of a tensor of shape " << to_string(x.shape())
                        << ": dimension " << place << " has " << mask.size(i)
                        << (exists ? " and " + std::to_string(x.size(place)) : " and is not there")
                        << ", expected equal sizes");
    }
}

// A copy in `shape`, with negative indices counted from the end.
Tensor checked(const Tensor& index, const Shape& shape, std::int64_t size, int dimension,
               const std::string& name) {
    Tensor copy = forward::clone(forward::expand(index, shape));
    std::int64_t* const values = copy.mutable_data<std::int64_t>();
    for (std::int64_t i = 0; i < copy.numel(); ++i) {
        KAEL_CHECK(values[i] >= -size && values[i] < size,
                   name << ": index " << values[i] << " in dimension " << dimension << " of size "
                        << size << ", expected "
                        << (size == 0 ? "none"
                                      : std::to_string(-size) + " to " + std::to_string(size - 1)));
        values[i] += values[i] < 0 ? size : 0;
    }
    return copy;
}

// Writes the rows of `values`, contiguous and not empty, one after the other, each at the places in
// the first dimensions of x that `indices` name.
void write_rows(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values) {
    Tensor row = x;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        row = forward::select(row, 0, 0);
    }
    const Elements elements(row);
    const std::int64_t item = item_size(x.dtype());
    const std::byte* from = values.data_ptr_raw();
    std::byte* const to = x.storage()->data() + x.offset() * item;
    for (std::int64_t i = 0; i < indices.front().numel(); ++i) {
        std::int64_t offset = 0;
        for (std::size_t j = 0; j < indices.size(); ++j) {
            offset += indices[j].data<std::int64_t>()[i] * x.strides()[j];
        }
        elements.scatter(to + offset * item, 0, row.numel(), from);
        from += row.numel() * item;
    }
}

} // namespace

bool Places::are_adjacent() const {
    return dimensions.back() - dimensions.front() + 1 == static_cast<int>(dimensions.size());
}

std::vector<int> Places::order(int rank) const {
    std::vector<int> order = dimensions;
    for (int i = 0; i < rank; ++i) {
        if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end()) {
            order.push_back(i);
        }
    }
    return order;
}

Shape Places::picked(const Shape& whole) const {
    Shape result;
    for (const int dimension : order(static_cast<int>(whole.size()))) {
        result.push_back(whole[static_cast<std::size_t>(dimension)]);
    }
    result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(dimensions.size()));
    result.insert(result.begin() + front(), shape().begin(), shape().end());
    KAEL_CHECK(result.size() <= kMaxRank, "an index that picks " << result.size()
                                                                 << " dimensions, expected at most "
                                                                 << kMaxRank);
    return result;
}

Tensor Places::joined(const Shape& whole) const {
    Tensor result = Tensor::zeros({indices.front().numel()}, DType::int64);
    std::int64_t* const sums = result.mutable_data<std::int64_t>();
    std::int64_t stride = 1;
    for (std::size_t i = dimensions.size(); i-- > 0;) {
        const std::int64_t* const values = indices[i].data<std::int64_t>();
        for (std::int64_t j = 0; j < result.numel(); ++j) {
            sums[j] += values[j] * stride;
        }
        stride *= whole[static_cast<std::size_t>(dimensions[i])];
    }
    return result;
}

Places find_places(const Tensor& x, const std::vector<int>& dimensions,
                   const std::vector<Tensor>& indices, const std::string& name) {
    check_defined(x, name);
    KAEL_CHECK(!indices.empty() && indices.size() == dimensions.size(),
               name << ": " << indices.size() << " indices for " << dimensions.size()
                    << " dimensions, expected one or more, and as many");
    Places places;
    std::vector<Shape> shapes;
    const auto add = [&](int dimension, const Tensor& index) {
        places.dimensions.push_back(dimension);
        places.indices.push_back(index);
        shapes.push_back(index.shape());
    };
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const Tensor& index = indices[i];
        check_defined(index, name);
        KAEL_CHECK(x.rank() > 0,
                   name << ": an index for a tensor without dimensions, expected one or more");
        const int dimension = wrap_dimension(x, dimensions[i], name);
        KAEL_CHECK(places.dimensions.empty() || dimension > places.dimensions.back(),
                   name << ": dimension " << dimension << " has an index already, or comes before "
                        << "one that has, expected ascending dimensions");
        if (index.dtype() == DType::boolean) {
            check_mask(x, dimension, index, name);
            const Tensor found = forward::nonzero(index);
            for (int j = 0; j < index.rank(); ++j) {
                add(dimension + j, forward::select(found, 1, j));
            }
        } else {
            KAEL_CHECK(!is_floating_point(index.dtype()),
                       name << ": an index of dtype " << kael::name(index.dtype())
                            << ", expected integers, or a mask of bools");
            add(dimension, forward::to(index, DType::int64));
        }
    }
    const Shape shape = broadcast_shapes(shapes, name);
    for (std::size_t i = 0; i < places.indices.size(); ++i) {
        const int dimension = places.dimensions[i];
        places.indices[i] = checked(places.indices[i], shape, x.size(dimension), dimension, name);
    }
    return places;
}

void forward::put_(Tensor& x, const Places& places, const Tensor& source, const std::string& name) {
    check_destination(x, name);
    const Shape shape = places.picked(x.shape());
    const Shape shapes[] = {shape, source.shape()};
    KAEL_CHECK(broadcast_shapes(shapes, name) == shape,
               name << ": a value of shape " << to_string(source.shape())
                    << " does not fit what the index picks, of shape " << to_string(shape)
                    << ", expected one that broadcasts to it");
    // In both, what the indices stand for comes first.
    const Tensor target = permute(x, places.order(x.rank()));
    Tensor values = expand(to(source, x.dtype()), shape);
    if (places.front() > 0) {
        Places own;
        for (std::size_t i = 0; i < places.shape().size(); ++i) {
            own.dimensions.push_back(places.front() + static_cast<int>(i));
        }
        values = permute(values, own.order(values.rank()));
    }
    values = overlap(x, values) || !values.is_contiguous() ? clone(values) : values;
    if (values.numel() > 0) {
        write_rows(target, places.indices, values);
    }
    x.storage()->bump_version();
}

} // namespace kael
