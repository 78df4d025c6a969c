// Views against a model that knows no strides: an array of element numbers in row-major order, from
// which every view is copied out index by index.
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/tensor.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

Tensor iota(const Shape& shape) {
    Tensor tensor = Tensor::empty(shape, DType::int32);
    std::iota(tensor.mutable_data<std::int32_t>(),
              tensor.mutable_data<std::int32_t>() + tensor.numel(), 0);
    return tensor;
}

std::vector<std::int32_t> values(const Tensor& tensor) {
    const Tensor copy = tensor.contiguous();
    return {copy.data<std::int32_t>(), copy.data<std::int32_t>() + copy.numel()};
}

struct Model {
    Shape shape;
    std::vector<std::int32_t> elements;

    // The element at `index`, by Horner's rule.
    [[nodiscard]] std::int32_t at(const Shape& index) const {
        std::int64_t position = 0;
        for (std::size_t i = 0; i < shape.size(); ++i) {
            position = position * shape[i] + index[i];
        }
        return elements[static_cast<std::size_t>(position)];
    }

    // A model of `target` whose element at an index is this one's at source(index).
    [[nodiscard]] Model derive(const Shape& target,
                               const std::function<Shape(const Shape&)>& source) const {
        Model result{target, {}};
        const std::int64_t count =
            std::accumulate(target.begin(), target.end(), std::int64_t{1}, std::multiplies<>());
        for (std::int64_t n = 0; n < count; ++n) {
            Shape index(target.size());
            std::int64_t rest = n;
            for (std::size_t i = target.size(); i-- > 0;) {
                index[i] = rest % target[i];
                rest /= target[i];
            }
            result.elements.push_back(at(source(index)));
        }
        return result;
    }
};

class RandomView {
public:
    explicit RandomView(unsigned seed) : random_(seed) {
        const int rank = draw(0, 4);
        Shape shape;
        for (int i = 0; i < rank; ++i) {
            shape.push_back(draw(0, 9) == 0 ? 0 : draw(1, 4));
        }
        tensor_ = iota(shape);
        storage_ = tensor_.storage();
        model_ = {shape, values(tensor_)};
    }

    void step() {
        switch (draw(0, 7)) {
        case 0:
            return transpose();
        case 1:
            return permute();
        case 2:
            return slice();
        case 3:
            return select();
        case 4:
            return unsqueeze();
        case 5:
            return squeeze();
        case 6:
            return expand();
        default:
            return reshape();
        }
    }

    void check() const {
        SCOPED_TRACE(history_);
        ASSERT_EQ(tensor_.shape(), model_.shape);
        ASSERT_EQ(tensor_.numel(), static_cast<std::int64_t>(model_.elements.size()));
        ASSERT_EQ(values(tensor_), model_.elements);
        ASSERT_EQ(tensor_.storage(), storage_);
        // What the library derives must pass its own check of foreign views.
        ASSERT_NO_THROW(static_cast<void>(Tensor::from_storage(tensor_.storage(), tensor_.dtype(),
                                                               tensor_.shape(), tensor_.strides(),
                                                               tensor_.offset())));
        if (tensor_.is_contiguous() && tensor_.numel() > 0) {
            const auto* data = tensor_.data<std::int32_t>();
            ASSERT_EQ(std::vector<std::int32_t>(data, data + tensor_.numel()), model_.elements);
        }
    }

private:
    int draw(int least, int most) {
        return least + static_cast<int>(random_() % static_cast<unsigned>(most - least + 1));
    }
    [[nodiscard]] int rank() const { return tensor_.rank(); }
    // A dimension, half of the time counted from the end.
    int draw_dimension(int ranks) { return draw(-ranks, ranks - 1); }
    [[nodiscard]] static std::size_t wrap(int dimension, int ranks) {
        return static_cast<std::size_t>(dimension < 0 ? dimension + ranks : dimension);
    }

    void transpose() {
        if (rank() == 0) {
            return;
        }
        const int first = draw_dimension(rank());
        const int second = draw_dimension(rank());
        const std::size_t a = wrap(first, rank());
        const std::size_t b = wrap(second, rank());
        tensor_ = tensor_.transpose(first, second);
        Shape shape = model_.shape;
        std::swap(shape[a], shape[b]);
        model_ = model_.derive(shape, [&](Shape index) {
            std::swap(index[a], index[b]);
            return index;
        });
        history_ += " transpose";
    }

