#include <filesystem>
#include <iostream>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/tokenizer.h"

int main(int count, char** arguments) {
    if (count != 2) {
        std::cerr << "expected one argument, the folder of a model\n";
        return 2;
    }
    try {
        const std::filesystem::path folder = arguments[1];
        kael::gpt::GPT model = kael::gpt::GPT::from_pretrained(folder);
        const kael::text::BpeTokenizer tokenizer(folder / "vocab.json", folder / "merges.txt");

        const auto prompt = tokenizer.encode("Once upon a time");
        kael::gpt::GenerateOptions options;
        options.max_tokens = 24;
        options.temperature = 0.8;
        options.top_k = 40;
        options.seed = 1;
        const auto result = model.generate(prompt.data(), std::ssize(prompt), options);
        std::cout << tokenizer.decode(result.tokens.data(), result.tokens.size()) << '\n';
    } catch (const kael::Error& error) {
        std::cerr << error.message() << '\n';
        return 1;
    }
}
