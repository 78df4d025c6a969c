// Losses of networks, recorded. The cross-entropy that training takes, a mean without weights, and
// its gradient are one pass each; the others are made of recorded operators, as is a gradient that
// is to be differentiated again.
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kael/autograd.h"
#include "kael/creation.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/record.h"
#include "tensor/defined.h"
#include "tensor/layers.h"

namespace kael {

namespace {

using autograd::Backward;
using autograd::GradientList;

// softmax(logits) less 1 at the target, divided by the number of targets; 0 in a row left out.
Tensor cross_entropy_derivative(const Backward& context, std::int64_t ignored) {
    const Tensor& logits = context.saved(0);
    const Tensor& targets = context.saved(1);
    const Tensor counts = ne(targets, ignored).unsqueeze(1);
    const Tensor classes = arange(std::int64_t{0}, logits.size(1), std::int64_t{1});
    const Tensor chosen = eq(classes.unsqueeze(0), targets.unsqueeze(1)).to(logits.dtype());
    const Tensor counted = sum(counts).to(logits.dtype());
    return where(counts, (softmax(logits, 1) - chosen) * (context.gradient() / counted), 0.0);
}

// logits [N, C], targets int64 [N].
Tensor mean_cross_entropy(const Tensor& logits, const Tensor& targets, std::int64_t ignored) {
    Tensor result = autograd::without_recording(
        [&] { return forward::cross_entropy(logits, targets, ignored); });
    if (autograd::needs_recording(result, {logits})) {
        autograd::record("CrossEntropyBackward", result, {logits}, {logits, targets},
                         [ignored](const Backward& context) {
                             return GradientList{grad_enabled()
                                                     ? cross_entropy_derivative(context, ignored)
                                                     : forward::cross_entropy_gradient(
                                                           context.gradient(), context.saved(0),
                                                           context.saved(1), ignored)};
                         });
    }
    return result;
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
    switch (reduction) {
    case Reduction::none:
        return losses;
    case Reduction::mean:
        return mean(losses);
    case Reduction::sum:
        return sum(losses);
    }
    return losses;
}

// For 16-bit floats, whose losses are computed as float32 and rounded once.
Tensor widened(const Tensor& x) {
    return x.to(DType::float32);
}
std::optional<Tensor> widened(const std::optional<Tensor>& x) {
    return x.has_value() ? std::optional(widened(*x)) : std::nullopt;
}

// Where the classes stand in a tensor of scores.
int class_dimension(const Tensor& scores) {
    return scores.rank() == 1 ? 0 : 1;
}

void check_weight(const std::string& name, const std::optional<Tensor>& weight,
                  const Tensor& scores) {
    const Shape classes = {scores.size(class_dimension(scores))};
    KAEL_CHECK(!weight.has_value() || (weight->defined() && weight->shape() == classes &&
                                       weight->dtype() == scores.dtype()),
               name << ": a weight of "
                    << (weight->defined() ? "dtype " + std::string(kael::name(weight->dtype())) +
                                                " and shape " + to_string(weight->shape())
                                          : "undefined")
                    << ", expected " << kael::name(scores.dtype()) << " and "
                    << to_string(classes));
}

void check_scores(const std::string& name, const Tensor& scores, const Tensor& targets) {
    check_defined(scores, name);
    check_defined(targets, name);
    KAEL_CHECK(scores.rank() > 0,
               name << ": scores without dimensions, expected [N, C, ...] or [C]");
}

// How many targets are not ignored; an error that names the first that is no class.
std::int64_t count_classes(const std::string& name, const Tensor& targets, std::int64_t classes,
                           std::int64_t ignored) {
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < targets.numel(); ++i) {
        const std::int64_t target = targets.data<std::int64_t>()[i];
        KAEL_CHECK(target == ignored || (target >= 0 && target < classes),
                   name << ": target " << i << " is " << target << ", expected 0 to " << classes - 1
                        << ", or " << ignored << " to leave it out");
        counted += target == ignored ? 0 : 1;
    }
    return counted;
}

// Classes, one for each place without the dimension of the scores of classes.
void check_targets(const std::string& name, const Tensor& scores, const Tensor& targets) {
    Shape expected = scores.shape();
    expected.erase(expected.begin() + class_dimension(scores));
    KAEL_CHECK(targets.shape() == expected,
               name << ": scores of shape " << to_string(scores.shape()) << " and targets of shape "
                    << to_string(targets.shape()) << ", expected " << to_string(expected));
    KAEL_CHECK(targets.dtype() == DType::int64,
               name << ": targets of dtype " << kael::name(targets.dtype()) << ", expected int64");
}

// As [places, classes].
Tensor rows_of_classes(const Tensor& scores, std::int64_t places) {
    const int dimension = class_dimension(scores);
    const Shape shape = {places, scores.size(dimension)};
    if (dimension == scores.rank() - 1) {
        return scores.reshape(shape);
    }
    std::vector<int> order(static_cast<std::size_t>(scores.rank()));
    std::iota(order.begin(), order.end(), 0);
    order.erase(order.begin() + dimension);
    order.push_back(dimension);
    return scores.permute(order).reshape(shape);
}

Tensor loss_at_classes(const std::string& name, const Tensor& log_probabilities,
                       const Tensor& targets, std::int64_t ignored,
                       const std::optional<Tensor>& weight, Reduction reduction) {
    const int dimension = class_dimension(log_probabilities);
    const Tensor indices = targets.contiguous();
    const std::int64_t counted =
        count_classes(name, indices, log_probabilities.size(dimension), ignored);
    const Tensor counts = ne(indices, ignored);
    const Tensor classes = where(counts, indices, 0);
    Tensor picked =
        gather(log_probabilities, dimension, classes.unsqueeze(dimension)).select(dimension, 0);
    Tensor weights;
    if (weight.has_value()) {
        weights = where(
            counts, index_select(*weight, 0, classes.reshape({-1})).reshape(targets.shape()), 0.0);
        picked = picked * weights;
    }
    picked = where(counts, picked, 0.0);
    if (reduction == Reduction::none) {
        return neg(picked);
    }
    Tensor total = neg(sum(picked));
    if (reduction == Reduction::sum) {
        return total;
    }
    return weights.defined() ? total / sum(weights) : total / static_cast<double>(counted);
}

} // namespace

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, std::int64_t ignored,
                const std::optional<Tensor>& weight, Reduction reduction) {
    check_scores("nll_loss", log_probabilities, targets);
    check_weight("nll_loss", weight, log_probabilities);
    check_targets("nll_loss", log_probabilities, targets);
    if (is_half(log_probabilities.dtype())) {
        return nll_loss(widened(log_probabilities), targets, ignored, widened(weight), reduction)
            .to(log_probabilities.dtype());
    }
    return loss_at_classes("nll_loss", log_probabilities, targets, ignored, weight, reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int64_t ignored,
                     const std::optional<Tensor>& weight, Reduction reduction) {
    check_scores("cross_entropy", logits, targets);
    check_weight("cross_entropy", weight, logits);
    const bool of_probabilities =
        targets.dtype() == logits.dtype() && targets.shape() == logits.shape();
    if (!of_probabilities) {
        check_targets("cross_entropy", logits, targets);
        if (!weight.has_value() && reduction == Reduction::mean) {
            return mean_cross_entropy(rows_of_classes(logits, targets.numel()),
                                      targets.reshape({targets.numel()}), ignored);
        }
    }
    if (is_half(logits.dtype())) {
        return cross_entropy(widened(logits), of_probabilities ? widened(targets) : targets,
                             ignored, widened(weight), reduction)
            .to(logits.dtype());
    }
    const int dimension = class_dimension(logits);
    const Tensor log_probabilities = log_softmax(logits, dimension);
    if (!of_probabilities) {
        return loss_at_classes("cross_entropy", log_probabilities, targets, ignored, weight,
                               reduction);
    }
    Tensor products = log_probabilities * targets;
    if (weight.has_value()) {
        Shape along(static_cast<std::size_t>(logits.rank()), 1);
        along[static_cast<std::size_t>(dimension)] = logits.size(dimension);
        products = products * weight->reshape(along);
    }
    return reduced(neg(sum(products, {{dimension}, false})), reduction);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
    check_defined(x, "mse_loss");
    check_defined(target, "mse_loss");
    KAEL_CHECK(x.shape() == target.shape(), "mse_loss: shapes " << to_string(x.shape()) << " and "
                                                                << to_string(target.shape())
                                                                << ", expected equal ones");
    return reduced(square(x - target), reduction);
}

} // namespace kael
