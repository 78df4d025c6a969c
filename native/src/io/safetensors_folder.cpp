// A checkpoint folder: one file, or shards and the index that lists them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "base/in_quotes.h"
#include "base/input_file.h"
#include "io/json.h"

namespace kael::io {

namespace {

constexpr const char* kFileName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

using Names = std::set<std::string>;

// A shard lies beside the index: no folder, no "..", nothing that a file system or a terminal reads
// in its own way.
bool is_plain_file_name(std::string_view name) {
    const bool plain = std::none_of(name.begin(), name.end(), [](char character) {
        const auto byte = static_cast<unsigned char>(character);
        return byte < 0x20 || byte == 0x7F || byte == '/' || byte == '\\' || byte == ':';
    });
    return plain && !name.empty() && name != "." && name != "..";
}

// The tensors that each shard must hold.
std::map<std::string, Names> read_index(const std::filesystem::path& path) {
    const JsonValue index = read_json_file(path);
    const JsonValue* weights = index.find("weight_map");
    KAEL_CHECK_AS(ErrorCode::invalid_file, weights != nullptr && weights->kind == JsonKind::object,
                  path.string() << ": expected an object with the object \"weight_map\"");
    std::map<std::string, Names> shards;
    for (const JsonEntry& weight : weights->members) {
        KAEL_CHECK_AS(ErrorCode::invalid_file, weight.value.kind == JsonKind::string,
                      path.string()
                          << ": weight_map gives the tensor " << in_quotes(weight.key) << ' '
                          << name(weight.value.kind) << ", expected the name of a file");
        const std::string& shard = weight.value.string;
        KAEL_CHECK_AS(ErrorCode::invalid_file, is_plain_file_name(shard),
                      path.string()
                          << ": weight_map puts the tensor " << in_quotes(weight.key) << " into "
                          << in_quotes(shard) << ", expected the name of a file beside the index");
        shards[shard].insert(weight.key);
    }
    return shards;
}

// Moves the tensors of one shard behind those that are there, each one being expected once.
void append_shard(SafeTensors& all, SafeTensors shard, Names expected,
                  const std::filesystem::path& path, const std::filesystem::path& index) {
    for (auto& [name, tensor] : shard.tensors) {
        KAEL_CHECK_AS(ErrorCode::invalid_file, expected.erase(name) == 1,
                      path.string()
                          << " holds the tensor " << in_quotes(name) << ", which weight_map of "
                          << index.string() << " does not put there");
        all.tensors.emplace_back(std::move(name), std::move(tensor));
    }
    KAEL_CHECK_AS(ErrorCode::invalid_file, expected.empty(),
                  path.string() << " lacks the tensor " << in_quotes(*expected.begin())
                                << ", which weight_map of " << index.string() << " puts there");
    for (auto& entry : shard.metadata) {
        const bool known = std::any_of(all.metadata.begin(), all.metadata.end(),
                                       [&](auto& other) { return other.first == entry.first; });
        if (!known) {
            all.metadata.push_back(std::move(entry));
        }
    }
    all.copied_tensors += shard.copied_tensors;
    all.copied_bytes += shard.copied_bytes;
}

SafeTensors read_shards(const std::filesystem::path& folder, const std::filesystem::path& index,
                        LoadMode mode) {
    const std::map<std::string, Names> shards = read_index(index);
    for (const auto& [name, expected] : shards) {
        KAEL_CHECK_AS(ErrorCode::not_found, is_there(folder / name),
                      (folder / name).string()
                          << " does not exist, but weight_map of " << index.string()
                          << " names it for the tensor " << in_quotes(*expected.begin()));
    }
    SafeTensors all;
    for (const auto& [name, expected] : shards) {
        const std::filesystem::path path = folder / name;
        append_shard(all, read_safetensors(path, mode), expected, path, index);
    }
    return all;
}

} // namespace

SafeTensors read_safetensors_folder(const std::filesystem::path& folder, LoadMode mode) {
    const std::filesystem::path file = folder / kFileName;
    if (is_there(file)) {
        return read_safetensors(file, mode);
    }
    const std::filesystem::path index = folder / kIndexName;
    if (is_there(index)) {
        return read_shards(folder, index, mode);
    }
    std::error_code ignored;
    KAEL_CHECK_AS(ErrorCode::not_found, std::filesystem::exists(folder, ignored),
                  "the folder " << folder.string() << " does not exist");
    KAEL_CHECK_AS(ErrorCode::not_found, std::filesystem::is_directory(folder, ignored),
                  folder.string() << " is not a folder, expected one with " << kFileName << " or "
                                  << kIndexName);
    throw Error(ErrorCode::not_found, __FILE__, __LINE__, "a checkpoint in the folder",
                folder.string() + " holds neither " + kFileName + " nor " + kIndexName);
}

} // namespace kael::io
