#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kael/error.h"

#include "run.h"

namespace kael::fuzz {

namespace {

// The index of the same element, counted in row-major order.
Index same_element(const Shape& from, const Index& index, const Shape& to) {
    auto rest = static_cast<std::int64_t>(position(from, index));
    Index own(to.size());
    for (std::size_t d = to.size(); d-- > 0;) {
        own[d] = rest % to[d];
        rest /= to[d];
    }
    return own;
}

} // namespace

void Run::rearrange() {
    const Tracked x = any();
    const auto rank = static_cast<std::size_t>(x.tensor.rank());
    if (input_.rarely(2)) {
        Verdict verdict = Verdict::right;
        const int first = dimension(x.tensor, verdict);
        const int second = dimension(x.tensor, verdict);
        check_views("transpose", x, {std::int64_t{first}, std::int64_t{second}}, verdict, [&] {
            const auto swapped = [&](Index index) {
                if (rank > 0) {
                    std::swap(index[static_cast<std::size_t>(first + x.tensor.rank()) % rank],
                              index[static_cast<std::size_t>(second + x.tensor.rank()) % rank]);
                }
                return index;
            };
            return std::vector<ExpectedView>{{swapped(x.shape()), swapped}};
        });
        return;
    }
    Shape order(rank);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (std::size_t i = 0; i < rank; ++i) {
        std::swap(order[i], order[input_.below(rank)]);
    }
    const bool is_wrong = rank > 1 && input_.rarely(16);
    if (is_wrong) {
        order[0] = order[1];
    }
    check_views("permute", x, {order}, right_if(!is_wrong), [&] {
        Shape shape;
        for (const std::int64_t d : order) {
            shape.push_back(x.shape()[static_cast<std::size_t>(d)]);
        }
        return std::vector<ExpectedView>{{shape, [&](const Index& index) {
                                              Index own(rank);
                                              for (std::size_t d = 0; d < rank; ++d) {
                                                  own[static_cast<std::size_t>(order[d])] =
                                                      index[d];
                                              }
                                              return own;
                                          }}};
    });
}

void Run::slice() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    const std::int64_t size = verdict == Verdict::right ? x.tensor.size(dimension) : 0;
    const std::int64_t start = around(size);
    if (input_.rarely(2)) {
        const std::int64_t length = around(size);
        const std::int64_t first = start < 0 ? start + size : start;
        if (verdict == Verdict::right) {
            verdict =
                right_if(first >= 0 && first <= size && length >= 0 && length <= size - first);
        }
        check_views("narrow", x, {std::int64_t{dimension}, start, length}, verdict, [&] {
            Shape shape = x.shape();
            const std::size_t d = wrap(dimension, x.tensor);
            shape[d] = length;
            return std::vector<ExpectedView>{{shape, [=](Index index) {
                                                  index[d] += first;
                                                  return index;
                                              }}};
        });
        return;
    }
    const std::int64_t end = around(size);
    const std::int64_t step = input_.rarely(16) ? input_.one_of(kExtremes)
                                                : 1 + static_cast<std::int64_t>(input_.below(3));
    if (verdict == Verdict::right) {
        verdict = right_if(step >= 1);
    }
    check_views("slice", x, {std::int64_t{dimension}, start, end, step}, verdict, [&] {
        std::vector<std::int64_t> taken;
        const auto bounded = [&](std::int64_t i) {
            return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
        };
        for (std::int64_t i = 0; i < size; ++i) {
            if (i >= bounded(start) && i < bounded(end) && (i - bounded(start)) % step == 0) {
                taken.push_back(i);
            }
        }
        Shape shape = x.shape();
        const std::size_t d = wrap(dimension, x.tensor);
        shape[d] = static_cast<std::int64_t>(taken.size());
        return std::vector<ExpectedView>{{shape, [=](Index index) {
                                              index[d] = taken[static_cast<std::size_t>(index[d])];
                                              return index;
                                          }}};
    });
}

void Run::pick() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    const std::int64_t size = verdict == Verdict::right ? x.tensor.size(dimension) : 0;
    const std::int64_t index = around(size);
    verdict = verdict == Verdict::right ? right_if(index >= -size && index < size) : Verdict::wrong;
    check_views("select", x, {std::int64_t{dimension}, index}, verdict, [&] {
        Shape shape = x.shape();
        const auto d = static_cast<std::ptrdiff_t>(wrap(dimension, x.tensor));
        shape.erase(shape.begin() + d);
        return std::vector<ExpectedView>{{shape, [=](Index own) {
                                              own.insert(own.begin() + d,
                                                         index < 0 ? index + size : index);
                                              return own;
                                          }}};
    });
}

