#include <sstream>

#include "kael/autograd.h"
#include "kael/debug.h"
#include "kael/error.h"

namespace kael {

namespace {

const char* yes_or_no(bool value) {
    return value ? "yes" : "no";
}

} // namespace

std::string explain(const Tensor& tensor) {
    KAEL_CHECK(tensor.defined(), "an undefined tensor");
    const Storage& storage = *tensor.storage();
    std::ostringstream text;
    text << "shape: " << to_string(tensor.shape()) << '\n'
         << "strides: " << to_string(tensor.strides()) << '\n'
         << "offset: " << tensor.offset() << '\n'
         << "dtype: " << name(tensor.dtype()) << '\n'
         << "device: cpu\n"
         << "contiguous: " << yes_or_no(tensor.is_contiguous()) << '\n'
         << "storage: " << static_cast<const void*>(storage.data()) << ", " << storage.byte_count()
         << " bytes, version " << storage.version()
         << ", references: " << tensor.storage().use_count() << '\n'
         << "requires_grad: " << yes_or_no(tensor.requires_grad()) << '\n'
         << "leaf: " << yes_or_no(tensor.is_leaf()) << '\n'
         << "has grad: " << yes_or_no(tensor.grad().defined()) << '\n';
    if (const autograd::Edge node = tensor.grad_fn()) {
        text << "grad_fn: " << node->name() << '\n';
    }
    return text.str();
}

} // namespace kael
