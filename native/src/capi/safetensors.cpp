// Named tensors, and the safetensors files that hold them.
#include "kael/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/in_quotes.h"
#include "capi/guard.h"
#include "capi/handles.h"

namespace {

using kael::io::LoadMode;

LoadMode mode_of(int32_t mode) {
    KAEL_CHECK(mode == KAEL_LOAD_COPY || mode == KAEL_LOAD_MAPPED,
               "the load mode is " << mode << ", expected KAEL_LOAD_COPY (" << KAEL_LOAD_COPY
                                   << ") or KAEL_LOAD_MAPPED (" << KAEL_LOAD_MAPPED << ')');
    return mode == KAEL_LOAD_COPY ? LoadMode::Copy : LoadMode::Mapped;
}

template <typename Entries>
const auto& entry_at(const Entries& entries, int64_t index) {
    KAEL_CHECK(index >= 0 && index < static_cast<int64_t>(entries.size()),
               "the index is " << index << ", expected at least 0 and less than "
                               << entries.size());
    return entries[static_cast<std::size_t>(index)];
}

void add(kael_tensor_map& map, std::string name, const kael::Tensor& tensor) {
    if (map.names.size() != map.tensors.size()) {
        for (const auto& entry : map.tensors) {
            map.names.insert(entry.first);
        }
    }
    const auto [place, is_new] = map.names.insert(name);
    KAEL_CHECK(is_new, "the tensor name " << kael::in_quotes(name) << " is there already");
    try {
        map.tensors.emplace_back(std::move(name), tensor);
    } catch (...) {
        map.names.erase(place); // both have it, or neither
        throw;
    }
}

void give(const std::string& text, const char** data, int64_t* length) {
    *data = text.c_str();
    *length = static_cast<int64_t>(text.size());
}

} // namespace

extern "C" {

kael_status kael_safetensors_load(const char* path, int64_t path_length, int32_t mode,
                                  kael_tensor_map** map) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        auto loaded =
            kael::io::read_safetensors(kael::capi::path(path, path_length, "path"), mode_of(mode));
        *map = new kael_tensor_map{std::move(loaded.tensors), std::move(loaded.metadata), {}};
    });
}

kael_status kael_safetensors_save(const kael_tensor_map* map, const char* path,
                                  int64_t path_length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        kael::io::write_safetensors(kael::capi::path(path, path_length, "path"), map->tensors,
                                    map->metadata);
    });
}

kael_status kael_tensor_map_create(kael_tensor_map** map) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        *map = new kael_tensor_map;
    });
}

kael_status kael_tensor_map_add(kael_tensor_map* map, const char* name, int64_t name_length,
                                const kael_tensor* tensor) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        KAEL_REQUIRE(tensor);
        add(*map, std::string(kael::capi::text(name, name_length, "name")), tensor->tensor);
    });
}

kael_status kael_tensor_map_add_metadata(kael_tensor_map* map, const char* key, int64_t key_length,
                                         const char* value, int64_t value_length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        const std::string_view new_key = kael::capi::text(key, key_length, "key");
        const bool known = std::any_of(map->metadata.begin(), map->metadata.end(),
                                       [&](const auto& entry) { return entry.first == new_key; });
        KAEL_CHECK(!known, "the metadata key " << kael::in_quotes(new_key) << " is there already");
        map->metadata.emplace_back(new_key, kael::capi::text(value, value_length, "value"));
    });
}

kael_status kael_tensor_map_size(const kael_tensor_map* map, int64_t* count) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        KAEL_REQUIRE(count);
        *count = static_cast<int64_t>(map->tensors.size());
    });
}

kael_status kael_tensor_map_get(const kael_tensor_map* map, int64_t index, const char** name,
                                int64_t* name_length, kael_tensor** tensor) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        KAEL_REQUIRE(name);
        KAEL_REQUIRE(name_length);
        KAEL_REQUIRE(tensor);
        const auto& entry = entry_at(map->tensors, index);
        *tensor = new kael_tensor{entry.second};
        give(entry.first, name, name_length);
    });
}

kael_status kael_tensor_map_metadata_size(const kael_tensor_map* map, int64_t* count) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        KAEL_REQUIRE(count);
        *count = static_cast<int64_t>(map->metadata.size());
    });
}

kael_status kael_tensor_map_get_metadata(const kael_tensor_map* map, int64_t index,
                                         const char** key, int64_t* key_length, const char** value,
                                         int64_t* value_length) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(map);
        KAEL_REQUIRE(key);
        KAEL_REQUIRE(key_length);
        KAEL_REQUIRE(value);
        KAEL_REQUIRE(value_length);
        const auto& entry = entry_at(map->metadata, index);
        give(entry.first, key, key_length);
        give(entry.second, value, value_length);
    });
}

void kael_tensor_map_free(kael_tensor_map* map) {
    delete map;
}
}
