// The debugging tools. The expected texts are those of the specification, letter by letter.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <thread>
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
    EXPECT_EQ(test::message_of([] { static_cast<void>(explain(Tensor())); }),
              "explain: an undefined tensor, expected a defined one");
}

TEST(Explain, ListsTheTensorsOnTheStorage) {
    const Tensor x = Tensor::zeros({2, 2}, DType::float32);
    const Tensor view = x.transpose(0, 1);
    const auto of_storage = [](const Tensor& tensor) {
        std::vector<Shape> strides;
        for (const Storage::View& found : tensor.storage()->views()) {
            strides.push_back(found.strides);
        }
        return strides;
    };
    EXPECT_EQ(of_storage(x), (std::vector<Shape>{{2, 1}, {1, 2}}));
    ASSERT_NE(explain_json(view).find(R"("views")"), std::string::npos);
    EXPECT_EQ(explain_json(view).find(R"("views": [{"dtype": "float32", "shape": [2, 2], )"
                                      R"("strides": [2, 1], "offset": 0}, {"dtype")"),
              explain_json(view).find(R"("views")"));
    EXPECT_EQ(static_cast<std::int64_t>(of_storage(x).size()), x.storage().use_count());
}

TEST(Explain, ListsTensorsWhileOthersComeAndGo) {
    const Tensor x = Tensor::zeros({4}, DType::float32);
    std::atomic<bool> done = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            const NoGrad guard;
            while (!done) {
                const Tensor view = x.slice(0, 1, 3);
            }
        });
    }
    for (int i = 0; i < 1000; ++i) {
        const auto views = x.storage()->views();
        ASSERT_GE(views.size(), 1U);
        ASSERT_EQ(views.front().shape, Shape{4});
    }
    done = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(x.storage()->views().size(), 1U);
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

TEST(GraphDot, ShowsWhatNodesKeepWhereItIsAskedTo) {
    Tensor x = vector_of({1, 2});
    Tensor y = x * 1.0;
    const Tensor z = square(y);
    add_(y, 1.0);
    EXPECT_EQ(autograd_graph_dot(z, {.saved = true}),
              "digraph autograd {\n"
              "  n0 [label=\"SquareBackward\"];\n"
              "  n0s0 [shape=box, label=\"saved float32 [2]\\n8 bytes, version 0, now 1\"];\n"
              "  n0 -> n0s0 [style=dashed, arrowhead=none];\n"
              "  n1 [label=\"MulBackward\"];\n"
              "  n0 -> n1 [label=\"[2]\"];\n"
              "  n2 [label=\"AccumulateGrad\"];\n"
              "  n1 -> n2 [label=\"[2]\"];\n"
              "}\n");
}

TEST(GraphJson, HasTheNodesOfTheDotTextAndWhatTheyKeep) {
    const Tensor x = vector_of({1, 2});
    EXPECT_EQ(
        autograd_graph_json(sum(x * x)),
        R"({"nodes": [{"id": 0, "name": "SumBackward", "shape": [], "dtype": "float32", "saved": []}, )"
        R"({"id": 1, "name": "MulBackward", "shape": [2], "dtype": "float32", "saved": [)"
        R"({"shape": [2], "dtype": "float32", "bytes": 8, "version": 0, "version_now": 0, "storage": 0, "storage_bytes": 8}, )"
        R"({"shape": [2], "dtype": "float32", "bytes": 8, "version": 0, "version_now": 0, "storage": 0, "storage_bytes": 8}]}, )"
        R"({"id": 2, "name": "AccumulateGrad", "shape": [2], "dtype": "float32", "saved": []}], )"
        R"("edges": [{"from": 0, "to": 1, "operand": 0, "shape": [2], "dtype": "float32"}, )"
        R"({"from": 1, "to": 2, "operand": 0, "shape": [2], "dtype": "float32"}, )"
        R"({"from": 1, "to": 2, "operand": 1, "shape": [2], "dtype": "float32"}], "held_bytes": 8})");
    EXPECT_EQ(autograd_graph_json(Tensor::zeros({2}, DType::float32)),
              R"({"nodes": [], "edges": [], "held_bytes": 0})");
}

TEST(GraphJson, TakesALongChain) {
    Tensor x = vector_of({1});
    for (int i = 0; i < 200'000; ++i) {
        x = neg(x);
    }
    const std::string json = autograd_graph_json(x);
    EXPECT_NE(json.find(R"("id": 200000, "name": "AccumulateGrad")"), std::string::npos);
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

// Takes what several threads write at once, and tells the pieces apart.
class SharedBuffer final : public std::streambuf {
public:
    [[nodiscard]] const std::vector<std::string>& pieces() const { return pieces_; }

protected:
    std::streamsize xsputn(const char* text, std::streamsize length) override {
        const std::lock_guard lock(mutex_);
        pieces_.emplace_back(text, static_cast<std::size_t>(length));
        return length;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> pieces_;
};

TEST(BackwardTrace, WritesEachLineOfSeveralThreadsAtOnce) {
    constexpr int kThreads = 2;
    constexpr int kRounds = 50;
    SharedBuffer buffer;
    std::ostream stream(&buffer);
    constexpr std::streamsize kWidth = 80;
    stream.width(kWidth); // which operator<< would reset, from all threads
    set_backward_trace(&stream);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([] {
            for (int round = 0; round < kRounds; ++round) {
                sum(vector_of({3})).backward();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    set_backward_trace(nullptr);
    EXPECT_EQ(stream.width(), kWidth);
    EXPECT_EQ(std::ssize(buffer.pieces()), 2 * kThreads * kRounds);
    EXPECT_EQ(std::count(buffer.pieces().begin(), buffer.pieces().end(),
                         "backward SumBackward shape=[] norm=1\n"),
              kThreads * kRounds);
}

TEST(BackwardTrace, DoesNotOverflowOnLargeGradients) {
    const Tensor x = vector_of({1, 1});
    const Trace trace;
    sum(x * 3e30).backward();
    EXPECT_TRUE(trace.text().ends_with("norm=4.24264e+30\n")) << trace.text();
}

TEST(BackwardTrace, RecordsWhatEachNodeTookAndReturned) {
    const Tensor w = vector_of({3, 3});
    std::vector<std::string> names;
    std::vector<double> norms;
    std::vector<std::int64_t> bytes;
    set_backward_records([&](const TraceRecord& record) {
        names.push_back(record.node.name());
        norms.push_back(record.norm);
        bytes.push_back(record.bytes);
    });
    sum(w * w).backward();
    set_backward_records(nullptr);
    sum(w * w).backward();
    EXPECT_EQ(names, (std::vector<std::string>{"SumBackward", "MulBackward", "AccumulateGrad"}));
    EXPECT_EQ(bytes, (std::vector<std::int64_t>{8, 16, 0}));
    EXPECT_DOUBLE_EQ(norms[1], std::sqrt(2.0));
}

TEST(BackwardTrace, WhatARecorderThrowsEndsTheWalk) {
    const Tensor w = vector_of({3, 3});
    set_backward_records([](const TraceRecord&) { throw std::runtime_error("mine"); });
    EXPECT_THROW(sum(w * w).backward(), std::runtime_error);
    set_backward_records(nullptr);
    EXPECT_FALSE(w.grad().defined());
}

} // namespace
} // namespace kael
