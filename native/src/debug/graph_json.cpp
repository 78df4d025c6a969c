#include <cstdint>
#include <unordered_map>

#include "kael/anomaly.h"
#include "kael/debug.h"

#include "debug/graph_walk.h"
#include "io/json_writer.h"

namespace kael {

namespace {

// The storages that saved tensors keep alive, numbered as they are met.
class HeldStorages {
public:
    std::int64_t number_of(const Storage& storage) {
        const auto next = static_cast<std::int64_t>(numbers_.size());
        const auto [place, is_new] = numbers_.try_emplace(&storage, next);
        bytes_ += is_new ? storage.byte_count() : 0;
        return place->second;
    }
    [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

private:
    std::unordered_map<const Storage*, std::int64_t> numbers_;
    std::int64_t bytes_ = 0;
};

void write_saved(io::JsonWriter& json, const autograd::Node& node, HeldStorages& held) {
    json.key("saved").begin_array();
    for (const autograd::Node::Saved& saved : node.saved()) {
        const Storage& storage = *saved.tensor.storage();
        json.begin_object();
        json.key("shape").integers(saved.tensor.shape());
        json.key("dtype").string(name(saved.tensor.dtype()));
        json.key("bytes").integer(saved.tensor.nbytes());
        json.key("version").integer(static_cast<std::int64_t>(saved.version));
        json.key("version_now").integer(static_cast<std::int64_t>(storage.version()));
        json.key("storage").integer(held.number_of(storage));
        json.key("storage_bytes").integer(storage.byte_count());
        json.end_object();
    }
    json.end_array();
}

} // namespace

std::string autograd_graph_json(const Tensor& tensor) {
    io::JsonWriter nodes;
    io::JsonWriter edges;
    HeldStorages held;
    walk_graph(
        tensor,
        [&](std::size_t number, const autograd::Node& node) {
            nodes.begin_object();
            nodes.key("id").integer(static_cast<std::int64_t>(number));
            nodes.key("name").string(node.name());
            nodes.key("shape").integers(node.shape());
            nodes.key("dtype").string(name(node.dtype()));
            if (node.origin() != nullptr) {
                nodes.key("call_site").string(node.origin()->call_site);
            }
            write_saved(nodes, node, held);
            nodes.end_object();
        },
        [&](std::size_t from, std::size_t to, std::size_t operand,
            const autograd::NodeInput& input) {
            edges.begin_object();
            edges.key("from").integer(static_cast<std::int64_t>(from));
            edges.key("to").integer(static_cast<std::int64_t>(to));
            edges.key("operand").integer(static_cast<std::int64_t>(operand));
            edges.key("shape").integers(input.shape);
            edges.key("dtype").string(name(input.dtype));
            edges.end_object();
        });
    return R"({"nodes": [)" + nodes.text() + R"(], "edges": [)" + edges.text() +
           R"(], "held_bytes": )" + std::to_string(held.bytes()) + "}";
}

} // namespace kael
