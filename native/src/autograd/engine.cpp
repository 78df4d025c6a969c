// The walk: nodes run when all gradients that meet in them have come, the latest made first. No
// recursion, so that a graph may be as deep as memory allows.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kael/autograd.h"
#include "kael/error.h"
#include "kael/operators.h"

#include "autograd/detection.h"
#include "autograd/trace.h"
#include "base/current_operator.h"

namespace kael::autograd {

namespace {

struct LaterFirst {
    bool operator()(const Node* a, const Node* b) const { return a->sequence() < b->sequence(); }
};

class Walk {
public:
    Walk(const std::vector<Edge>& roots, const BackwardOptions& options)
        : roots_(roots), options_(options) {
        discover();
    }

    // Asks for the gradients that arrive at these nodes, and no others: leaves stay as they are.
    void capture(const std::vector<Edge>& nodes) {
        for (const Edge& node : nodes) {
            captured_.emplace(node.get(), Tensor());
        }
        restrict_to_captured();
    }

    void send(const Edge& node, const Tensor& gradient) { receive(*node, gradient); }

    void run() {
        const GradMode guard(options_.create_graph);
        for (const Edge& root : roots_) {
            if (waiting_.at(root.get()) == 0 && started_.insert(root.get()).second) {
                ready_.push(root.get());
            }
        }
        while (!ready_.empty()) {
            Node& node = *ready_.top();
            ready_.pop();
            pass_on(node, gradients_of(node));
        }
    }

    // Undefined when none arrived.
    [[nodiscard]] Tensor captured(const Edge& node) const { return captured_.at(node.get()); }

private:
    // Counts the paths into every node below the roots.
    void discover() {
        std::vector<Node*> pending;
        const auto see = [&](Node* node, std::size_t paths) {
            const auto [place, is_new] = waiting_.try_emplace(node, 0);
            place->second += paths;
            if (is_new) {
                pending.push_back(node);
            }
        };
        for (const Edge& root : roots_) {
            see(root.get(), 0);
        }
        while (!pending.empty()) {
            Node* const node = pending.back();
            pending.pop_back();
            for (const NodeInput& input : node->inputs()) {
                if (input.edge != nullptr) {
                    see(input.edge.get(), 1);
                }
            }
        }
    }

    // A node is of use when it, or one below it, is captured. Operands are made before results, so
    // that in the order of their making every node comes after those below it; accumulators, which
    // have nothing below them, go first.
    void restrict_to_captured() {
        std::vector<Node*> nodes;
        nodes.reserve(waiting_.size());
        for (const auto& [node, waiting] : waiting_) {
            nodes.push_back(node);
        }
        const auto order = [](const Node* node) {
            return node->inputs().empty() ? std::uint64_t{0} : node->sequence() + 1;
        };
        std::sort(nodes.begin(), nodes.end(),
                  [&](const Node* a, const Node* b) { return order(a) < order(b); });
        std::unordered_set<const Node*> useful;
        for (const Node* node : nodes) {
            const auto leads_on = [&](const NodeInput& input) {
                return useful.contains(input.edge.get());
            };
            const bool passes = std::any_of(node->inputs().begin(), node->inputs().end(), leads_on);
            if (passes) {
                passing_.insert(node);
            }
            if (passes || captured_.contains(node)) {
                useful.insert(node);
            }
        }
        restricted_ = true;
    }

    // What the node has to send on: nothing where none came, or none below wants any.
    GradientList gradients_of(Node& node) {
        const auto arrived = arrived_.find(&node);
        if (arrived == arrived_.end()) {
            return {};
        }
        Tensor gradient = std::move(arrived->second);
        arrived_.erase(arrived);
        for (const auto& [number, hook] : GradientHooks(node.hooks())) { // which hooks may change
            const Tensor replaced = hook(gradient);
            if (replaced.defined()) {
                check_replacement(node, replaced);
                gradient = replaced;
            }
        }
        if (const auto captured = captured_.find(&node); captured != captured_.end()) {
            captured->second = gradient;
        }
        if (restricted_ && !passing_.contains(&node)) {
            return {};
        }
        const RunningNode running(node); // not the hooks, which are the caller's
        const OperatorScope scope(node.name());
        const TracedRun traced(node, gradient);
        GradientList gradients = node.apply(gradient);
        traced.end(gradients);
        if (detects_anomalies()) {
            check_gradients(node, gradient, gradients);
        }
        if (!options_.retain_graph && !options_.create_graph) {
            node.release();
        }
        KAEL_CHECK_AS(ErrorCode::internal, gradients.size() == node.inputs().size(),
                      node.name() << " gave " << gradients.size() << " gradients for "
                                  << node.inputs().size() << " inputs");
        call_node_hooks(node, gradient, gradients);
        return gradients;
    }

    // Copies, for a hook may add and remove others.
    static void call_node_hooks(Node& node, const Tensor& taken, GradientList& gradients) {
        if (node.node_hooks().empty()) {
            return;
        }
        for (std::size_t i = 0; i < gradients.size(); ++i) {
            if (gradients[i].defined()) {
                gradients[i] = fitted(gradients[i], node.inputs()[i]);
            }
        }
        for (const auto& [number, hook] : NodeHooks(node.node_hooks())) {
            std::optional<GradientList> replaced = hook(gradients, taken);
            if (replaced.has_value()) {
                check_replacements(node, *replaced);
                gradients = std::move(*replaced);
            }
        }
    }

