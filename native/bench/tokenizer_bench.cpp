// Needs ../shared/data/tokenizer-gpt2, and ../shared/data/corpora for English text.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kael/tokenizer.h"

#include "base/mapped_file.h"

namespace kael::text {
namespace {

const std::filesystem::path kData = std::filesystem::path(KAEL_SOURCE_DIR) / "../shared/data";

BpeTokenizer load() {
    return {kData / "tokenizer-gpt2/vocab.json", kData / "tokenizer-gpt2/merges.txt"};
}

// Skips the benchmark, with the reason, where the data is absent.
bool data_is_there(benchmark::State& state) {
    const bool there = std::filesystem::exists(kData);
    if (!there) {
        state.SkipWithError("the data is not there: ../shared/data");
    }
    return there;
}

const BpeTokenizer& tokenizer() {
    static const BpeTokenizer loaded = load();
    return loaded;
}

// 13 books, 4.4 MB.
const std::string& english() {
    static const std::string text = [] {
        std::vector<std::filesystem::path> books;
        for (const auto& entry :
             std::filesystem::directory_iterator(kData / "corpora/standardebooks")) {
            books.push_back(entry.path());
        }
        std::ranges::sort(books);
        std::string all;
        for (const std::filesystem::path& book : books) {
            all += read_file(book, std::size_t{1} << 30);
        }
        return all;
    }();
    return text;
}

void load_gpt2(benchmark::State& state) {
    if (!data_is_there(state)) {
        return;
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(load().vocabulary_size());
    }
}
BENCHMARK(load_gpt2)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state, const std::string& text) {
    for (auto _ : state) {
        benchmark::DoNotOptimize(tokenizer().encode(text).data());
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void encode_english(benchmark::State& state) {
    if (!data_is_there(state)) {
        return;
    }
    encode(state, english());
}
BENCHMARK(encode_english)->Unit(benchmark::kMillisecond);

void encode_prompt(benchmark::State& state) {
    if (!data_is_there(state)) {
        return;
    }
    encode(state, english().substr(1 << 20, static_cast<std::size_t>(state.range(0))));
}
BENCHMARK(encode_prompt)->Arg(100)->Arg(2000)->Unit(benchmark::kMicrosecond);

void encode_one_word(benchmark::State& state) {
    if (!data_is_there(state)) {
        return;
    }
    encode(state, std::string(static_cast<std::size_t>(state.range(0)), 'a'));
}
BENCHMARK(encode_one_word)->Range(1 << 10, 1 << 20)->Unit(benchmark::kMicrosecond);

void decode_english(benchmark::State& state) {
    if (!data_is_there(state)) {
        return;
    }
    const std::vector<std::int64_t> ids = tokenizer().encode(english());
    for (auto _ : state) {
        benchmark::DoNotOptimize(tokenizer().decode(ids.data(), ids.size()).data());
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(english().size()));
}
BENCHMARK(decode_english)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace kael::text