    void permute() {
        std::vector<int> order(static_cast<std::size_t>(rank()));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        tensor_ = tensor_.permute(order);
        Shape shape;
        for (const int dimension : order) {
            shape.push_back(model_.shape[static_cast<std::size_t>(dimension)]);
        }
        model_ = model_.derive(shape, [&](const Shape& index) {
            Shape source(index.size());
            for (std::size_t i = 0; i < index.size(); ++i) {
                source[static_cast<std::size_t>(order[i])] = index[i];
            }
            return source;
        });
        history_ += " permute";
    }

    void slice() {
        if (rank() == 0) {
            return;
        }
        const int dimension = draw_dimension(rank());
        const std::size_t at = wrap(dimension, rank());
        const int start = draw(-6, 6);
        const int end = draw(-6, 6);
        const int step = draw(1, 5);
        tensor_ = tensor_.slice(dimension, start, end, step);
        std::vector<std::int64_t> taken;
        const int size = static_cast<int>(model_.shape[at]);
        for (int i = 0; i < size; ++i) { // Python's rule, in words
            const int first = start < 0 ? std::max(start + size, 0) : start;
            const int last = end < 0 ? end + size : end;
            if (i >= first && i < last && (i - first) % step == 0) {
                taken.push_back(i);
            }
        }
        Shape shape = model_.shape;
        shape[at] = static_cast<std::int64_t>(taken.size());
        model_ = model_.derive(shape, [&](Shape index) {
            index[at] = taken[static_cast<std::size_t>(index[at])];
            return index;
        });
        history_ += " slice";
    }

    void select() {
        if (rank() == 0) {
            return;
        }
        const int dimension = draw_dimension(rank());
        const std::size_t at = wrap(dimension, rank());
        const int size = static_cast<int>(model_.shape[at]);
        if (size == 0) {
            return;
        }
        const int index = draw_dimension(size);
        tensor_ = tensor_.select(dimension, index);
        Shape shape = model_.shape;
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
        model_ = model_.derive(shape, [&](Shape position) {
            position.insert(position.begin() + static_cast<std::ptrdiff_t>(at),
                            static_cast<std::int64_t>(wrap(index, size)));
            return position;
        });
        history_ += " select";
    }

    void unsqueeze() {
        const int dimension = draw_dimension(rank() + 1);
        const auto at = static_cast<std::ptrdiff_t>(wrap(dimension, rank() + 1));
        tensor_ = tensor_.unsqueeze(dimension);
        model_.shape.insert(model_.shape.begin() + at, 1);
        history_ += " unsqueeze";
    }

    void squeeze() {
        if (rank() == 0) {
            return;
        }
        const int dimension = draw_dimension(rank());
        const std::size_t at = wrap(dimension, rank());
        tensor_ = tensor_.squeeze(dimension);
        if (model_.shape[at] == 1) {
            model_.shape.erase(model_.shape.begin() + static_cast<std::ptrdiff_t>(at));
        }
        history_ += " squeeze";
    }

    void expand() {
        Shape target = model_.shape;
        for (std::int64_t& size : target) {
            size = size == 1 ? draw(0, 3) : size;
        }
        const int added = draw(0, 1);
        target.insert(target.begin(), static_cast<std::size_t>(added), 2);
        Shape asked = target;
        for (std::size_t i = static_cast<std::size_t>(added); i < asked.size(); ++i) {
            const bool kept = asked[i] == model_.shape[i - static_cast<std::size_t>(added)];
            asked[i] = kept && draw(0, 1) == 0 ? -1 : asked[i];
        }
        tensor_ = tensor_.expand(asked);
        const Shape old = model_.shape;
        model_ = model_.derive(target, [&](const Shape& index) {
            Shape source(index.begin() + added, index.end());
            for (std::size_t i = 0; i < source.size(); ++i) {
                source[i] = old[i] == 1 ? 0 : source[i];
            }
            return source;
        });
        history_ += " expand";
    }

