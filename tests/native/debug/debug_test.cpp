// The debugging tools. The expected texts are those of the specification, letter by letter.
#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/autograd.h"
#include "kael/debug.h"
#include "kael/operators.h"

#include "message_of.h"

namespace kael {
namespace {

Tensor leaf(const std::vector<float>& values, const Shape& shape) {
    Tensor tensor = Tensor::from_bytes(values.data(), static_cast<std::int64_t>(4 * values.size()),
                                       shape, DType::float32);
    return tensor.set_requires_grad(true);
}

Tensor vector_of(const std::vector<float>& values) {
    return leaf(values, {static_cast<std::int64_t>(values.size())});
}

// `text` with the address of the storage, the one thing that differs each time, replaced.
std::string without_address(const std::string& text) {
    const std::size_t begin = text.find("storage: ") + 9;
    return text.substr(0, begin) + "ADDRESS" + text.substr(text.find(',', begin));
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++found;
    }
    return found;
}

TEST(Explain, ShowsLayoutAndDtype) {
    const Tensor x = Tensor::zeros({2, 3}, DType::float64);
    EXPECT_EQ(without_address(explain(x)), "shape: [2, 3]\n"
                                           "strides: [3, 1]\n"
                                           "offset: 0\n"
                                           "dtype: float64\n"
                                           "device: cpu\n"
                                           "contiguous: yes\n"
                                           "storage: ADDRESS, 48 bytes, version 0, references: 1\n"
                                           "requires_grad: no\n"
                                           "leaf: yes\n"
                                           "has grad: no\n");
}

TEST(Explain, ShowsSharedStorageOfViews) {
    const Tensor x = Tensor::zeros({4, 4}, DType::float32);
    const Tensor view = [&] {
        const NoGrad guard;
        return x.transpose(0, 1).slice(0, 1, 3);
    }();
    EXPECT_EQ(without_address(explain(view)),
              "shape: [2, 4]\n"
              "strides: [1, 4]\n"
              "offset: 1\n"
              "dtype: float32\n"
              "device: cpu\n"
              "contiguous: no\n"
              "storage: ADDRESS, 64 bytes, version 0, references: 2\n"
              "requires_grad: no\n"
              "leaf: yes\n"
              "has grad: no\n");
}

TEST(Explain, CountsViewsThatRecordLikeOthers) {
    const Tensor x = Tensor::zeros({4, 4}, DType::float32);
    const Tensor view = x.transpose(0, 1).slice(0, 1, 3);
    EXPECT_NE(explain(view).find("references: 2\n"), std::string::npos) << explain(view);
}

TEST(Explain, ShowsAutogradState) {
    Tensor x = vector_of({1, 2});
    EXPECT_NE(explain(x).find("requires_grad: yes\nleaf: yes\nhas grad: no\n"), std::string::npos);
    const Tensor y = x * x;
    EXPECT_TRUE(
        explain(y).ends_with("requires_grad: yes\nleaf: no\nhas grad: no\ngrad_fn: MulBackward\n"));
    sum(y).backward();
    EXPECT_NE(explain(x).find("has grad: yes\n"), std::string::npos);
}

TEST(GraphDot, IsThatOfTheSpecification) {
    const Tensor x = vector_of({1, 2});
    EXPECT_EQ(autograd_graph_dot(sum(x * x)), "digraph autograd {\n"
                                              "  n0 [label=\"SumBackward\"];\n"
                                              "  n1 [label=\"MulBackward\"];\n"
                                              "  n0 -> n1 [label=\"[2]\"];\n"
                                              "  n2 [label=\"AccumulateGrad\"];\n"
                                              "  n1 -> n2 [label=\"[2]\"];\n"
                                              "  n1 -> n2 [label=\"[2]\"];\n"
                                              "}\n");
}

TEST(GraphDot, HasOneNodePerOperationAndOneEdgePerInput) {
    const Tensor a = vector_of({1, 2});
    const std::string dot = autograd_graph_dot(sum(a * a + a));
    for (const char* name : {"SumBackward", "AddBackward", "MulBackward", "AccumulateGrad"}) {
        EXPECT_EQ(count(dot, std::string("\"") + name + "\""), 1U) << dot;
    }
    EXPECT_EQ(count(dot, " -> "), 5U) << dot;
}

TEST(GraphDot, ATensorWithoutGraphIsAnEmptyDigraph) {
    EXPECT_EQ(autograd_graph_dot(Tensor::zeros({2}, DType::float32)), "digraph autograd {\n}\n");
}

// Traces into a string until the end of the scope.
class Trace {
public:
    Trace() { set_backward_trace(&stream_); }
    ~Trace() { set_backward_trace(nullptr); }
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;
    [[nodiscard]] std::string text() const { return stream_.str(); }

private:
    std::ostringstream stream_;
};

TEST(BackwardTrace, PrintsEveryNodeWithShapeAndNorm) {
    const Tensor w = vector_of({3, 3});
    const Trace trace;
    sum(w * w).backward();
    EXPECT_EQ(trace.text(), "backward SumBackward shape=[] norm=1\n"
                            "backward MulBackward shape=[2] norm=1.41421\n"
                            "backward AccumulateGrad shape=[2] norm=8.48528\n");
}

TEST(BackwardTrace, ReportsTheL2NormOfEachGradient) {
    const Tensor x = vector_of({3, 3});
    const Trace trace;
    sum(x * 2.0).backward();
    EXPECT_TRUE(trace.text().ends_with("backward AccumulateGrad shape=[2] norm=2.82843\n"))
        << trace.text();
}

TEST(BackwardTrace, IsOffByDefault) {
    std::ostringstream stream;
    set_backward_trace(&stream);
    set_backward_trace(nullptr);
    sum(vector_of({1}) * 2.0).backward();
    EXPECT_EQ(stream.str(), "");
}

TEST(BackwardTrace, DoesNotOverflowOnLargeGradients) {
    const Tensor x = vector_of({1, 1});
    const Trace trace;
    sum(x * 3e30).backward();
    EXPECT_TRUE(trace.text().ends_with("norm=4.24264e+30\n")) << trace.text();
}

} // namespace
} // namespace kael
