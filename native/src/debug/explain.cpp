#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>

#include "kael/autograd.h"
#include "kael/debug.h"

#include "io/json_writer.h"
#include "tensor/defined.h"

namespace kael {

namespace {

const char* yes_or_no(bool value) {
    return value ? "yes" : "no";
}

void write(io::JsonWriter& json, const std::shared_ptr<Storage>& storage) {
    const std::optional<Storage::File>& file = storage->file();
    json.begin_object();
    json.key("address").integer(reinterpret_cast<std::intptr_t>(storage->data()));
    json.key("bytes").integer(storage->byte_count());
    json.key("version").integer(static_cast<std::int64_t>(storage->version()));
    json.key("references").integer(storage.use_count());
    json.key("memory").string(storage->is_own()  ? "owned"
                              : file.has_value() ? "mapped"
                                                 : "borrowed");
    json.key("read_only").boolean(storage->is_read_only());
    if (file.has_value()) {
        json.key("file").string(file->path);
        json.key("file_offset").integer(file->offset);
    }
    json.key("views").begin_array();
    for (const Storage::View& view : storage->views()) {
        json.begin_object();
        json.key("dtype").string(name(view.dtype));
        json.key("shape").integers(view.shape);
        json.key("strides").integers(view.strides);
        json.key("offset").integer(view.offset);
        json.end_object();
    }
    json.end_array();
    json.end_object();
}

} // namespace

std::string explain(const Tensor& tensor) {
    check_defined(tensor, "explain");
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

std::string explain_json(const Tensor& tensor) {
    check_defined(tensor, "explain");
    const autograd::Edge node = tensor.grad_fn();
    io::JsonWriter json;
    json.begin_object();
    json.key("shape").integers(tensor.shape());
    json.key("strides").integers(tensor.strides());
    json.key("offset").integer(tensor.offset());
    json.key("dtype").string(name(tensor.dtype()));
    json.key("device").string("cpu");
    json.key("contiguous").boolean(tensor.is_contiguous());
    json.key("bytes").integer(tensor.nbytes());
    json.key("storage");
    write(json, tensor.storage());
    json.key("requires_grad").boolean(tensor.requires_grad());
    json.key("leaf").boolean(tensor.is_leaf());
    json.key("has_grad").boolean(tensor.grad().defined());
    json.key("grad_fn");
    if (node != nullptr) {
        json.string(node->name());
    } else {
        json.null();
    }
    json.end_object();
    return json.text();
}

} // namespace kael
