#include <cstddef>
#include <limits>
#include <thread>

// One fault per function; compiled without optimisation, which would remove them.
#define CANARY __attribute__((visibility("default")))
extern "C" {

CANARY char* kael_canary_block = nullptr;
CANARY int kael_canary_number = 0;

CANARY void leak() {
    kael_canary_block = new char[77];
    kael_canary_block = nullptr;
}

CANARY void overflow() {
    kael_canary_block = new char[8];
    kael_canary_block[8 + static_cast<std::size_t>(kael_canary_number)] = 1;
}

CANARY void undefined() {
    kael_canary_number = std::numeric_limits<int>::max();
    kael_canary_number += 1;
}

CANARY void race() {
    std::thread other([] { kael_canary_number = 1; });
    kael_canary_number = 2;
    other.join();
}
}
