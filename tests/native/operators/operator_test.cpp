// Operators by name: arguments of the right kind whose value no operator takes. Their kinds are
// tested through the C interface.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "message_of.h"
#include "operators/operator.h"

namespace {

using kael::DType;
using kael::find_operator;
using kael::Shape;
using kael::Tensor;
using kael::test::message_of;

TEST(Operator, RefusesNumbersThatStandForNothing) {
    const Tensor x = Tensor::zeros({2}, DType::float32);
    EXPECT_EQ(message_of([&] {
                  find_operator("einsum").run({"einsum", {Shape{256}, std::vector<Tensor>{x}}});
              }),
              "einsum: argument 1 is no text, expected its bytes");
    EXPECT_EQ(message_of([&] {
                  find_operator("pad").run({"pad", {x, Shape{1, 1}, 0.0, std::int64_t{4}}});
              }),
              "pad: the mode 4 is unknown, expected 0 to 3");
}

} // namespace