void Run::resize() {
    const Tracked x = any();
    const int rank = x.tensor.rank();
    switch (input_.below(3)) {
    case 0: {
        const int place =
            static_cast<int>(input_.below(static_cast<std::size_t>(2 * rank + 4))) - rank - 2;
        check_views("unsqueeze", x, {std::int64_t{place}},
                    right_if(place >= -rank - 1 && place <= rank), [&] {
                        const std::ptrdiff_t d = place < 0 ? place + rank + 1 : place;
                        Shape shape = x.shape();
                        shape.insert(shape.begin() + d, 1);
                        return std::vector<ExpectedView>{{shape, [=](Index index) {
                                                              index.erase(index.begin() + d);
                                                              return index;
                                                          }}};
                    });
        break;
    }
    case 1: {
        Verdict verdict = Verdict::right;
        const bool all = input_.rarely(3);
        const int dimension = all ? 0 : this->dimension(x.tensor, verdict);
        std::vector<Argument> arguments;
        if (!all) {
            arguments.emplace_back(Shape{dimension});
        }
        check_views("squeeze", x, std::move(arguments), verdict, [&] {
            std::vector<bool> gone(static_cast<std::size_t>(rank));
            Shape shape;
            for (std::size_t d = 0; d < gone.size(); ++d) {
                gone[d] = x.shape()[d] == 1 && (all || d == wrap(dimension, x.tensor));
                shape.insert(shape.end(), gone[d] ? 0 : 1, x.shape()[d]);
            }
            return std::vector<ExpectedView>{{shape, [=](Index index) {
                                                  Index own;
                                                  auto next = index.begin();
                                                  for (const bool is_gone : gone) {
                                                      own.push_back(is_gone ? 0 : *next++);
                                                  }
                                                  return own;
                                              }}};
        });
        break;
    }
    default: {
        Shape shape(input_.below(2));
        Shape wanted(shape.size());
        std::ranges::generate(wanted,
                              [this] { return static_cast<std::int64_t>(input_.below(4)); });
        shape = wanted;
        bool fits = true;
        for (const std::int64_t size : x.shape()) {
            const bool changes = size == 1 || input_.rarely(32);
            const std::int64_t other = changes ? static_cast<std::int64_t>(input_.below(4)) : size;
            fits = fits && (size == 1 || other == size);
            const bool keeps = other == size && input_.rarely(4);
            wanted.push_back(keeps ? -1 : other);
            shape.push_back(other);
        }
        check_views("expand", x, {wanted}, right_if(fits), [&] {
            return std::vector<ExpectedView>{
                {shape, [&x](const Index& index) {
                     Index own(index.end() - static_cast<std::ptrdiff_t>(x.shape().size()),
                               index.end());
                     for (std::size_t d = 0; d < own.size(); ++d) {
                         own[d] = x.shape()[d] == 1 ? 0 : own[d];
                     }
                     return own;
                 }}};
        });
        break;
    }
    }
}

void Run::reshape() {
    const Tracked x = any();
    const std::int64_t count = x.tensor.numel();
    Shape shape = {count};
    for (std::size_t i = input_.below(4); i > 0; --i) { // splits off a factor
        const std::size_t d = input_.below(shape.size());
        const auto factor = 1 + static_cast<std::int64_t>(input_.below(4));
        if (shape[d] % factor == 0) {
            shape[d] /= factor;
            shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), factor);
        }
    }
    Verdict verdict = Verdict::right;
    Shape wanted = shape;
    if (input_.rarely(4)) {
        const std::size_t unknown = input_.below(shape.size());
        wanted[unknown] = -1;
        const std::int64_t others =
            std::accumulate(wanted.begin(), wanted.end(), std::int64_t{-1}, std::multiplies<>());
        verdict = right_if(others != 0);
    } else if (input_.rarely(16)) {
        wanted[0] = input_.one_of<std::int64_t>({wanted[0] + 1, -2, kExtremes[0], kExtremes[1]});
        const bool is_empty = std::find(wanted.begin(), wanted.end(), 0) != wanted.end();
        verdict = is_empty && count == 0 ? Verdict::open : Verdict::wrong;
        shape = wanted;
    }
    const auto reference = [&] {
        return std::vector<ExpectedView>{
            {shape, [&](const Index& index) { return same_element(shape, index, x.shape()); }}};
    };
    if (input_.rarely(3)) { // a view, or an error where there is none
        try {
            const Tensor viewed = x.tensor.view(wanted);
            require(verdict != Verdict::wrong && viewed.storage() == x.tensor.storage());
            accept_views(x, {viewed}, reference(), false);
        } catch (const kael::Error&) {
            require(verdict != Verdict::right || !x.tensor.is_contiguous());
        }
        return;
    }
    check_views("reshape", x, {wanted}, verdict, reference, true);
}

