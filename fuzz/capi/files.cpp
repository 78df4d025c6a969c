#include <cstdint>

#include "session.h"

namespace kael::fuzz {

void Session::maps() {
    if (maps_.empty() || input_.rarely(8)) {
        kael_tensor_map* made = untouched<kael_tensor_map>();
        take(kael_tensor_map_create(out(made)), made, maps_);
        return;
    }
    kael_tensor_map* const map = one(maps_);
    if (input_.rarely(2)) {
        const Text name = text();
        succeeded(kael_tensor_map_add(map, name.data, name.length, one(tensors_)));
        return;
    }
    std::int64_t count = -1;
    if (!succeeded(kael_tensor_map_size(map, out(count)))) {
        require(count == -1);
        return;
    }
    const std::int64_t index = input_.rarely(8) ? integer() : input_.byte() % (count + 1);
    const char* name = nullptr;
    std::int64_t length = -1;
    kael_tensor* made = untouched<kael_tensor>();
    const kael_status status = kael_tensor_map_get(map, index, out(name), out(length), out(made));
    require(status != KAEL_OK || (index >= 0 && index < count && name[length] == '\0'));
    take(status, made);
}

void Session::metadata() {
    kael_tensor_map* const map = one(maps_);
    if (input_.rarely(2)) {
        const Text key = text();
        const Text value = text();
        succeeded(
            kael_tensor_map_add_metadata(map, key.data, key.length, value.data, value.length));
        return;
    }
    std::int64_t count = -1;
    succeeded(kael_tensor_map_metadata_size(map, out(count)));
    const char* key = nullptr;
    const char* value = nullptr;
    std::int64_t key_length = -1;
    std::int64_t value_length = -1;
    const std::int64_t index = integer();
    if (succeeded(kael_tensor_map_get_metadata(one(maps_), index, out(key), out(key_length),
                                               out(value), out(value_length)))) {
        require(index >= 0 && key[key_length] == '\0' && value[value_length] == '\0');
    } else {
        require(key == nullptr && value_length == -1);
    }
}

void Session::files() {
    const bool saves = input_.rarely(2);
    const Text file = path(saves);
    if (saves) {
        has_saved_ = true;
        succeeded(kael_safetensors_save(one(maps_), file.data, file.length));
        return;
    }
    const std::int32_t mode = input_.rarely(16) ? static_cast<std::int32_t>(integer())
                                                : static_cast<std::int32_t>(input_.below(2));
    kael_tensor_map* made = untouched<kael_tensor_map>();
    take(kael_safetensors_load(file.data, file.length, mode, out(made)), made, maps_);
}

} // namespace kael::fuzz
