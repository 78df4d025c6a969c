// matmul, matmul_add, transpose, vector_matrix, add_halves, matmul_rows: documented order of
// operations, to the bit, and no access outside what they are given.
#include <array>
#include <memory>
#include <utility>

#include "kernels/kernel_test.h"

namespace kael::kernels {

namespace {

class Products : public KernelTest {
protected:
    struct Shape {
        std::int64_t rows;
        std::int64_t depth;
        std::int64_t width;
    };

    // Shapes around every tile edge, then random ones.
    std::vector<Shape> shapes() {
        std::vector<Shape> result = {{1, 1, 1},   {1, 2, 48},  {2, 3, 49},    {8, 16, 96},
                                     {9, 17, 47}, {7, 64, 50}, {16, 31, 100}, {33, 40, 144},
                                     {15, 5, 48}, {16, 1, 3},  {17, 255, 97}};
        for (int i = 0; i < 40; ++i) {
            result.push_back({integer(1, 40), integer(1, 70), integer(1, 150)});
        }
        return result;
    }

    // Random numbers whose rows, or whose columns, have no gaps.
    class GuardedMatrix {
    public:
        GuardedMatrix(Products& test, std::int64_t rows, std::int64_t columns) : rows_(rows) {
            const bool in_rows = test.integer(0, 1) == 0;
            const std::int64_t stride = (in_rows ? columns : rows) + test.integer(0, 3);
            row_stride_ = in_rows ? stride : 1;
            column_stride_ = in_rows ? 1 : stride;
            values_ = test.random((rows - 1) * row_stride_ + (columns - 1) * column_stride_ + 1);
        }
        [[nodiscard]] Matrix matrix() const {
            return {values_->data(), row_stride_, column_stride_};
        }
        [[nodiscard]] std::vector<float> column(std::int64_t column) const {
            std::vector<float> result;
            for (std::int64_t row = 0; row < rows_; ++row) {
                result.push_back(values_->data()[row * row_stride_ + column * column_stride_]);
            }
            return result;
        }

    private:
        std::int64_t rows_;
        std::int64_t row_stride_;
        std::int64_t column_stride_;
        std::unique_ptr<GuardedFloats> values_;
    };

