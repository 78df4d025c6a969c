// Packed weights: what they round to, products to the bit or within the bound of their arithmetic,
// the same bits for any number of rows and columns, and no access outside what they are given.
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "kernels/kernel_test.h"

namespace kael::kernels {

namespace {

std::uint16_t nearest_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t below = bits & 0xffff0000u;
    const std::uint32_t rest = bits & 0xffffu;
    const bool up = rest > 0x8000u || (rest == 0x8000u && ((below >> 16) & 1u) != 0);
    return static_cast<std::uint16_t>((below >> 16) + (up ? 1u : 0u));
}

float from_bfloat16(std::uint32_t half) {
    return std::bit_cast<float>(half << 16);
}

// The scale of a group of weights: the smallest bfloat16 that is at least the largest / 127.
float int8_scale(const std::vector<float>& group) {
    float largest = 0;
    for (const float value : group) {
        largest = std::max(largest, std::fabs(value));
    }
    const float exact = largest / 127.0f;
    float scale = from_bfloat16(std::bit_cast<std::uint32_t>(exact) >> 16);
    if (scale < exact) {
        scale = from_bfloat16((std::bit_cast<std::uint32_t>(exact) >> 16) + 1);
    }
    return scale;
}

int int8_weight(float value, float scale) {
    return scale == 0 ? 0 : static_cast<int>(std::nearbyint(value / scale));
}

// What a packed format keeps of one weight: a whole number, and the scale of its group.
struct ScaledWeight {
    int number;
    float scale;
};

struct ScaledGroup {
    std::vector<int> numbers;
    float scale = 0;
};

constexpr std::int64_t kGroup = 64;
constexpr std::int64_t kInt4Group = 32;

// One weight of the documented layout of int4.
ScaledWeight int4_weight(const std::uint8_t* packed, std::int64_t panel_size, std::int64_t k,
                         std::int64_t column) {
    constexpr std::int64_t kGroupSize = kInt4Group * 64 / 2 + 64 * 2;
    const std::uint8_t* group = packed + column / 64 * panel_size + k / kInt4Group * kGroupSize;
    const std::int64_t place = k % kInt4Group;
    const std::uint8_t byte = group[place / 8 * 256 + column % 64 * 4 + place % 4];
    const std::uint8_t* scale = group + kInt4Group * 64 / 2 + column % 64 * 2;
    return {(place % 8 < 4 ? byte & 15 : byte >> 4) - 8,
            from_bfloat16(std::uint32_t{scale[0]} | std::uint32_t{scale[1]} << 8)};
}

class Packed : public KernelTest {
protected:
    struct Memory {
        explicit Memory(std::int64_t bytes)
            : floats((bytes + 3) / 4), data(reinterpret_cast<std::uint8_t*>(floats.data())) {}
        GuardedFloats floats; // a multiple of a cache line, so that it ends with the page
        std::uint8_t* data;
    };

    // Random weights [depth, columns], packed from rows or from columns without gaps, whole or in
    // two parts.
    struct Case {
        std::int64_t depth;
        std::int64_t columns;
        std::vector<float> weights; // [depth, columns]
        std::unique_ptr<Memory> memory;

        [[nodiscard]] PackedMatrix matrix() const { return {memory->data, depth, columns}; }
        [[nodiscard]] float at(std::int64_t k, std::int64_t column) const {
            return weights[static_cast<std::size_t>(k * columns + column)];
        }
        // The group of k in one column, as long as the matrix is deep there.
        [[nodiscard]] std::vector<float> group(std::int64_t k, std::int64_t column) const {
            std::vector<float> result;
            for (std::int64_t i = k / kGroup * kGroup;
                 i < std::min(k / kGroup * kGroup + kGroup, depth); ++i) {
                result.push_back(at(i, column));
            }
            return result;
        }
    };

    Case pack(const PackedKernels& packed, std::int64_t depth, std::int64_t columns) {
        Case result{depth, columns, std::vector<float>(static_cast<std::size_t>(depth * columns)),
                    nullptr};
        fill(result.weights.data(), depth * columns);
        pack_weights(packed, result);
        return result;
    }

    void pack_weights(const PackedKernels& packed, Case& into) {
        const std::int64_t panels = (into.columns + kPackedPanel - 1) / kPackedPanel;
        into.memory = std::make_unique<Memory>(panels * packed.panel_size(into.depth));
        const bool in_rows = integer(0, 1) == 0;
        GuardedFloats source(into.depth * into.columns, integer(0, 1) == 0);
        for (std::int64_t k = 0; k < into.depth; ++k) {
            for (std::int64_t column = 0; column < into.columns; ++column) {
                source[in_rows ? k * into.columns + column : column * into.depth + k] =
                    into.at(k, column);
            }
        }
        const Matrix matrix{source.data(), in_rows ? into.columns : 1, in_rows ? 1 : into.depth};
        GuardedFloats scratch(packed.pack_scratch(into.depth));
        const std::int64_t middle = integer(0, panels) * kPackedPanel;
        if (middle < into.columns) {
            packed.pack(matrix, into.depth, middle, into.columns, into.memory->data,
                        scratch.data());
        }
        packed.pack(matrix, into.depth, 0, std::min(middle, into.columns), into.memory->data,
                    scratch.data());
    }

