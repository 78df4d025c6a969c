#include <stdio.h>

#include "kael/kael.h"

int main(void) {
    if (kael_abi_version() != KAEL_ABI_VERSION) {
        fprintf(stderr, "the header says ABI %d, the library %d\n", KAEL_ABI_VERSION,
                (int)kael_abi_version());
        return 1;
    }
    printf("kael %s\n", kael_version());
    return 0;
}