    void reshape() {
        Shape target;
        std::int64_t rest = tensor_.numel();
        for (std::int64_t factor = 2; rest > 1; ++factor) {
            while (rest % factor == 0 && rest > 1) {
                const bool merge = !target.empty() && draw(0, 1) == 0;
                merge ? target.back() *= factor : (target.push_back(factor), factor);
                rest /= factor;
            }
        }
        if (tensor_.numel() == 0) {
            target = {draw(0, 3), 0};
        }
        std::shuffle(target.begin(), target.end(), random_);
        Shape asked = target;
        if (!asked.empty() && tensor_.numel() != 0) {
            asked[static_cast<std::size_t>(draw(0, static_cast<int>(asked.size()) - 1))] = -1;
        }
        model_.shape = target;
        try {
            tensor_ = tensor_.view(asked);
            history_ += " view";
        } catch (const kael::Error&) {
            tensor_ = tensor_.reshape(asked); // which has to copy
            EXPECT_NE(tensor_.storage(), storage_);
            storage_ = tensor_.storage();
            history_ += " reshape";
        }
    }

    std::mt19937 random_;
    Tensor tensor_;
    std::shared_ptr<kael::Storage> storage_;
    Model model_;
    std::string history_;
};

TEST(Views, RandomChainsOfViewsShowTheElementsThatTheModelShows) {
    for (unsigned seed = 0; seed < 3000; ++seed) {
        RandomView view(seed);
        for (int step = 0; step < 6; ++step) {
            view.step();
            view.check();
            if (testing::Test::HasFatalFailure()) {
                FAIL() << "seed " << seed;
            }
        }
    }
}

TEST(Views, AWriteThroughOneViewIsSeenThroughTheOthers) {
    Tensor tensor = iota({3, 4});
    Tensor column = tensor.select(1, 2);
    Tensor corner = tensor.slice(0, 1, 3).slice(1, 2, 4);
    *column.slice(0, 1, 2).mutable_data<std::int32_t>() = 100;
    EXPECT_EQ(values(corner), (std::vector<std::int32_t>{100, 7, 10, 11}));
    EXPECT_EQ(tensor.storage()->version(), corner.storage()->version());
    tensor.storage()->bump_version();
    EXPECT_EQ(corner.storage()->version(), 1U);
}

TEST(Views, ViewRefusesWhatNeedsACopyAndReshapeMakesIt) {
    const Tensor transposed = iota({2, 3}).transpose(0, 1);
    EXPECT_EQ(message_of([&] { static_cast<void>(transposed.view({6})); }),
              "view: no view of shape [6] of a tensor of shape [3, 2] and strides [1, 3], expected "
              "a shape that they allow: use reshape, which copies");
    EXPECT_EQ(values(transposed.reshape({6})), (std::vector<std::int32_t>{0, 3, 1, 4, 2, 5}));
    // Where strides suffice there is no copy, whatever the layout.
    const Tensor sliced = iota({4, 6}).slice(0, 0, 4, 2);
    EXPECT_EQ(sliced.view({2, 2, 3}).storage(), sliced.storage());
    const Tensor expanded = iota({1, 2}).expand({3, 2});
    EXPECT_EQ(expanded.view({3, 1, 2}).strides().front(), 0);
    EXPECT_EQ(values(expanded.reshape({6})), (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1}));
}

TEST(Views, TensorsWithOneRowOrColumnOrNoElementsAreContiguousEitherWay) {
    for (const Shape& shape : {Shape{1, 3}, Shape{3, 1}, Shape{0, 3}}) {
        EXPECT_TRUE(Tensor::zeros(shape, DType::float32).transpose(0, 1).is_contiguous());
    }
    EXPECT_FALSE(iota({2, 3}).transpose(0, 1).is_contiguous());
}

TEST(Views, AMisfitIsAnErrorThatShowsTheShapes) {
    const Tensor tensor = iota({2, 3});
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.size(2)); }),
              "size: dimension 2 of a tensor of shape [2, 3], expected -2 to 1");
    EXPECT_EQ(
        message_of([&] { static_cast<void>(tensor.view({4, 2})); }),
        "view: the shape [4, 2] has 8 elements, expected the 6 of the tensor of shape [2, 3]");
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.view({-1, -1})); }),
              "view: the shape [-1, -1] has more than one -1, expected one at most");
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.view({-1, 4})); }),
              "view: the shape [-1, 4] does not divide the 6 elements of shape [2, 3], expected "
              "sizes that do");
    EXPECT_EQ(
        message_of([&] { static_cast<void>(Tensor::zeros({0, 3}, DType::int8).view({-1, 0})); }),
        "view: the -1 in the shape [-1, 0] could be anything beside a dimension of 0, "
        "expected a size for it");
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.view({-2, -3})); }),
              "the shape [-2, -3] has a negative dimension, expected sizes of 0 or more");
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.select(0, -3)); }),
              "select: index -3 of dimension 0 of a tensor of shape [2, 3], expected -2 to 1");
    EXPECT_EQ(
        message_of([&] { static_cast<void>(Tensor::zeros({0, 3}, DType::int8).select(0, 0)); }),
        "select: index 0 of dimension 0 of a tensor of shape [0, 3], expected one with "
        "elements there");
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.expand({2, 4})); }),
              "expand: cannot expand the shape [2, 3] to [2, 4]: dimension 1 has 3 elements, "
              "expected 1 or "
              "4");
    EXPECT_EQ(message_of([&] { static_cast<void>(iota({}).select(0, 0)); }),
              "select: dimension 0 of a tensor without dimensions, expected one or more");
}