    // y[rows, columns] of the whole product.
    static std::vector<float> multiply(const PackedKernels& packed, const Case& weights,
                                       const float* x, std::int64_t rows, const float* bias) {
        const std::int64_t size = packed.prepared_size(weights.depth);
        Memory prepared(rows * size);
        for (std::int64_t row = 0; row < rows; ++row) {
            packed.prepare(x + row * weights.depth, weights.depth, prepared.data + row * size);
        }
        GuardedFloats y(rows * weights.columns);
        packed.multiply(prepared.data, rows, weights.matrix(), bias, 0, weights.columns, y.data(),
                        weights.columns);
        return {y.data(), y.data() + y.size()};
    }

    [[nodiscard]] std::vector<const PackedKernels*> formats() const {
        return {&kernels().bfloat16, &kernels().int8, &kernels().int4};
    }

    // Calls check(weights, k, column, unpacked) for every weight, until one fails.
    template <typename Check>
    void check_unpacked(const PackedKernels& packed, std::initializer_list<std::int64_t> depths,
                        std::initializer_list<std::int64_t> widths, Check check) {
        for (const std::int64_t depth : depths) {
            for (const std::int64_t columns : widths) {
                const Case weights = pack(packed, depth, columns);
                GuardedFloats column(depth);
                for (std::int64_t j = 0; j < columns; ++j) {
                    packed.unpack_column(weights.matrix(), j, column.data());
                    for (std::int64_t k = 0; k < depth; ++k) {
                        ASSERT_NO_FATAL_FAILURE(check(weights, k, j, column[k]));
                    }
                }
            }
        }
    }

