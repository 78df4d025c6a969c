// Every operator refuses a handle without a tensor, in its own name.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/autograd.h"
#include "kael/operators.h"

#include "message_of.h"

namespace {

using kael::DType;
using kael::Tensor;
using kael::test::message_of;

struct Call {
    std::string name;
    std::function<void()> run;
};

// A call whose result is not looked at.
template <typename Function>
Call call(std::string name, Function function) {
    return {std::move(name), [function] { static_cast<void>(function()); }};
}

void expect_refused(const std::vector<Call>& calls) {
    for (const Call& call : calls) {
        EXPECT_EQ(message_of(call.run),
                  call.name + ": an undefined tensor, expected a defined one");
    }
}

#define KAEL_UNARY_CALLS(name)                                                                     \
    call(#name, [] { return kael::name(Tensor()); }), call(#name "_", [] {                         \
        Tensor none;                                                                               \
        return kael::name##_(none);                                                                \
    }),
#define KAEL_BINARY_CALLS(name)                                                                    \
    call(#name, [] { return kael::name(Tensor(), 1.0); }),                                         \
        call(#name, [] { return kael::name(1.0, Tensor()); }),                                     \
        call(#name "_",                                                                            \
             [] {                                                                                  \
                 Tensor none;                                                                      \
                 return kael::name##_(none, 1.0);                                                  \
             }),                                                                                   \
        call(#name "_", [] {                                                                       \
            Tensor x = Tensor::zeros({2}, DType::float32);                                         \
            return kael::name##_(x, Tensor());                                                     \
        }),

TEST(UndefinedTensors, AreRefusedByElementwiseOperators) {
    expect_refused({KAEL_UNARY_OPERATORS(KAEL_UNARY_CALLS) KAEL_BINARY_OPERATORS(KAEL_BINARY_CALLS)
                        call("clamp", [] { return kael::clamp(Tensor(), 0.0, 1.0); }),
                    call("clamp_",
                         [] {
                             Tensor none;
                             return kael::clamp_(none, 0.0, 1.0);
                         }),
                    call("where", [] { return kael::where(Tensor(), 0.0, 1.0); }),
                    call("copy_",
                         [] {
                             Tensor none;
                             return kael::copy_(none, 1.0);
                         }),
                    call("copy_", [] {
                        Tensor x = Tensor::zeros({2}, DType::float32);
                        return kael::copy_(x, Tensor());
                    })});
}

TEST(UndefinedTensors, AreRefusedByReductions) {
    const Tensor none;
    const Tensor x = Tensor::zeros({2, 2}, DType::float32);
    const Tensor targets = Tensor::zeros({2}, DType::int64);
    expect_refused({call("sum", [=] { return kael::sum(none); }),
                    call("prod", [=] { return kael::prod(none); }),
                    call("mean", [=] { return kael::mean(none); }),
                    call("var", [=] { return kael::var(none); }),
                    call("std", [=] { return kael::std_deviation(none); }),
                    call("norm", [=] { return kael::norm(none); }),
                    call("logsumexp", [=] { return kael::logsumexp(none); }),
                    call("amax", [=] { return kael::amax(none); }),
                    call("amin", [=] { return kael::amin(none); }),
                    call("any", [=] { return kael::any(none); }),
                    call("all", [=] { return kael::all(none); }),
                    call("argmax", [=] { return kael::argmax(none); }),
                    call("argmin", [=] { return kael::argmin(none); }),
                    call("argmax", [=] { return kael::argmax(none, 0); }),
                    call("cumsum", [=] { return kael::cumsum(none, 0); }),
                    call("softmax", [=] { return kael::softmax(none, 0); }),
                    call("log_softmax", [=] { return kael::log_softmax(none, 0); }),
                    call("sum_to_shape", [=] { return kael::sum_to_shape(none, {}); }),
                    call("matmul", [=] { return kael::matmul(none, x); }),
                    call("matmul", [=] { return kael::matmul(x, none); }),
                    call("einsum", [=] { return kael::einsum("ij,jk", {x, none}); }),
                    call("layer_norm", [=] { return kael::layer_norm(none, {2}, {}, {}, 1e-5); }),
                    call("layer_norm", [=] { return kael::layer_norm(x, {2}, none, {}, 1e-5); }),
                    call("layer_norm", [=] { return kael::layer_norm(x, {2}, {}, none, 1e-5); }),
                    call("nll_loss", [=] { return kael::nll_loss(none, targets); }),
                    call("nll_loss", [=] { return kael::nll_loss(x, none); }),
                    call("cross_entropy", [=] { return kael::cross_entropy(none, targets); }),
                    call("cross_entropy", [=] { return kael::cross_entropy(x, none); }),
                    call("mse_loss", [=] { return kael::mse_loss(none, x); }),
                    call("mse_loss", [=] { return kael::mse_loss(x, none); })});
}

TEST(UndefinedTensors, AreRefusedByRearrangingOperators) {
    const Tensor none;
    const Tensor x = Tensor::zeros({2, 2}, DType::float32);
    const Tensor at = Tensor::zeros({2}, DType::int64);
    const Tensor places = Tensor::zeros({2, 2}, DType::int64);
    const Tensor mask = Tensor::zeros({2, 2}, DType::boolean);
    expect_refused({call("cat", [=] { return kael::cat({none, x}, 0); }),
                    call("cat", [=] { return kael::cat({x, none}, 0); }),
                    call("stack", [=] { return kael::stack({x, none}, 0); }),
                    call("index_select", [=] { return kael::index_select(none, 0, at); }),
                    call("index_select", [=] { return kael::index_select(x, 0, none); }),
                    call("index_add", [=] { return kael::index_add(none, 0, at, x); }),
                    call("index_add", [=] { return kael::index_add(x, 0, none, x); }),
                    call("index_add", [=] { return kael::index_add(x, 0, at, none); }),
                    call("index_add",
                         [=] {
                             Tensor into;
                             return kael::index_add_(into, 0, at, x);
                         }),
                    call("gather", [=] { return kael::gather(none, 0, places); }),
                    call("gather", [=] { return kael::gather(x, 0, none); }),
                    call("scatter_add", [=] { return kael::scatter_add(none, 0, places, x); }),
                    call("scatter_add", [=] { return kael::scatter_add(x, 0, none, x); }),
                    call("scatter_add", [=] { return kael::scatter_add(x, 0, places, none); }),
                    call("scatter_add",
                         [=] {
                             Tensor into;
                             return kael::scatter_add_(into, 0, places, x);
                         }),
                    call("scatter", [=] { return kael::scatter(none, 0, places, x); }),
                    call("scatter_",
                         [=] {
                             Tensor into;
                             return kael::scatter_(into, 0, places, x);
                         }),
                    call("scatter",
                         [=] {
                             Tensor into = x.clone();
                             return kael::scatter_(into, 0, places, none);
                         }),
                    call("nonzero", [=] { return kael::nonzero(none); }),
                    call("index", [=] { return kael::index(none, {0}, {at}); }),
                    call("index", [=] { return kael::index(x, {0}, {none}); }),
                    call("index_put_",
                         [=] {
                             Tensor into;
                             return kael::index_put_(into, {0}, {at}, x);
                         }),
                    call("index_put_",
                         [=] {
                             Tensor into = x.clone();
                             return kael::index_put_(into, {0}, {at}, none);
                         }),
                    call("masked_select", [=] { return kael::masked_select(none, mask); }),
                    call("masked_select", [=] { return kael::masked_select(x, none); }),
                    call("masked_fill", [=] { return kael::masked_fill(none, mask, 1.0); }),
                    call("masked_fill", [=] { return kael::masked_fill(x, none, 1.0); }),
                    call("masked_fill", [=] { return kael::masked_fill(x, mask, none); }),
                    call("masked_fill_",
                         [=] {
                             Tensor into;
                             return kael::masked_fill_(into, mask, 1.0);
                         }),
                    call("argsort", [=] { return kael::argsort(none, 0, false); }),
                    call("sort", [=] { return kael::sort(none, 0, false); }),
                    call("topk", [=] { return kael::topk(none, 1, 0, true); }),
                    call("split", [=] { return kael::split(none, {1}, 0); }),
                    call("chunk", [=] { return kael::chunk(none, 1, 0); }),
                    call("narrow", [=] { return kael::narrow(none, 0, 0, 0); }),
                    call("flatten", [=] { return kael::flatten(none, 0, 0); }),
                    call("squeeze", [=] { return kael::squeeze(none, {0}); }),
                    call("diagonal", [=] { return kael::diagonal(none, 0, 0, 1); }),
                    call("flip", [=] { return kael::flip(none, {0}); }),
                    call("flip", [=] { return kael::flip(none, {}); }),
                    call("roll", [=] { return kael::roll(none, {1}, {}); }),
                    call("repeat", [=] { return kael::repeat(none, {1}); }),
                    call("pad", [=] { return kael::pad(none, {}, 0.0); }),
                    call("embedding", [=] { return kael::embedding(none, x); }),
                    call("embedding", [=] { return kael::embedding(at, none); })});
}

TEST(UndefinedTensors, AreRefusedByMethods) {
    const Tensor none;
    expect_refused({call("size", [=] { return none.size(0); }),
                    call("data", [=] { return none.data<float>(); }),
                    call("data",
                         [] {
                             Tensor into;
                             return into.mutable_data<float>();
                         }),
                    call("transpose", [=] { return none.transpose(0, 1); }),
                    call("permute", [=] { return none.permute({}); }),
                    call("slice", [=] { return none.slice(0, 0, 1); }),
                    call("select", [=] { return none.select(0, 0); }),
                    call("unsqueeze", [=] { return none.unsqueeze(0); }),
                    call("squeeze", [=] { return none.squeeze(0); }),
                    call("expand", [=] { return none.expand({1}); }),
                    call("view", [=] { return none.view({1}); }),
                    call("reshape", [=] { return none.reshape({1}); }),
                    call("clone", [=] { return none.clone(); }),
                    call("to", [=] { return none.to(DType::int8); }),
                    call("detach", [=] { return none.detach(); }),
                    call("set_requires_grad",
                         [] {
                             Tensor into;
                             return into.set_requires_grad(true);
                         }),
                    call("set_grad", [] {
                        Tensor into;
                        into.set_grad(Tensor::zeros({1}, DType::float32));
                        return into;
                    })});
}

} // namespace
