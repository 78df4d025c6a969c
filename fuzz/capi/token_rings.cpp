#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "session.h"

namespace kael::fuzz {

void Session::make_ring() {
    kael_token_ring* made = untouched<kael_token_ring>();
    const std::int64_t most = input_.rarely(8) ? integer() : input_.byte() % 4;
    take(kael_token_ring_create(most, out(made)), made, [this](kael_token_ring* ring) {
        require(kael_token_ring_descriptor(ring) >= 0);
        rings_.push_back({.handle = ring, .pushed = {}});
    });
}

void Session::produce() {
    require(kael_token_ring_push(nullptr, 1) == KAEL_TOKEN_FAILED);
    kael_token_ring_stopping(nullptr);
    kael_token_ring_finish(nullptr);
    if (rings_.empty()) {
        return;
    }
    Ring& ring = rings_[input_.below(rings_.size())];
    if (!ring.has_producer) {
        return;
    }
    const std::int64_t token = integer();
    switch (input_.below(8)) {
    case 0:
        kael_token_ring_finish(ring.handle);
        ring.has_producer = false;
        break;
    case 1:
        require(kael_token_ring_stopping(ring.handle) <= 1);
        break;
    default:
        push(&ring, token);
        break;
    }
}

void Session::consume() {
    require(kael_token_ring_descriptor(nullptr) == -1);
    kael_token_ring_stop(nullptr);
    kael_token_ring_free(nullptr);
    const bool is_null = rings_.empty() || input_.rarely(32);
    Ring nothing = {.handle = nullptr, .has_producer = false, .pushed = {}};
    Ring& ring = is_null ? nothing : rings_[input_.below(rings_.size())];
    must_fail_ = is_null;
    if (!ring.has_consumer) {
        return;
    }
    const std::size_t choice = input_.below(8);
    if (choice == 7 && !is_null) {
        kael_token_ring_free(ring.handle);
        ring.has_consumer = false;
        return;
    }
    if (choice == 6 && !is_null) {
        kael_token_ring_stop(ring.handle);
        require(!ring.has_producer || kael_token_ring_stopping(ring.handle) == 1);
        return;
    }
    std::vector<kael_token_record> records(choice);
    std::int64_t count = -1;
    std::uint8_t done = 7;
    const kael_status status = kael_token_ring_drain(
        ring.handle, records.data(), input_.rarely(32) ? -1 : static_cast<std::int64_t>(choice),
        out(count), out(done));
    if (succeeded(status)) {
        require(count == std::min(static_cast<std::int64_t>(choice),
                                  static_cast<std::int64_t>(ring.pushed.size())));
        for (std::int64_t i = 0; i < count; ++i) {
            require(records[static_cast<std::size_t>(i)].token == ring.pushed.front());
            ring.pushed.pop_front();
        }
        require((done == 1) == (!ring.has_producer && ring.pushed.empty()));
    } else {
        require(count == -1 && done == 7);
    }
}

} // namespace kael::fuzz
