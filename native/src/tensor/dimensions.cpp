#include "tensor/dimensions.h"

#include <algorithm>
#include <numeric>

#include "kael/error.h"

#include "tensor/defined.h"

namespace kael {

int wrap_dimension(const Tensor& x, int dimension, const std::string& name) {
    check_defined(x, name);
    const int rank = std::max(x.rank(), 1);
    KAEL_CHECK(dimension >= -rank && dimension < rank,
               name << ": dimension " << dimension << " of a tensor of shape "
                    << to_string(x.shape()) << ", expected " << -rank << " to " << rank - 1);
    return dimension < 0 ? dimension + rank : dimension;
}

std::vector<int> wrap_dimensions(const Tensor& x, const std::vector<int>& dimensions,
                                 const std::string& name) {
    std::vector<int> wrapped;
    wrapped.reserve(dimensions.size());
    for (const int dimension : dimensions) {
        wrapped.push_back(wrap_dimension(x, dimension, name));
    }
    std::sort(wrapped.begin(), wrapped.end());
    const auto twice = std::adjacent_find(wrapped.begin(), wrapped.end());
    KAEL_CHECK(twice == wrapped.end(),
               name << ": dimension " << *twice << " is named twice, expected each once at most");
    if (dimensions.empty()) {
        check_defined(x, name);
        wrapped.resize(static_cast<std::size_t>(x.rank()));
        std::iota(wrapped.begin(), wrapped.end(), 0);
    } else if (x.rank() == 0) {
        wrapped.clear();
    }
    return wrapped;
}

} // namespace kael
