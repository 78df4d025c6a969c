// One input of fuzz_ops: the tensors that a sequence of steps works on, how bytes decide what a
// step does, and how its answer is held against the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kael/tensor.h"

#include "../input.h"
#include "number.h"
#include "number_operators.h"
#include "operators/operator.h"
#include "shape.h"
#include "tracked.h"

namespace kael::fuzz {

inline constexpr std::int64_t kMostElements = 64;
inline constexpr std::int64_t kExtremes[] = {std::numeric_limits<std::int64_t>::min(),
                                             std::numeric_limits<std::int64_t>::max(), -9, 9};

struct Expected {
    DType dtype;
    Shape shape;
    std::vector<Number> values;
    std::vector<double> slack = {}; // of each value; empty: 0
};

struct ExpectedView {
    Shape shape;
    std::function<Index(const Index&)> source; // the index of the same element in x
};

// What the reference says of the arguments. Open: either answer is fine.
enum class Verdict { right, wrong, open };

inline Verdict right_if(bool holds) {
    return holds ? Verdict::right : Verdict::wrong;
}

class Run {
public:
    explicit Run(Input input) : input_(input) {}
    void run();

private:
    using Step = void (Run::*)();

    // ---- Decisions

    Tracked& any() { return tensors_[input_.below(tensors_.size())]; }

    // One that there is, counted from either end, or rarely one that there is not.
    int dimension(const Tensor& x, Verdict& verdict);

    std::int64_t around(std::int64_t size);

    Value operand();

    // int64, mostly from 0 to `bound` - 1.
    Tracked indices(const Shape& shape, std::int64_t bound, Verdict& verdict);

    // ---- Answers

    // A tensor on memory of its own, as it is.
    static Tracked track(const Tensor& tensor);

    void keep(Tracked tracked);

    // Results on memory of their own.
    void check(const std::string& name, std::vector<Argument> arguments, Verdict verdict,
               const std::function<std::vector<Expected>()>& reference);

    // Results on the memory of `x`, or where that is allowed a copy.
    void check_views(const std::string& name, const Tracked& x, std::vector<Argument> arguments,
                     Verdict verdict, const std::function<std::vector<ExpectedView>()>& reference,
                     bool may_copy = false);
    void accept_views(const Tracked& x, const std::vector<Tensor>& results,
                      const std::vector<ExpectedView>& expected, bool may_copy);

    // Writes over `x`, where nothing is written when it fails. Expected has the dtype of x.
    void check_in_place(const std::string& name, Tracked& x, std::vector<Argument> arguments,
                        Verdict verdict, const std::function<Expected()>& reference);

    // The operator `name`, or `name`_, which writes over `x`: right in the same cases.
    void check_either_way(const std::string& name, Tracked& x, std::vector<Argument> arguments,
                          Verdict verdict, const std::function<Expected()>& reference);

    void require_all_same() const;

    // ---- Steps

    void make();
    void rearrange();
    void slice();
    void pick();
    void resize();
    void reshape();
    void divide();
    void diagonal();
    void elementwise();
    void where();
    void masked_fill();
    void convert();
    void copy_over();
    void reduce();
    void place_of_extreme();
    void along();
    void sort();
    void matmul();
    void index_select();
    void gather();
    void add_at();
    void scatter();
    void join();
    void move();
    void pad();
    void select_by_mask();

    [[nodiscard]] static Expected elementwise_result(const Elementwise& row,
                                                     const std::vector<Value>& values,
                                                     const Shape& shape,
                                                     std::optional<DType> target);

    static const Step kSteps[];

    Input input_;
    std::vector<Tracked> tensors_;
};

} // namespace kael::fuzz
