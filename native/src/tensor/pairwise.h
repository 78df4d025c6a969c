// Sums of many parts in an order that depends on their number alone, and with errors that grow with
// its logarithm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kael::forward {

// Joins parts in pairs: two of one block each, two of two, and so on, as a binary counter carries.
template <typename Reduction>
class Pairwise {
public:
    using State = typename Reduction::State;

    void add(const Reduction& reduction, State part) {
        std::size_t level = 0;
        for (; (count_ >> level & 1) != 0; ++level) {
            part = reduction.combine(levels_[level], part);
        }
        levels_[level] = part;
        ++count_;
    }

    // Of all parts. There must be one.
    [[nodiscard]] State total(const Reduction& reduction) const {
        std::size_t level = 0;
        while ((count_ >> level & 1) == 0) {
            ++level;
        }
        State state = levels_[level];
        for (++level; count_ >> level != 0; ++level) {
            if ((count_ >> level & 1) != 0) {
                state = reduction.combine(levels_[level], state);
            }
        }
        return state;
    }

private:
    std::array<State, 64> levels_;
    std::uint64_t count_ = 0;
};

} // namespace kael::forward
