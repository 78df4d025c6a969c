#include "tensor/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kael/threads.h"

#include "kernels/cpu/kernels.h"
#include "tensor/reductions.h"

namespace kael::forward {

namespace {

using kernels::Matrix;

// Queries that go through together: few enough that their scores stay in a cache, many enough that
// products with keys and values are worth it.
constexpr std::int64_t kQueryBlock = 64;

// Where everything of one head of one text lies: rows of `row` floats in qkv and in its gradient,
// rows of `width` floats in the result and in its gradient.
struct Head {
    std::int64_t positions;
    std::int64_t size;
    std::int64_t row;
    std::int64_t width;
    float scale;

    [[nodiscard]] Matrix as_rows(const float* data) const { return {data, row, 1}; }
    [[nodiscard]] Matrix as_columns(const float* data) const { return {data, 1, row}; }
};

// One block of queries and its shares, which are scores after softmax.
class QueryBlock {
public:
    explicit QueryBlock(const Head& head)
        : head_(head),
          stride_((head.positions + kernels::kKeyBlock) / kernels::kKeyBlock * kernels::kKeyBlock +
                  kernels::kKeyBlock),
          queries_(static_cast<std::size_t>(kQueryBlock * head.size)),
          shares_(static_cast<std::size_t>(kQueryBlock * stride_)),
          scratch_(static_cast<std::size_t>(
              kernels_.matmul_scratch(std::max({head.positions, head.size, kQueryBlock})))) {}

    // Of the queries from position `first` on, and the keys.
    void look(std::int64_t first, const float* queries, const float* keys) {
        first_ = first;
        rows_ = std::min(kQueryBlock, head_.positions - first);
        for (std::int64_t row = 0; row < rows_; ++row) {
            const float* const query = queries + (first + row) * head_.row;
            std::transform(query, query + head_.size, queries_.data() + row * head_.size,
                           [this](float value) { return value * head_.scale; });
        }
        multiply(queries_.data(), head_.size, head_.as_columns(keys), head_.size, seen(),
                 shares_.data(), stride_);
        for (std::int64_t row = 0; row < rows_; ++row) {
            float* const scores = shares_.data() + row * stride_;
            kernels_.softmax(scores, first + row + 1);
            // The kernel gives zeros for scores that are all -infinity. A position always sees
            // itself, so here they have overflowed, which must not look like a result.
            if (std::all_of(scores, scores + first + row + 1,
                            [](float share) { return share == 0.0f; })) {
                std::fill_n(scores, first + row + 1, std::numeric_limits<float>::quiet_NaN());
            }
            std::fill(scores + first + row + 1, scores + seen(), 0.0f);
        }
    }

    [[nodiscard]] std::int64_t rows() const { return rows_; }
    // Positions that some query of the block sees.
    [[nodiscard]] std::int64_t seen() const { return first_ + rows_; }
    [[nodiscard]] std::int64_t stride() const { return stride_; }
    [[nodiscard]] float* shares() { return shares_.data(); }
    [[nodiscard]] const float* scaled_queries() const { return queries_.data(); }

    // y = x W for the rows of the block.
    void multiply(const float* x, std::int64_t ldx, const Matrix& w, std::int64_t depth,
                  std::int64_t columns, float* y, std::int64_t ldy) {
        kernels_.matmul(x, ldx, rows_, w, depth, nullptr, 0, columns, y, ldy, scratch_.data());
    }
    // y += W for every position that is seen, x [seen, rows].
    void add_product(const float* x, const Matrix& w, float* y) {
        kernels_.matmul_add(x, rows_, seen(), w, rows_, 0, head_.size, y, head_.row,
                            scratch_.data());
    }

private:
    const kernels::CpuKernels& kernels_ = kernels::cpu_kernels();
    const Head& head_;
    std::int64_t stride_;
    std::int64_t first_ = 0;
    std::int64_t rows_ = 0;
    std::vector<float> queries_; // times the scale
    std::vector<float> shares_;
    std::vector<float> scratch_;
};

// Calls body(head, offset in qkv, offset in the result) for every head of every text.
template <typename Body>
void for_each_head(const Tensor& qkv, std::int64_t heads, double scale, const Body& body) {
    const std::int64_t row = qkv.size(2);
    const std::int64_t width = row / 3;
    const Head head{qkv.size(1), width / heads, row, width, static_cast<float>(scale)};
    parallel_for(0, qkv.size(0) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
        QueryBlock block(head);
        for (std::int64_t unit = begin; unit < end; ++unit) {
            const std::int64_t text = unit / heads;
            const std::int64_t column = unit % heads * head.size;
            body(head, block, text * head.positions * row + column,
                 text * head.positions * width + column);
        }
    });
}

// The gradients of queries, keys and values of one head, from those of the result.
class HeadGradient {
public:
    explicit HeadGradient(const Head& head)
        : head_(head), slopes_(static_cast<std::size_t>(kQueryBlock * head.positions)),
          turned_(slopes_.size()) {}

