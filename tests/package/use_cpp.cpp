#include <cstdio>

#include "kael/error.h"
#include "kael/tensor.h"

int main() {
    const kael::Tensor table = kael::Tensor::zeros({2, 3}, kael::DType::float32);
    try {
        static_cast<void>(table.reshape({4}));
    } catch (const kael::Error& error) {
        std::puts(error.what());
        return 0;
    }
    std::puts("six elements took the shape of four");
    return 1;
}
