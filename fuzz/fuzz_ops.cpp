// Random operators on random views of small tensors, against a naive reference: an element is a
// number (ops/number.h), a tensor the list of the places in memory where its elements stand. After
// each step all tensors are compared, so that what is written through one view is seen through all
// others and nowhere else.
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "ops/run.h"

namespace kael::fuzz {

constexpr int kMostSteps = 40;

// In the order of the corpus: a new one goes to the end.
const Run::Step Run::kSteps[] = {
    &Run::make,        &Run::rearrange,   &Run::slice,          &Run::pick,
    &Run::resize,      &Run::reshape,     &Run::divide,         &Run::diagonal,
    &Run::elementwise, &Run::elementwise, &Run::where,          &Run::masked_fill,
    &Run::convert,     &Run::copy_over,   &Run::reduce,         &Run::place_of_extreme,
    &Run::along,       &Run::sort,        &Run::matmul,         &Run::index_select,
    &Run::gather,      &Run::add_at,      &Run::scatter,        &Run::join,
    &Run::move,        &Run::pad,         &Run::select_by_mask,
};

void Run::run() {
    make();
    for (int i = 0; i < kMostSteps && !input_.finished(); ++i) {
        (this->*kSteps[input_.below(std::size(kSteps))])();
        require_all_same();
    }
}

} // namespace kael::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    kael::fuzz::Run(kael::fuzz::Input(data, size)).run();
    return 0;
}
