// What the tests read, a file of every format, as small as shows something.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "kael/gpt.h"
#include "kael/safetensors.h"

#include "gpt/small_models.h"
#include "io/safetensors_file.h"
#include "temporary_folder.h"
#include "text/tokenizer_folder.h"

namespace kael::test {

class Files {
    TemporaryFolder folder_;

public:
    const std::filesystem::path images = folder_.path() / "images";
    const std::filesystem::path tensors = folder_.path() / "tensors";
    const std::filesystem::path shards = folder_.path() / "shards";
    const std::filesystem::path model = folder_.path() / "model";
    const std::filesystem::path vocab = model / "vocab.json";
    const std::filesystem::path merges = model / "merges.txt";
    const std::filesystem::path written = folder_.path() / "written"; // not there at first

    Files() {
        using namespace std::string_view_literals;
        std::filesystem::create_directory(shards);
        std::filesystem::create_directory(model);
        folder_.write("images", "\0\0\x8\x3\0\0\0\x2\0\0\0\x1\0\0\0\x2"
                                "abcd"sv);
        // The second tensor is not aligned, so that it is copied from a mapping.
        const std::string first =
            safetensors_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[1,9]},)"
                             R"("__metadata__":{"the name of what made it":"by hand, for tests"}})",
                             "123456789");
        folder_.write("tensors", first);
        folder_.write("shards/first", first);
        folder_.write("shards/second",
                      safetensors_file(
                          R"({"c":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}})", "1234"));
        folder_.write("shards/model.safetensors.index.json",
                      R"({"weight_map":{"a":"first","b":"first","c":"second"}})");

        const text::BytePairs pairs = {{"t", "h"}, {"th", "e"}, {" ", "the"}};
        folder_.write("model/vocab.json", text::byte_vocabulary(pairs));
        folder_.write("model/merges.txt", text::merges_file(pairs));
        gpt::Config config;
        config.vocab_size = 260;
        config.max_positions = 8;
        config.layers = 1;
        config.heads = 2;
        config.dimension = 8;
        folder_.write("model/config.json",
                      R"({"vocab_size":260,"n_positions":8,"n_layer":1,"n_head":2,"n_embd":8})");
        const gpt::GPT random(config, gpt::testing::spread_weights(config, 1));
        io::write_safetensors(model / "model.safetensors", random.parameters(), {});
    }
};

} // namespace kael::test