    // Two ranges of columns that make [0, width), the second one first.
    std::array<std::pair<std::int64_t, std::int64_t>, 2> ranges_of_panels(std::int64_t width) {
        const std::int64_t panel = kernels().matmul_panel;
        const std::int64_t split = integer(0, (width + panel - 1) / panel - 1) * panel;
        return {std::pair{split, width}, std::pair{std::int64_t{0}, split}};
    }
};

TEST_P(Products, MatmulIsTwoChainsPerOutput) {
    for (const Shape& shape : shapes()) {
        SCOPED_TRACE(::testing::Message()
                     << shape.rows << " x " << shape.depth << " x " << shape.width);
        const std::int64_t ldx = shape.depth + integer(0, 3);
        const auto x = random((shape.rows - 1) * ldx + shape.depth);
        const GuardedMatrix w(*this, shape.depth, shape.width);
        const std::int64_t ldy = shape.width + integer(0, 3);
        const auto bias = random(shape.width);
        const auto y = random((shape.rows - 1) * ldy + shape.width);
        const float* bias_or_null = integer(0, 3) == 0 ? nullptr : bias->data();
        GuardedFloats scratch(kernels().matmul_scratch(shape.depth));

        std::vector<float> expected(y->data(),
                                    y->data() + y->size()); // what lies between rows stays
        for (std::int64_t m = 0; m < shape.rows; ++m) {
            for (std::int64_t n = 0; n < shape.width; ++n) {
                expected[static_cast<std::size_t>(m * ldy + n)] =
                    arithmetic().linear(x->data() + m * ldx, w.column(n).data(), 1, shape.depth,
                                        bias_or_null == nullptr ? nullptr : bias_or_null + n);
            }
        }
        for (const auto& [n0, n1] : ranges_of_panels(shape.width)) {
            kernels().matmul(x->data(), ldx, shape.rows, w.matrix(), shape.depth, bias_or_null, n0,
                             n1, y->data(), ldy, scratch.data());
        }
        ASSERT_TRUE(same_bits(y->data(), expected.data(), y->size()));
    }
}

// So many that a few rows have their sums in several strips.
TEST_P(Products, ManyColumnsOfAFewRowsAreTheSameChains) {
    for (const Shape& shape : {Shape{1, 9, 16'500}, Shape{3, 9, 5'600}, Shape{10, 9, 1'700}}) {
        SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.width);
        const auto x = random(shape.rows * shape.depth);
        const auto w = random(shape.depth * shape.width);
        const auto bias = random(shape.width);
        const auto y = random(shape.rows * shape.width);
        const Matrix matrix = {w->data(), shape.width, 1};
        GuardedFloats scratch(kernels().matmul_scratch(shape.depth));
        std::vector<float> expected;
        std::vector<float> continued;
        for (std::int64_t m = 0; m < shape.rows; ++m) {
            const float* const row = x->data() + m * shape.depth;
            for (std::int64_t n = 0; n < shape.width; ++n) {
                const float* const column = w->data() + n;
                const float sum =
                    arithmetic().linear(row, column, shape.width, shape.depth, bias->data() + n);
                expected.push_back(sum);
                const std::int64_t middle = shape.depth / 2;
                continued.push_back(
                    sum + arithmetic().chain(row, column, shape.width, 0, middle) +
                    arithmetic().chain(row, column, shape.width, middle, shape.depth));
            }
        }
        kernels().matmul(x->data(), shape.depth, shape.rows, matrix, shape.depth, bias->data(), 0,
                         shape.width, y->data(), shape.width, scratch.data());
        ASSERT_TRUE(same_bits(y->data(), expected.data(), y->size()));
        kernels().matmul_add(x->data(), shape.depth, shape.rows, matrix, shape.depth, 0,
                             shape.width, y->data(), shape.width, scratch.data());
        ASSERT_TRUE(same_bits(y->data(), continued.data(), y->size()));
    }
}

TEST_P(Products, MatmulAddContinuesASum) {
    for (const Shape& shape : shapes()) {
        SCOPED_TRACE(::testing::Message()
                     << shape.rows << " x " << shape.depth << " x " << shape.width);
        const std::int64_t ldx = shape.depth + integer(0, 3);
        const auto x = random((shape.rows - 1) * ldx + shape.depth);
        const GuardedMatrix w(*this, shape.depth, shape.width);
        const std::int64_t ldy = shape.width + integer(0, 3);
        const auto y = random((shape.rows - 1) * ldy + shape.width);
        GuardedFloats scratch(kernels().matmul_scratch(shape.depth));

        std::vector<float> expected(y->data(), y->data() + y->size());
        const std::int64_t middle = shape.depth / 2;
        for (std::int64_t m = 0; m < shape.rows; ++m) {
            for (std::int64_t n = 0; n < shape.width; ++n) {
                float& sum = expected[static_cast<std::size_t>(m * ldy + n)];
                sum += arithmetic().chain(x->data() + m * ldx, w.column(n).data(), 1, 0, middle);
                sum += arithmetic().chain(x->data() + m * ldx, w.column(n).data(), 1, middle,
                                          shape.depth);
            }
        }
        for (const auto& [n0, n1] : ranges_of_panels(shape.width)) {
            kernels().matmul_add(x->data(), ldx, shape.rows, w.matrix(), shape.depth, n0, n1,
                                 y->data(), ldy, scratch.data());
        }
        ASSERT_TRUE(same_bits(y->data(), expected.data(), y->size()));
    }
}

TEST_P(Products, TransposeMovesEveryElement) {
    for (const Shape& shape : shapes()) {
        SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.width);
        const std::int64_t ldx = shape.width + integer(0, 3);
        const std::int64_t ldo = shape.rows + integer(0, 3);
        const auto x = random((shape.rows - 1) * ldx + shape.width);
        const auto out = random((shape.width - 1) * ldo + shape.rows);
        std::vector<float> expected(out->data(), out->data() + out->size());
        for (std::int64_t i = 0; i < shape.rows; ++i) {
            for (std::int64_t j = 0; j < shape.width; ++j) {
                expected[static_cast<std::size_t>(j * ldo + i)] = (*x)[i * ldx + j];
            }
        }
        kernels().transpose(x->data(), ldx, shape.rows, shape.width, out->data(), ldo);
        ASSERT_TRUE(same_bits(out->data(), expected.data(), out->size()));
    }
}

TEST_P(Products, VectorMatrixHalvesMakeTheSameRow) {
    for (const Shape& shape : shapes()) {
        SCOPED_TRACE(::testing::Message() << shape.depth << " x " << shape.width);
        const std::int64_t ldw = shape.width + integer(0, 3);
        const auto x = random(shape.depth);
        const auto w = random((shape.depth - 1) * ldw + shape.width);
        const auto bias = random(shape.width);
        const auto first = random(shape.width);
        const auto second = random(shape.width);
        const auto y = random(shape.width);
        const float* bias_or_null = integer(0, 3) == 0 ? nullptr : bias->data();
        std::vector<float> expected;
        for (std::int64_t n = 0; n < shape.width; ++n) {
            expected.push_back(
                arithmetic().linear(x->data(), w->data() + n, ldw, shape.depth,
                                    bias_or_null == nullptr ? nullptr : bias_or_null + n));
        }
        const std::int64_t split = integer(0, shape.width);
        const std::int64_t middle = shape.depth / 2;
        for (const auto& [n0, n1] :
             {std::pair{split, shape.width}, std::pair{std::int64_t{0}, split}}) {
            kernels().vector_matrix(x->data(), w->data(), ldw, 0, middle, n0, n1, first->data());
            kernels().vector_matrix(x->data(), w->data(), ldw, middle, shape.depth, n0, n1,
                                    second->data());
        }
        kernels().add_halves(first->data(), second->data(), bias_or_null, shape.width, y->data());
        ASSERT_TRUE(same_bits(y->data(), expected.data(), shape.width));
    }
}

TEST_P(Products, VectorMatrixWritesOnlyItsColumns) {
    const std::int64_t depth = 20;
    const std::int64_t width = 60;
    const auto x = random(depth);
    const auto w = random(depth * width);
    const auto y = random(width);
    std::vector<float> expected(y->data(), y->data() + width);
    for (std::int64_t n = 7; n < 41; ++n) {
        expected[static_cast<std::size_t>(n)] =
            arithmetic().chain(x->data(), w->data() + n, width, 3, 18);
    }
    kernels().vector_matrix(x->data(), w->data(), width, 3, 18, 7, 41, y->data());
    EXPECT_TRUE(same_bits(y->data(), expected.data(), width));
}

TEST_P(Products, RowsAreSixteenLanesAddedInHalves) {
    for (const Shape& shape : shapes()) {
        SCOPED_TRACE(::testing::Message()
                     << shape.rows << " x " << shape.depth << " x " << shape.width);
        const std::int64_t ldx = shape.depth + integer(0, 3);
        const std::int64_t ldo = shape.width + integer(0, 3);
        const auto x = random((shape.rows - 1) * ldx + shape.depth);
        const auto table = random(shape.width * shape.depth);
        const auto out = random((shape.rows - 1) * ldo + shape.width);
        std::vector<float> expected(out->data(), out->data() + out->size());
        for (std::int64_t m = 0; m < shape.rows; ++m) {
            for (std::int64_t v = 0; v < shape.width; ++v) {
                expected[static_cast<std::size_t>(m * ldo + v)] = arithmetic().dot_in_lanes(
                    x->data() + m * ldx, table->data() + v * shape.depth, shape.depth);
            }
        }
        const std::int64_t split = integer(0, shape.width);
        for (const auto& [v0, v1] :
             {std::pair{split, shape.width}, std::pair{std::int64_t{0}, split}}) {
            kernels().matmul_rows(x->data(), ldx, shape.rows, table->data(), shape.depth, v0, v1,
                                  out->data(), ldo);
        }
        ASSERT_TRUE(same_bits(out->data(), expected.data(), out->size()));

        std::vector<float> row(static_cast<std::size_t>(shape.width));
        kernels().matmul_rows(x->data(), ldx, 1, table->data(), shape.depth, 0, shape.width,
                              row.data(), ldo);
        ASSERT_TRUE(same_bits(row.data(), expected.data(), shape.width));
    }
}

TEST_P(Products, LargeSumsAgreeWithDouble) {
    const std::int64_t depth = 768;
    const std::int64_t width = 96;
    const auto x = random(depth);
    const auto w = random(depth * width);
    std::vector<float> y(static_cast<std::size_t>(width));
    GuardedFloats scratch(kernels().matmul_scratch(depth));
    kernels().matmul(x->data(), depth, 1, {w->data(), width, 1}, depth, nullptr, 0, width, y.data(),
                     width, scratch.data());
    for (std::int64_t n = 0; n < width; ++n) {
        double sum = 0.0;
        double size = 0.0;
        for (std::int64_t k = 0; k < depth; ++k) {
            const double product =
                static_cast<double>((*x)[k]) * static_cast<double>((*w)[k * width + n]);
            sum += product;
            size += std::abs(product);
        }
        EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(n)]), sum, 2e-6 * size);
    }
}

KAEL_FOR_EVERY_TABLE(Products);

} // namespace

} // namespace kael::kernels