    void operator()(QueryBlock& block, const float* gradient, const float* qkv, float* out) {
        const float* const queries = qkv;
        const float* const keys = qkv + head_.width;
        const float* const values = keys + head_.width;
        float* const of_queries = out;
        float* const of_keys = out + head_.width;
        float* const of_values = of_keys + head_.width;
        for (std::int64_t position = 0; position < head_.positions; ++position) {
            std::fill_n(of_keys + position * head_.row, head_.size, 0.0f);
            std::fill_n(of_values + position * head_.row, head_.size, 0.0f);
        }
        for (std::int64_t first = 0; first < head_.positions; first += kQueryBlock) {
            block.look(first, queries, keys);
            const float* const incoming = gradient + first * head_.width;
            add_turned(block, block.shares(), block.stride(), {incoming, head_.width, 1},
                       of_values);

            block.multiply(incoming, head_.width, head_.as_columns(values), head_.size,
                           block.seen(), slopes_.data(), head_.positions);
            softmax_gradient(block);
            add_turned(block, slopes_.data(), head_.positions,
                       {block.scaled_queries(), head_.size, 1}, of_keys);

            float* const queries_out = of_queries + first * head_.row;
            block.multiply(slopes_.data(), head_.positions, head_.as_rows(keys), block.seen(),
                           head_.size, queries_out, head_.row);
            for (std::int64_t row = 0; row < block.rows(); ++row) {
                float* const query = queries_out + row * head_.row;
                std::transform(query, query + head_.size, query,
                               [this](float value) { return value * head_.scale; });
            }
        }
    }

private:
    // y += transpose(x) W, x [rows of the block, positions that are seen].
    void add_turned(QueryBlock& block, const float* x, std::int64_t ldx, const Matrix& w,
                    float* y) {
        kernels_.transpose(x, ldx, block.rows(), block.seen(), turned_.data(), block.rows());
        block.add_product(turned_.data(), w, y);
    }

    // From gradients of shares to gradients of scores.
    void softmax_gradient(QueryBlock& block) {
        for (std::int64_t row = 0; row < block.rows(); ++row) {
            float* const slope = slopes_.data() + row * head_.positions;
            const float* const share = block.shares() + row * block.stride();
            const std::int64_t count = block.seen();
            std::transform(slope, slope + count, share, slope,
                           [](float g, float s) { return g * s; });
            const float total = static_cast<float>(reductions::sum_lanes<double>(
                slope, count, [](float value) { return double{value}; }));
            std::transform(slope, slope + count, share, slope,
                           [total](float product, float s) { return product - total * s; });
        }
    }

    const kernels::CpuKernels& kernels_ = kernels::cpu_kernels();
    const Head& head_;
    std::vector<float> slopes_; // of the shares, then of the scores
    std::vector<float> turned_;
};

const float* floats(const Tensor& x) {
    return x.data<float>();
}

} // namespace

Tensor causal_attention(const Tensor& qkv, std::int64_t heads, double scale) {
    const Tensor from = qkv.contiguous();
    const Tensor result =
        Tensor::empty({from.size(0), from.size(1), from.size(2) / 3}, DType::float32);
    if (result.numel() == 0) {
        return result;
    }
    float* const out = reinterpret_cast<float*>(result.storage()->data());
    for_each_head(from, heads, scale,
                  [&](const Head& head, QueryBlock& block, std::int64_t in, std::int64_t to) {
                      const float* const queries = floats(from) + in;
                      const float* const keys = queries + head.width;
                      const float* const values = keys + head.width;
                      for (std::int64_t first = 0; first < head.positions; first += kQueryBlock) {
                          block.look(first, queries, keys);
                          block.multiply(block.shares(), block.stride(), head.as_rows(values),
                                         block.seen(), head.size, out + to + first * head.width,
                                         head.width);
                      }
                  });
    return result;
}

Tensor causal_attention_gradient(const Tensor& gradient, const Tensor& qkv, std::int64_t heads,
                                 double scale) {
    const Tensor from = qkv.contiguous();
    const Tensor incoming = gradient.contiguous();
    const Tensor result = Tensor::empty(from.shape(), DType::float32);
    if (result.numel() == 0) {
        return result;
    }
    float* const out = reinterpret_cast<float*>(result.storage()->data());
    for_each_head(from, heads, scale,
                  [&](const Head& head, QueryBlock& block, std::int64_t in, std::int64_t to) {
                      HeadGradient{head}(block, floats(incoming) + to, floats(from) + in, out + in);
                  });
    return result;
}

} // namespace kael::forward
