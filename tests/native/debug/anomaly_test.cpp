// Anomaly detection: what it finds, and what it says of it.
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/autograd.h"
#include "kael/debug.h"
#include "kael/operators.h"

namespace kael {
namespace {

Tensor vector_of(const std::vector<float>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::from_bytes(values.data(), 4 * count, {count}, DType::float32)
        .set_requires_grad(true);
}

class AnomalyDetection : public ::testing::Test {
protected:
    ~AnomalyDetection() override {
        set_anomaly_detection(false);
        set_call_site(nullptr);
    }

    // The anomaly that `body` runs into.
    template <typename Body>
    static Anomaly found_in(Body&& body) {
        try {
            body();
        } catch (const AnomalyError& error) {
            return error.anomaly();
        }
        ADD_FAILURE() << "nothing was thrown";
        return {};
    }
};

TEST_F(AnomalyDetection, NamesTheNodeProducingNan) {
    const Tensor x = vector_of({-1});
    const Tensor loss = sum(sqrt(x));
    set_anomaly_detection(true);
    try {
        loss.backward();
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("kael error at ")) << error.what();
        EXPECT_TRUE(std::string(error.what())
                        .ends_with(" failed: Function SqrtBackward returned NaN in its gradient"))
            << error.what();
    }
}

TEST_F(AnomalyDetection, IsOffByDefaultAndLeavesCleanGraphsAlone) {
    const Tensor bad = vector_of({-1});
    EXPECT_NO_THROW(sum(sqrt(bad)).backward());
    set_anomaly_detection(true);
    const Tensor good = vector_of({4});
    EXPECT_NO_THROW(sum(sqrt(good)).backward());
    EXPECT_FLOAT_EQ(*good.grad().data<float>(), 0.25F);
}

TEST_F(AnomalyDetection, LetsInfinityPass) {
    set_anomaly_detection(true);
    const Tensor zero = vector_of({0});
    EXPECT_NO_THROW(sum(sqrt(zero)).backward());
}

TEST_F(AnomalyDetection, SaysWhatTheOperatorWasAppliedTo) {
    set_anomaly_detection(true);
    set_call_site([] { return std::string("train:7"); });
    const Tensor x = vector_of({4, 0});
    const Tensor loss = sum(sqrt(x) * Tensor::zeros({2}, DType::float32));
    set_call_site(nullptr);
    const Anomaly anomaly = found_in([&] { loss.backward(); });
    EXPECT_EQ(to_string(anomaly),
              "SqrtBackward returned the gradient of operand 0: float32 [2], 0 to 0, 1 NaN, the "
              "first at [1]\n"
              "the operator was called at train:7\n"
              "operand 0: float32 [2], 0 to 4\n"
              "gradient taken: float32 [2], 0 to 0\n");
    EXPECT_EQ(
        anomaly_json(anomaly).substr(0, 95),
        R"({"in_forward": false, "operation": "SqrtBackward", "inside": "", "call_site": "train:7", "opera)");
}

TEST_F(AnomalyDetection, FindsInfinityWhereItIsAskedFor) {
    set_anomaly_detection(true, {.mode = AnomalyMode::infinity});
    const Anomaly anomaly = found_in([] { sum(sqrt(vector_of({1, 0, 0}))).backward(); });
    EXPECT_FALSE(anomaly.is_nan);
    EXPECT_EQ(anomaly.first_bad_index, Shape{1});
    EXPECT_EQ(anomaly.found.range->infinities, 2);
    EXPECT_NO_THROW(sum(sqrt(vector_of({-1}))).backward());
}

TEST_F(AnomalyDetection, ChecksForwardPassesWhereItIsAskedTo) {
    set_anomaly_detection(true, {.check_forward = true});
    const Anomaly anomaly =
        found_in([] { static_cast<void>(log_softmax(vector_of({1}) / 0.0, 0)); });
    EXPECT_TRUE(anomaly.in_forward);
    EXPECT_EQ(anomaly.operation, "log_softmax");
}

TEST_F(AnomalyDetection, AFailingCallSiteLeavesWhatWasToBeWrittenAlone) {
    using Write = std::function<void(Tensor&)>;
    const Tensor place = Tensor::zeros({1}, DType::int64);
    const std::vector<Write> writes = {
        [](Tensor& y) { add_(y, 1.0); },
        [](Tensor& y) { mul_(y, y); },
        [](Tensor& y) { exp_(y); },
        [](Tensor& y) { copy_(y, 7.0); },
        [&](Tensor& y) { scatter_(y, 0, place, 7.0); },
        [&](Tensor& y) { index_put_(y, {0}, {place}, 7.0); },
        [&](Tensor& y) { index_add_(y, 0, place, y); },
        [](Tensor& y) {
            Tensor part = y.slice(0, 0, 1);
            mul_(part, 2.0);
        },
    };
    for (const Write& write : writes) {
        const Tensor x = vector_of({3});
        Tensor y = x - 0.0;
        const std::string node = y.grad_fn()->name();
        set_anomaly_detection(true);
        set_call_site([]() -> std::string { throw std::runtime_error("mine"); });
        EXPECT_THROW(write(y), std::runtime_error);
        EXPECT_EQ(*y.detach().data<float>(), 3);
        EXPECT_EQ(y.storage()->version(), 0);
        EXPECT_EQ(y.grad_fn()->name(), node);
        set_call_site(nullptr);
        write(y);
        EXPECT_NE(*y.detach().data<float>(), 3);
        EXPECT_NE(y.grad_fn()->name(), node);
        set_anomaly_detection(false);
    }
}

TEST_F(AnomalyDetection, RecordsAWriteThatIsOne) {
    set_anomaly_detection(true, {.check_forward = true});
    const Tensor x = vector_of({4, 9});
    Tensor y = x * 1.0;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Anomaly anomaly =
        found_in([&] { scatter_(y, 0, Tensor::zeros({1}, DType::int64), nan); });
    EXPECT_EQ(anomaly.operation, "scatter");
    ASSERT_EQ(anomaly.operands.size(), 1U);
    EXPECT_EQ(anomaly.operands[0].range->least, 4); // before the write
    EXPECT_EQ(anomaly.operands[0].range->nans, 0);
    EXPECT_EQ(y.grad_fn()->name(), "ScatterBackward");
    EXPECT_TRUE(std::isnan(*y.detach().data<float>()));
}

TEST_F(AnomalyDetection, FreesALongChainOfCreators) {
    auto origin = std::make_shared<NodeOrigin>();
    for (int i = 0; i < 1'000'000; ++i) {
        auto next = std::make_shared<NodeOrigin>();
        next->creator = std::move(origin);
        origin = std::move(next);
    }
    const std::weak_ptr<NodeOrigin> gone = origin;
    origin.reset();
    EXPECT_TRUE(gone.expired());
}

} // namespace
} // namespace kael