    // Products of one row, where documented(weights, begin, column) is what a format keeps of the
    // group that begins there: whole numbers are summed in each group, and the groups in order.
    template <typename Documented>
    void check_products_to_the_bit(const PackedKernels& packed, std::int64_t group_size,
                                   Documented documented) {
        for (int round = 0; round < 30; ++round) {
            const std::int64_t depth = integer(1, 300);
            const std::int64_t columns = integer(1, 150);
            const Case weights = pack(packed, depth, columns);
            const auto x = random(depth);
            const auto bias = random(columns);
            const std::vector<float> y = multiply(packed, weights, x->data(), 1, bias->data());
            for (std::int64_t j = 0; j < columns; ++j) {
                float sum = 0;
                for (std::int64_t begin = 0; begin < depth; begin += group_size) {
                    const std::int64_t end = std::min(begin + group_size, depth);
                    float largest = 0;
                    for (std::int64_t k = begin; k < end; ++k) {
                        largest = std::max(largest, std::fabs((*x)[k]));
                    }
                    const auto [numbers, scale] = documented(weights, begin, j);
                    int dot = 0;
                    for (std::int64_t k = begin; k < end; ++k) {
                        dot += static_cast<int>(std::nearbyint((*x)[k] * (127.0f / largest))) *
                               numbers[static_cast<std::size_t>(k - begin)];
                    }
                    sum = arithmetic().fused(static_cast<float>(dot), scale * (largest / 127.0f),
                                             sum);
                }
                const float expected = sum + (*bias)[j];
                ASSERT_TRUE(same_bits(&y[static_cast<std::size_t>(j)], &expected, 1))
                    << depth << " x " << columns << ", column " << j;
            }
        }
    }
};

TEST_P(Packed, Bfloat16WeightsAreTheNearestOnes) {
    check_unpacked(kernels().bfloat16, {1, 2, 7, 64, 97}, {1, 63, 64, 65, 200},
                   [](const Case& weights, std::int64_t k, std::int64_t column, float unpacked) {
                       ASSERT_EQ(unpacked, from_bfloat16(nearest_bfloat16(weights.at(k, column))));
                   });
}

TEST_P(Packed, Int8WeightsAreWholeNumbersOfTheirGroupsScale) {
    check_unpacked(kernels().int8, {1, 3, 64, 65, 200}, {1, 64, 70},
                   [](const Case& weights, std::int64_t k, std::int64_t column, float unpacked) {
                       const float scale = int8_scale(weights.group(k, column));
                       const auto number =
                           static_cast<float>(int8_weight(weights.at(k, column), scale));
                       ASSERT_LE(std::fabs(number), 127);
                       ASSERT_EQ(unpacked, number * scale);
                   });
}

// Groups of zeros alone have a scale of 0, those of very small numbers one that is not normal.
TEST_P(Packed, Int8KeepsGroupsOfZerosAndOfTheSmallestNumbers) {
    Case weights{kGroup, 3, std::vector<float>(kGroup * 3), nullptr};
    for (std::size_t k = 0; k < kGroup; ++k) {
        weights.weights[k * 3 + 1] = k == 5 ? 1e-42f : 0.0f;
        weights.weights[k * 3 + 2] = k == 5 ? -3e38f : 1.0f;
    }
    pack_weights(kernels().int8, weights);
    std::vector<float> column(kGroup);
    kernels().int8.unpack_column(weights.matrix(), 0, column.data());
    EXPECT_EQ(column, std::vector<float>(kGroup));
    kernels().int8.unpack_column(weights.matrix(), 1, column.data());
    EXPECT_NEAR(column[5], 1e-42f, 1e-40f);
    kernels().int8.unpack_column(weights.matrix(), 2, column.data());
    EXPECT_NEAR(column[5] / -3e38f, 1, 0.01);
    EXPECT_EQ(column[6], 0);
}

TEST_P(Packed, Int4WeightsAreWholeNumbersOfTheirGroupsScale) {
    const PackedKernels& int4 = kernels().int4;
    check_unpacked(int4, {1, 3, 32, 33, 200}, {1, 64, 70},
                   [&](const Case& weights, std::int64_t k, std::int64_t column, float unpacked) {
                       const auto [number, scale] = int4_weight(
                           weights.memory->data, int4.panel_size(weights.depth), k, column);
                       ASSERT_EQ(unpacked, static_cast<float>(number) * scale);
                       const float nearest = std::nearbyint(weights.at(k, column) / scale);
                       ASSERT_EQ(static_cast<float>(number), std::clamp(nearest, -8.0f, 7.0f));
                   });
}

// Numbers whose extreme is divided by -8 have an error; the scale of least squares a smaller one.
TEST_P(Packed, Int4ScalesLoseLessThanThoseOfTheExtreme) {
    const std::int64_t depth = 32;
    const std::int64_t columns = 640;
    const Case weights = pack(kernels().int4, depth, columns);
    std::vector<float> column(static_cast<std::size_t>(depth));
    double error = 0;
    double plain_error = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
        kernels().int4.unpack_column(weights.matrix(), j, column.data());
        float extreme = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
            extreme = std::fabs(weights.at(k, j)) > std::fabs(extreme) ? weights.at(k, j) : extreme;
        }
        for (std::int64_t k = 0; k < depth; ++k) {
            const double value = double{weights.at(k, j)};
            const double scale = double{extreme} / -8;
            const double plain = std::clamp(std::nearbyint(value / scale), -8.0, 7.0) * scale;
            plain_error += (plain - value) * (plain - value);
            const double kept = double{column[static_cast<std::size_t>(k)]};
            error += (kept - value) * (kept - value);
        }
    }
    EXPECT_LT(error, 0.97 * plain_error);
    EXPECT_LT(std::sqrt(error / static_cast<double>(depth * columns)), 0.09); // of deviation 1
}

TEST_P(Packed, Int4ProductsAreThoseOfTheDocumentedNumbersToTheBit) {
    const PackedKernels& int4 = kernels().int4;
    check_products_to_the_bit(
        int4, kInt4Group, [&](const Case& weights, std::int64_t begin, std::int64_t column) {
            ScaledGroup result;
            for (std::int64_t k = begin; k < std::min(begin + kInt4Group, weights.depth); ++k) {
                const auto [number, scale] =
                    int4_weight(weights.memory->data, int4.panel_size(weights.depth), k, column);
                result.numbers.push_back(number);
                result.scale = scale;
            }
            return result;
        });
}

TEST_P(Packed, Int8ProductsAreThoseOfTheDocumentedNumbersToTheBit) {
    check_products_to_the_bit(kernels().int8, kGroup,
                              [](const Case& weights, std::int64_t begin, std::int64_t column) {
                                  const std::vector<float> group = weights.group(begin, column);
                                  ScaledGroup result{{}, int8_scale(group)};
                                  for (const float value : group) {
                                      result.numbers.push_back(int8_weight(value, result.scale));
                                  }
                                  return result;
                              });
}

