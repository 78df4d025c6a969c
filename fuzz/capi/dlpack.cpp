#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "session.h"

namespace kael::fuzz {

namespace {

template <typename Managed>
void give_back(Managed* managed) {
    ++static_cast<Foreign<Managed>*>(managed->context)->times_given_back;
}

struct Capsule {
    const char* name;
    void* managed;
};

std::int32_t capsule_is_valid(void* capsule, const char* name) {
    return std::strcmp(static_cast<Capsule*>(capsule)->name, name) == 0 ? 1 : 0;
}

void* capsule_pointer(void* capsule, const char* /*name*/) {
    return static_cast<Capsule*>(capsule)->managed;
}

} // namespace

void Session::share_by_dlpack() {
    const kael_tensor* const tensor = one(tensors_);
    const bool versioned = input_.rarely(2);
    void* managed = untouched<void>();
    const kael_status status =
        kael_tensor_to_dlpack(tensor, versioned ? 1 : 0, input_.byte() % 2, out(managed));
    if (!succeeded(status)) {
        require(managed == untouched<void>());
    } else if (input_.rarely(2)) { // consumed here, else by finish()
        kael_tensor* made = untouched<kael_tensor>();
        take(kael_tensor_from_dlpack(managed, versioned ? 1 : 0, out(made)), made);
    } else if (versioned) {
        shared_versioned_.push_back(static_cast<dlpack::ManagedVersioned*>(managed));
    } else {
        shared_.push_back(static_cast<dlpack::Managed*>(managed));
    }
}

template <typename Managed>
void Session::adopt_by_dlpack(bool versioned) {
    Foreign<Managed>* foreign = nullptr;
    if constexpr (std::is_same_v<Managed, dlpack::Managed>) {
        foreign = &foreign_.emplace_back();
    } else {
        foreign = &foreign_versioned_.emplace_back();
        foreign->managed.version = {input_.rarely(8) ? 2U : 1U, input_.rarely(8) ? 9U : 0U};
        foreign->managed.flags = input_.one_of<std::uint64_t>({0, 1, 2, 3, 0, 1, 2, ~0ULL});
    }
    foreign->managed.context = foreign;
    foreign->managed.deleter = give_back<Managed>;
    dlpack::View& described = foreign->managed.view;
    described.data = foreign->memory.data();
    described.device = {input_.rarely(16) ? 2 : dlpack::kCpu, input_.rarely(16) ? 7 : 0};
    described.rank = input_.rarely(16)
                         ? input_.one_of<std::int32_t>({-1, 17, std::numeric_limits<int>::min(),
                                                        std::numeric_limits<int>::max()})
                         : static_cast<std::int32_t>(input_.below(4));
    described.dtype = {input_.one_of<std::uint8_t>({0, 1, 2, 4, 6, 3, 5, 255}),
                       input_.one_of<std::uint8_t>({8, 16, 32, 64, 1, 128, 0, 255}),
                       static_cast<std::uint16_t>(input_.rarely(16) ? input_.below(4) : 1)};
    // Of 64 bytes no more than all are seen: 2 * 2 * 2 elements of at most 8 bytes.
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < foreign->shape.size(); ++i) {
        foreign->shape[i] = static_cast<std::int64_t>(input_.below(3));
        foreign->shape[i] = input_.rarely(32) ? -1 : foreign->shape[i];
        foreign->strides[i] = input_.rarely(32) ? -1 : stride;
        stride *= i < 3 ? 2 : 0;
    }
    described.shape = input_.rarely(32) ? nullptr : foreign->shape.data();
    described.strides = input_.rarely(4) ? nullptr : foreign->strides.data();
    described.byte_offset = 0;
    kael_tensor* made = untouched<kael_tensor>();
    take(kael_tensor_from_dlpack(&foreign->managed, versioned ? 1 : 0, out(made)), made);
}

void Session::adopt_by_dlpack() {
    if (input_.rarely(32)) {
        kael_tensor* made = untouched<kael_tensor>();
        must_fail_ = true;
        take(kael_tensor_from_dlpack(nullptr, input_.byte() % 2, &made), made);
    } else if (input_.rarely(2)) {
        adopt_by_dlpack<dlpack::ManagedVersioned>(true);
    } else {
        adopt_by_dlpack<dlpack::Managed>(false);
    }
}

void Session::end_capsule() {
    const bool knows = !input_.rarely(8);
    kael_dlpack_set_capsule_functions(knows ? capsule_is_valid : nullptr, capsule_pointer);
    Foreign<dlpack::Managed> foreign;
    foreign.managed.context = &foreign;
    const bool has_deleter = !input_.rarely(8);
    foreign.managed.deleter = has_deleter ? give_back<dlpack::Managed> : nullptr;
    const bool is_consumed = input_.rarely(4);
    const bool is_null = input_.rarely(8);
    Capsule capsule = {is_consumed ? "used_dltensor" : "dltensor",
                       is_null ? nullptr : &foreign.managed};
    kael_dlpack_end_capsule(&capsule);
    const bool given_back = knows && has_deleter && !is_consumed && !is_null;
    require(foreign.times_given_back == (given_back ? 1 : 0));
    kael_dlpack_set_capsule_functions(nullptr, nullptr);
}

} // namespace kael::fuzz