TEST(Views, ArgumentsOutOfRangeAreRefused) {
    const Tensor tensor = iota({2, 3});
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.permute({0})); }),
              "permute: a permutation of 1 dimensions for a tensor of shape [2, 3], expected 2");
    for (const int again : {0, -2}) {
        EXPECT_EQ(message_of([&] { static_cast<void>(tensor.permute({0, again})); }),
                  "permute: dimension " + std::to_string(again) +
                      " twice in a permutation, expected each once");
    }
    EXPECT_THROW(static_cast<void>(tensor.slice(0, 0, 1, 0)), kael::Error);
    EXPECT_THROW(static_cast<void>(tensor.slice(0, 0, 1, -1)), kael::Error);
    EXPECT_EQ(message_of([&] { static_cast<void>(tensor.expand({3})); }),
              "expand: cannot expand the shape [2, 3] to [3]: it has fewer dimensions, expected at "
              "least 2");
    EXPECT_THROW(static_cast<void>(tensor.expand({-1, 2, 3})), kael::Error);
    EXPECT_THROW(static_cast<void>(tensor.unsqueeze(3)), kael::Error);
    EXPECT_EQ(message_of([] { static_cast<void>(iota(Shape(16, 1)).unsqueeze(0)); }),
              "unsqueeze: a new dimension for a tensor that has 16, expected at most 15");
    EXPECT_THROW(static_cast<void>(iota({1}).expand({std::int64_t{1} << 61})), kael::Error)
        << "2^63 bytes of elements do not fit, even though no memory is needed";
}

TEST(Views, SlicesAtTheLimitsOf64BitsDoNotOverflow) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    const Tensor tensor = iota({2, 3});
    EXPECT_EQ(values(tensor.slice(1, kLeast, kMost, kMost)), (std::vector<std::int32_t>{0, 3}));
    EXPECT_EQ(values(tensor.slice(1, kLeast, kMost)), values(tensor));
    EXPECT_EQ(tensor.slice(1, kMost, kMost).numel(), 0);
}

TEST(Views, SlicesOfTheLargestSizeThereIsDoNotOverflow) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const Tensor x = Tensor::zeros({1}, DType::int8).expand({kMost});
    const auto size = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
        return x.slice(0, start, end, step).size(0);
    };
    EXPECT_EQ(size(0, kMost, kMost), 1);
    EXPECT_EQ(size(0, kMost, kMost - 1), 2);
    EXPECT_EQ(size(0, kMost, 2), kMost / 2 + 1);
    EXPECT_EQ(size(0, kMost - 1, 2), kMost / 2);
    EXPECT_EQ(size(1, kMost, 1), kMost - 1);
    EXPECT_EQ(size(kMost - 1, kMost, kMost), 1);
    EXPECT_EQ(size(kMost, kMost, kMost), 0);
}

// Large enough for several threads, whose parts must meet without a gap.
TEST(Views, ALargeTransposedTensorIsCopiedElementByElement) {
    constexpr std::int32_t kRows = 700;
    constexpr std::int32_t kColumns = 900;
    const std::vector<std::int32_t> found = values(iota({kRows, kColumns}).transpose(0, 1));
    for (std::int32_t column = 0; column < kColumns; ++column) {
        for (std::int32_t row = 0; row < kRows; ++row) {
            ASSERT_EQ(found[static_cast<std::size_t>(column * kRows + row)],
                      row * kColumns + column);
        }
    }
}

} // namespace