// Every product is rounded at most once, and every sum.
TEST_P(Packed, Bfloat16ProductsAreWithinTheBoundOfTheirSums) {
    for (int round = 0; round < 30; ++round) {
        const std::int64_t depth = integer(1, 300);
        const std::int64_t columns = integer(1, 150);
        const Case weights = pack(kernels().bfloat16, depth, columns);
        const auto x = random(depth);
        for (std::int64_t k = 0; k < depth; ++k) { // exact in bfloat16, whatever x is prepared as
            (*x)[k] = from_bfloat16(nearest_bfloat16((*x)[k]));
        }
        const std::vector<float> y = multiply(kernels().bfloat16, weights, x->data(), 1, nullptr);
        for (std::int64_t j = 0; j < columns; ++j) {
            double exact = 0;
            double magnitude = 0;
            for (std::int64_t k = 0; k < depth; ++k) {
                const double product =
                    double{(*x)[k]} * double{from_bfloat16(nearest_bfloat16(weights.at(k, j)))};
                exact += product;
                magnitude += std::fabs(product);
            }
            const double bound = static_cast<double>(depth + 2) * magnitude * 0x1p-24;
            ASSERT_NEAR(y[static_cast<std::size_t>(j)], exact, bound + 1e-30);
        }
    }
}

TEST_P(Packed, ARowHasTheSameBitsAloneAndAmongOthers) {
    for (const PackedKernels* packed : formats()) {
        for (int round = 0; round < 20; ++round) {
            const std::int64_t depth = integer(1, 200);
            const std::int64_t columns = integer(1, 200);
            const std::int64_t rows = integer(2, 30);
            const Case weights = pack(*packed, depth, columns);
            const auto x = random(rows * depth);
            const auto bias = random(columns);
            const std::vector<float> together =
                multiply(*packed, weights, x->data(), rows, bias->data());
            for (std::int64_t row = 0; row < rows; ++row) {
                const std::vector<float> alone =
                    multiply(*packed, weights, x->data() + row * depth, 1, bias->data());
                ASSERT_TRUE(same_bits(&together[static_cast<std::size_t>(row * columns)],
                                      alone.data(), columns))
                    << "row " << row << " of " << rows;
            }
        }
    }
}

TEST_P(Packed, ARangeOfColumnsIsWrittenAndNothingElse) {
    for (const PackedKernels* packed : formats()) {
        const std::int64_t depth = 70;
        const std::int64_t columns = 200;
        const std::int64_t rows = 9;
        const Case weights = pack(*packed, depth, columns);
        const auto x = random(rows * depth);
        const std::vector<float> whole = multiply(*packed, weights, x->data(), rows, nullptr);
        const std::int64_t size = packed->prepared_size(depth);
        Memory prepared(rows * size);
        for (std::int64_t row = 0; row < rows; ++row) {
            packed->prepare(x->data() + row * depth, depth, prepared.data + row * size);
        }
        std::vector<float> y(static_cast<std::size_t>(rows * columns), 42.0f);
        packed->multiply(prepared.data, rows, weights.matrix(), nullptr, 64, 150, y.data(),
                         columns);
        for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t column = i % static_cast<std::size_t>(columns);
            ASSERT_EQ(y[i], column >= 64 && column < 150 ? whole[i] : 42.0f);
        }
    }
}

// Of the first one, what says that it is no infinity lies in the half that bfloat16 cuts off.
TEST_P(Packed, NoNumberStaysNone) {
    for (const PackedKernels* packed : formats()) {
        for (const std::uint32_t bits : {0x7f800001U, 0xffc00000U}) {
            const auto bad = std::bit_cast<float>(bits);
            Case weights = pack(*packed, 130, 70);
            const auto x = random(130);
            const float kept = std::exchange((*x)[129], bad);
            for (const float value : multiply(*packed, weights, x->data(), 1, nullptr)) {
                ASSERT_TRUE(std::isnan(value));
            }
            (*x)[129] = kept;
            weights.weights[100 * 70 + 66] = bad;
            pack_weights(*packed, weights);
            ASSERT_TRUE(std::isnan(multiply(*packed, weights, x->data(), 1, nullptr)[66]));
        }
    }
}

TEST_P(Packed, WhatIsNotFiniteStaysSo) {
    for (const PackedKernels* packed : formats()) {
        for (const float bad :
             {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
              std::numeric_limits<float>::quiet_NaN()}) {
            Case weights = pack(*packed, 130, 70);
            const auto x = random(130);
            const float kept = std::exchange((*x)[100], bad);
            for (const float value : multiply(*packed, weights, x->data(), 1, nullptr)) {
                ASSERT_FALSE(std::isfinite(value));
            }
            (*x)[100] = kept;
            weights.weights[100 * 70 + 66] = bad;
            pack_weights(*packed, weights);
            const std::vector<float> y = multiply(*packed, weights, x->data(), 1, nullptr);
            for (std::size_t column = 0; column < y.size(); ++column) {
                ASSERT_EQ(std::isfinite(y[column]), column != 66);
            }
        }
    }
}

KAEL_FOR_EVERY_TABLE(Packed);

} // namespace

} // namespace kael::kernels
