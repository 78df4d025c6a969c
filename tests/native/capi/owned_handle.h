// Handles of the C interface that free themselves.
#pragma once

#include "kael/kael.h"

namespace kael::test {

template <typename T, void (*Free)(T*)>
class Handle {
public:
    Handle() = default;
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { Free(value_); }

    T** operator&() { return &value_; } // where a function writes its result
    operator T*() const { return value_; }

private:
    T* value_ = nullptr;
};

using TensorHandle = Handle<kael_tensor, kael_tensor_free>;
using MapHandle = Handle<kael_tensor_map, kael_tensor_map_free>;
using TokenizerHandle = Handle<kael_tokenizer, kael_tokenizer_free>;
using GptHandle = Handle<kael_gpt, kael_gpt_free>;

} // namespace kael::test