    void pass_on(const Node& node, const GradientList& gradients) {
        const RunningNode running(node);
        const OperatorScope scope(node.name());
        for (std::size_t i = 0; i < node.inputs().size(); ++i) {
            const NodeInput& input = node.inputs()[i];
            if (input.edge == nullptr) {
                continue;
            }
            if (!gradients.empty() && gradients[i].defined()) {
                receive(*input.edge, fitted(gradients[i], input));
            }
            if (--waiting_.at(input.edge.get()) == 0) {
                ready_.push(input.edge.get());
            }
        }
    }

    // Undoes what broadcasting and promotion did to an input.
    static Tensor fitted(const Tensor& gradient, const NodeInput& input) {
        const Tensor summed =
            gradient.shape() == input.shape ? gradient : sum_to_shape(gradient, input.shape);
        return summed.to(input.dtype);
    }

    void receive(const Node& node, const Tensor& gradient) {
        Tensor& total = arrived_[&node];
        if (!total.defined()) {
            total = gradient;
        } else if (total.is_sole_owner() && !grad_enabled()) {
            add_(total, gradient);
        } else {
            total = total + gradient;
        }
    }

    static void check_replacement(const Node& node, const Tensor& gradient) {
        KAEL_CHECK(gradient.shape() == node.shape() && gradient.dtype() == node.dtype(),
                   "a hook answered with a gradient of shape "
                       << to_string(gradient.shape()) << " and dtype " << name(gradient.dtype())
                       << ", expected " << to_string(node.shape()) << " and "
                       << name(node.dtype()));
    }

    static void check_replacements(const Node& node, const GradientList& gradients) {
        KAEL_CHECK(gradients.size() == node.inputs().size(),
                   "a hook on " << node.name() << " answered with " << gradients.size()
                                << " gradients, expected " << node.inputs().size());
        for (std::size_t i = 0; i < gradients.size(); ++i) {
            const NodeInput& input = node.inputs()[i];
            KAEL_CHECK(!gradients[i].defined() || (gradients[i].shape() == input.shape &&
                                                   gradients[i].dtype() == input.dtype),
                       "a hook on " << node.name() << " answered with gradient " << i
                                    << " of shape " << to_string(gradients[i].shape())
                                    << " and dtype " << name(gradients[i].dtype()) << ", expected "
                                    << to_string(input.shape) << " and " << name(input.dtype));
        }
    }

    const std::vector<Edge>& roots_;
    const BackwardOptions options_;
    std::unordered_map<Node*, std::size_t> waiting_;  // gradients that have yet to come
    std::unordered_map<const Node*, Tensor> arrived_; // the sums of those that have
    std::priority_queue<Node*, std::vector<Node*>, LaterFirst> ready_;
    std::unordered_map<const Node*, Tensor> captured_;
    std::unordered_set<const Node*> passing_; // those below which something is captured
    bool restricted_ = false;
    std::unordered_set<const Node*> started_; // roots: one may stand there twice
};

// The gradient that a root starts with.
Tensor seed(const Tensor& root, const Tensor& gradient) {
    if (!gradient.defined()) {
        KAEL_CHECK(root.numel() == 1,
                   "backward: a root of shape "
                       << to_string(root.shape())
                       << " without a gradient, expected one of that shape: only a tensor of one "
                          "element goes without");
        return forward::add(Tensor::zeros(root.shape(), root.dtype()), 1.0);
    }
    KAEL_CHECK(gradient.shape() == root.shape(),
               "backward: a gradient of shape "
                   << to_string(gradient.shape()) << " for a root of shape "
                   << to_string(root.shape()) << ", expected the same shape");
    KAEL_CHECK(gradient.dtype() == root.dtype(),
               "backward: a gradient of dtype " << name(gradient.dtype()) << " for a root of dtype "
                                                << name(root.dtype())
                                                << ", expected the same dtype");
    return gradient;
}

std::vector<Edge> edges_of(const std::vector<Tensor>& tensors, const char* what) {
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        KAEL_CHECK(tensors[i].defined() && tensors[i].requires_grad(),
                   what << " " << i << " of " << tensors.size()
                        << " needs no gradient, expected one that needs it, or is computed from "
                           "one: requires_grad");
        edges.push_back(gradient_edge(tensors[i]));
    }
    return edges;
}

// Sends every root its gradient; the edges keep the graph alive meanwhile.
void send_all(Walk& walk, const std::vector<Edge>& edges, const std::vector<Tensor>& roots,
              const std::vector<Tensor>& gradients) {
    KAEL_CHECK(gradients.empty() || gradients.size() == roots.size(),
               "backward: " << gradients.size() << " gradients for " << roots.size()
                            << " roots, expected none or as many");
    for (std::size_t i = 0; i < roots.size(); ++i) {
        walk.send(edges[i], seed(roots[i], gradients.empty() ? Tensor() : gradients[i]));
    }
}

} // namespace

void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients,
              const BackwardOptions& options) {
    const std::vector<Edge> edges = edges_of(roots, "backward: root");
    Walk walk(edges, options);
    send_all(walk, edges, roots, gradients);
    walk.run();
}

std::vector<Tensor> grad(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, const BackwardOptions& options,
                         bool allow_unused) {
    const std::vector<Edge> edges = edges_of(roots, "grad: root");
    const std::vector<Edge> wanted = edges_of(inputs, "grad: input");
    Walk walk(edges, options);
    walk.capture(wanted);
    send_all(walk, edges, roots, gradients);
    walk.run();
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        results.push_back(walk.captured(wanted[i]));
        KAEL_CHECK(allow_unused || results.back().defined(),
                   "grad: no root depends on input "
                       << i << " of " << inputs.size()
                       << ", expected one that does: pass allow_unused to get none for it");
    }
    return results;
}

} // namespace kael::autograd
