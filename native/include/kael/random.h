// Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", 2011), a counter-based generator, so that the n-th number of a seed is the same on
// every machine and for any number of threads.
#pragma once

#include <cstdint>

namespace kael {

// One stream. Not thread-safe.
class RandomStream {
public:
    explicit RandomStream(std::uint64_t seed) : seed_(seed) {}

    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
    // Words drawn so far, or skipped.
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    // Goes on at a word, as if all before it had been drawn as words.
    void seek(std::uint64_t position);
    std::uint64_t next_bits();
    double next_uniform(); // [0, 1), a multiple of 2^-53
    // Mean 0, standard deviation 1 (Box-Muller: each two share two words). Goes through the C
    // library's logarithm, sine and cosine, whose last bit differs between libraries.
    double next_normal();

private:
    std::uint64_t seed_;
    std::uint64_t position_ = 0;
    std::uint64_t second_word_ = 0; // of the block that an odd position is in
    double second_normal_ = 0;
    bool has_second_normal_ = false;
};

// Restarts the process's stream, from which random weights, dropout and unseeded generations draw.
// Any thread.
void manual_seed(std::uint64_t seed);

// Where the process's stream is: its seed, and how many words were drawn since.
struct RandomState {
    std::uint64_t seed = 0;
    std::uint64_t position = 0;
    bool operator==(const RandomState&) const = default;
};

// What is drawn after set_random_state(random_state()) is what would have been drawn without it.
// Any thread.
[[nodiscard]] RandomState random_state();
void set_random_state(RandomState state);

// 64 bits of the process's stream: the seed for a stream of one's own. Any thread. Starts from seed
// 0 when manual_seed was never called.
[[nodiscard]] std::uint64_t draw_seed();

} // namespace kael
