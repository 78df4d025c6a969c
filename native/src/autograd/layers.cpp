// What layers and losses of networks need, made of other operators, which record what gradients
// need.
#include <string>
#include <vector>

#include "kael/creation.h"
#include "kael/error.h"
#include "kael/operators.h"

namespace kael {

Tensor embedding(const Tensor& ids, const Tensor& table) {
    KAEL_CHECK(ids.defined() && table.defined(), "embedding: an undefined tensor");
    KAEL_CHECK(table.rank() == 2, "embedding: a table of shape " << to_string(table.shape())
                                                                 << ", expected two dimensions");
    Shape shape = ids.shape();
    shape.push_back(table.size(1));
    return index_select(table, 0, ids.reshape({-1})).reshape(shape);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
    KAEL_CHECK(x.defined() && x.rank() >= 1, "layer_norm: a tensor without dimensions");
    const Shape width = {x.size(-1)};
    for (const Tensor* parameter : {&weight, &bias}) {
        KAEL_CHECK(parameter->defined() && parameter->shape() == width,
                   "layer_norm: weight and bias of shape "
                       << (parameter->defined() ? to_string(parameter->shape()) : "undefined")
                       << " for a tensor of shape " << to_string(x.shape()) << ", expected "
                       << to_string(width));
    }
    const Over last{{-1}, true};
    const Tensor centred = x - mean(x, last);
    return centred * rsqrt(var(x, last, 0.0) + epsilon) * weight + bias;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int64_t ignored) {
    KAEL_CHECK(logits.defined() && targets.defined(), "cross_entropy: an undefined tensor");
    KAEL_CHECK(logits.rank() == 2 && targets.rank() == 1 && logits.size(0) == targets.size(0),
               "cross_entropy: logits of shape "
                   << to_string(logits.shape()) << " and targets of shape "
                   << to_string(targets.shape()) << ", expected [N, C] and [N]");
    KAEL_CHECK(targets.dtype() == DType::int64,
               "cross_entropy: targets of dtype " << name(targets.dtype()) << ", expected int64");
    const Tensor rows = targets.contiguous();
    const std::int64_t classes = logits.size(1);
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
        const std::int64_t target = rows.data<std::int64_t>()[i];
        KAEL_CHECK(target == ignored || (target >= 0 && target < classes),
                   "cross_entropy: target " << i << " is " << target << ", expected 0 to "
                                            << classes - 1 << ", or " << ignored
                                            << " to leave it out");
        counted += target == ignored ? 0 : 1;
    }
    const Tensor counts = ne(rows, ignored);
    const Tensor picked =
        gather(log_softmax(logits, 1), 1, where(counts, rows, 0).unsqueeze(1)).select(1, 0);
    return neg(sum(where(counts, picked, 0.0))) / static_cast<double>(counted);
}

Tensor mse_loss(const Tensor& x, const Tensor& target) {
    KAEL_CHECK(x.defined() && target.defined(), "mse_loss: an undefined tensor");
    KAEL_CHECK(x.shape() == target.shape(), "mse_loss: shapes " << to_string(x.shape()) << " and "
                                                                << to_string(target.shape())
                                                                << ", expected equal ones");
    return mean(square(x - target));
}

} // namespace kael