void Run::divide() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    if (input_.rarely(3)) {
        const int first = dimension(x.tensor, verdict);
        const int last = dimension(x.tensor, verdict);
        if (verdict == Verdict::right && wrap(first, x.tensor) > wrap(last, x.tensor)) {
            verdict = Verdict::wrong;
        }
        check_views(
            "flatten", x, {std::int64_t{first}, std::int64_t{last}}, verdict,
            [&] {
                Shape shape;
                for (std::size_t d = 0; d < x.shape().size(); ++d) {
                    if (d > wrap(first, x.tensor) && d <= wrap(last, x.tensor)) {
                        shape.back() *= x.shape()[d];
                    } else {
                        shape.push_back(x.shape()[d]);
                    }
                }
                shape = x.tensor.rank() == 0 ? Shape{1} : shape;
                return std::vector<ExpectedView>{{shape, [&x, shape](const Index& index) {
                                                      return same_element(shape, index, x.shape());
                                                  }}};
            },
            true);
        return;
    }
    const int dimension = this->dimension(x.tensor, verdict);
    verdict = verdict == Verdict::open ? Verdict::wrong : verdict;
    const std::int64_t size = verdict == Verdict::right ? x.tensor.size(dimension) : 0;
    Shape sizes;
    std::vector<Argument> arguments;
    const bool chunks = input_.rarely(2);
    if (chunks) {
        const std::int64_t count = input_.rarely(16) ? input_.one_of(kExtremes)
                                                     : static_cast<std::int64_t>(input_.below(5));
        arguments = {count};
        verdict = verdict == Verdict::right ? right_if(count >= 1) : verdict;
        if (verdict == Verdict::right) {
            const std::int64_t part = size / count + (size % count != 0 ? 1 : 0);
            for (std::int64_t left = size; left > 0; left -= part) {
                sizes.push_back(std::min(part, left));
            }
            sizes.resize(std::max<std::size_t>(sizes.size(), 1), 0);
        }
    } else {
        std::int64_t left = size;
        for (std::size_t i = input_.below(4); i > 0; --i) {
            sizes.push_back(std::min(left, static_cast<std::int64_t>(input_.below(4))));
            left -= sizes.back();
        }
        sizes.push_back(left);
        if (input_.rarely(16)) {
            sizes.push_back(input_.one_of<std::int64_t>({1, -1, kExtremes[0], kExtremes[1]}));
            verdict = Verdict::wrong;
        }
        arguments = {sizes};
    }
    arguments.emplace_back(std::int64_t{dimension});
    check_views(chunks ? "chunk" : "split", x, std::move(arguments), verdict, [&] {
        std::vector<ExpectedView> parts;
        const std::size_t d = wrap(dimension, x.tensor);
        std::int64_t start = 0;
        for (const std::int64_t part : sizes) {
            Shape shape = x.shape();
            shape[d] = part;
            parts.push_back({shape, [=](Index index) {
                                 index[d] += start;
                                 return index;
                             }});
            start += part;
        }
        return parts;
    });
}

void Run::diagonal() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int first = dimension(x.tensor, verdict);
    const int second = dimension(x.tensor, verdict);
    verdict = verdict == Verdict::open ? Verdict::wrong : verdict;
    std::int64_t offset = 0;
    if (verdict == Verdict::right) {
        const std::int64_t rows = x.tensor.size(first);
        const std::int64_t columns = x.tensor.size(second);
        offset = around(std::max(rows, columns));
        verdict = right_if(wrap(first, x.tensor) != wrap(second, x.tensor) && offset >= -rows &&
                           offset <= columns);
    }
    check_views("diagonal", x, {offset, std::int64_t{first}, std::int64_t{second}}, verdict, [&] {
        const std::size_t a = wrap(first, x.tensor);
        const std::size_t b = wrap(second, x.tensor);
        Shape shape;
        for (std::size_t d = 0; d < x.shape().size(); ++d) {
            shape.insert(shape.end(), d == a || d == b ? 0 : 1, x.shape()[d]);
        }
        std::int64_t length = 0;
        for (std::int64_t row = 0; row < x.shape()[a]; ++row) {
            length += row + offset >= 0 && row + offset < x.shape()[b] ? 1 : 0;
        }
        shape.push_back(length);
        return std::vector<ExpectedView>{
            {shape, [=](const Index& index) {
                 Index own;
                 auto next = index.begin();
                 const std::int64_t row = index.back() + std::max<std::int64_t>(-offset, 0);
                 for (std::size_t d = 0; d < index.size() + 1; ++d) {
                     own.push_back(d == a ? row : d == b ? row + offset : *next++);
                 }
                 return own;
             }}};
    });
}

} // namespace kael::fuzz
