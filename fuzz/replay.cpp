// Runs a fuzzer without libFuzzer, once for each file that is named, or lies in a folder that is.
// The last file that it names is the one that ended it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const std::filesystem::path& seed) {
    std::printf("%s\n", seed.c_str());
    std::fflush(stdout);
    const std::string input = kael::test::read_whole(seed);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

} // namespace

int main(int argument_count, char** arguments) {
    std::size_t count = 0;
    for (int i = 1; i < argument_count; ++i) {
        if (std::filesystem::is_regular_file(arguments[i])) {
            replay(arguments[i]);
            ++count;
            continue;
        }
        if (!std::filesystem::is_directory(arguments[i])) {
            std::fprintf(stderr, "%s is neither a file nor a folder\n", arguments[i]);
            return EXIT_FAILURE;
        }
        for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
            replay(entry.path());
            ++count;
        }
    }
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
