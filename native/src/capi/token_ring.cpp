// Tokens from the generating thread to an event loop. The calls of the consumer take no lock and
// never block, so that a caller may keep its interpreter lock across them.
#include "gpt/token_ring.h"

#include <cstdint>

#include "capi/guard.h"

using kael::gpt::TokenRing;

namespace {

// The opaque handle is the ring's own address: the two owners free it between them.
TokenRing* unwrap(void* ring) {
    return static_cast<TokenRing*>(ring);
}

} // namespace

extern "C" {

kael_status kael_token_ring_create(int64_t max_tokens, kael_token_ring** ring) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(ring);
        *ring = reinterpret_cast<kael_token_ring*>(TokenRing::create(max_tokens));
    });
}

int32_t kael_token_ring_descriptor(const kael_token_ring* ring) {
    return ring == nullptr ? -1 : reinterpret_cast<const TokenRing*>(ring)->descriptor();
}

int32_t kael_token_ring_push(void* ring, int64_t token) {
    const bool taken = ring != nullptr && unwrap(ring)->push(token);
    return taken ? KAEL_TOKEN_CONTINUE : KAEL_TOKEN_FAILED;
}

uint8_t kael_token_ring_stopping(void* ring) {
    return ring == nullptr || unwrap(ring)->stopping() ? 1 : 0;
}

void kael_token_ring_finish(kael_token_ring* ring) {
    if (ring != nullptr) {
        unwrap(ring)->finish();
    }
}

void kael_token_ring_stop(kael_token_ring* ring) {
    if (ring != nullptr) {
        unwrap(ring)->stop();
    }
}

kael_status kael_token_ring_drain(kael_token_ring* ring, kael_token_record* records,
                                  int64_t capacity, int64_t* count, uint8_t* done) {
    return kael::capi::guard([&] {
        KAEL_REQUIRE(ring);
        KAEL_REQUIRE(count);
        KAEL_REQUIRE(done);
        KAEL_CHECK(capacity >= 0, "a capacity of " << capacity << " records, expected 0 or more");
        KAEL_CHECK(records != nullptr || capacity == 0, "the argument records is null");
        kael_token_record* next = records;
        const TokenRing::Drained drained =
            unwrap(ring)->drain(capacity, [&next](const TokenRing::Record& record) {
                *next++ = {record.token, record.nanoseconds};
            });
        *count = drained.count;
        *done = drained.done ? 1 : 0;
    });
}

void kael_token_ring_free(kael_token_ring* ring) {
    if (ring != nullptr) {
        unwrap(ring)->release();
    }
}
}
