// The C++ library: what reads and writes files, and what needs memory alone.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/allocator.h"
#include "kael/autograd.h"
#include "kael/creation.h"
#include "kael/gpt.h"
#include "kael/idx.h"
#include "kael/operators.h"
#include "kael/random.h"
#include "kael/safetensors.h"
#include "kael/tokenizer.h"

#include "base/current_operator.h"
#include "digest.h"
#include "fault_injection.h"
#include "files.h"

namespace {

using kael::DType;
using kael::Tensor;
using kael::io::LoadMode;
using kael::test::Digest;
using kael::test::expect_clean_failures;
using kael::test::Fault;

class Faults : public testing::Test {
protected:
    static void expect_clean(std::initializer_list<Fault> faults,
                             const std::function<std::uint64_t()>& body) {
        for (const Fault fault : faults) {
            SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
            expect_clean_failures(fault, [&] {
                kael::release_cached_memory(); // or a kept block would do for a new one
                const std::uint64_t result = body();
                kael::release_cached_memory();
                return result;
            });
            if (HasFatalFailure()) {
                return;
            }
        }
    }

    static std::uint64_t digest_of(const kael::io::SafeTensors& loaded) {
        Digest digest;
        for (const auto& [name, tensor] : loaded.tensors) {
            digest.add(name).add(tensor);
        }
        for (const auto& [key, value] : loaded.metadata) {
            digest.add(key).add(value);
        }
        return digest.value();
    }

    const kael::test::Files files_;
};

constexpr std::initializer_list<Fault> kMemory = {Fault::allocation, Fault::no_memory};
constexpr std::initializer_list<Fault> kReading = {
    Fault::allocation,   Fault::no_memory,       Fault::open_refused, Fault::size_refused,
    Fault::read_refused, Fault::read_at_the_end, Fault::read_short,   Fault::read_interrupted};
constexpr std::initializer_list<Fault> kMapping = {Fault::allocation, Fault::no_memory,
                                                   Fault::open_refused, Fault::size_refused,
                                                   Fault::map_refused};
constexpr std::initializer_list<Fault> kWriting = {Fault::allocation,   Fault::no_memory,
                                                   Fault::open_refused, Fault::write_refused,
                                                   Fault::write_short,  Fault::sync_refused};

TEST_F(Faults, OfReadingSafetensors) {
    expect_clean(kReading, [&] {
        return digest_of(kael::io::read_safetensors(files_.tensors, LoadMode::Copy));
    });
    expect_clean(kReading, [&] {
        return digest_of(kael::io::read_safetensors_folder(files_.shards, LoadMode::Copy));
    });
}

TEST_F(Faults, OfMappingSafetensors) {
    expect_clean(kMapping, [&] {
        return digest_of(kael::io::read_safetensors(files_.tensors, LoadMode::Mapped));
    });
    expect_clean(kMapping, [&] {
        return digest_of(kael::io::read_safetensors_folder(files_.shards, LoadMode::Mapped));
    });
}

TEST_F(Faults, OfReadingImages) {
    expect_clean(kReading,
                 [&] { return Digest().add(kael::data::read_idx_images(files_.images)).value(); });
}

TEST_F(Faults, OfReadingATokenizer) {
    expect_clean(kReading, [&] {
        const kael::text::BpeTokenizer tokenizer(files_.vocab, files_.merges);
        return Digest().add(tokenizer.encode("the")).value();
    });
}

TEST_F(Faults, OfLoadingAModel) {
    expect_clean({Fault::allocation, Fault::no_memory, Fault::open_refused, Fault::size_refused,
                  Fault::read_refused, Fault::read_at_the_end, Fault::read_short,
                  Fault::map_refused},
                 [&] {
                     kael::gpt::GPT model = kael::gpt::GPT::from_pretrained(files_.model);
                     const std::int64_t ids[] = {1, 2, 3};
                     return Digest().add(model.logits(ids, 1, 3)).value();
                 });
}

TEST_F(Faults, OfWritingSafetensors) {
    const auto loaded = kael::io::read_safetensors(files_.tensors, LoadMode::Copy);
    expect_clean(kWriting, [&] {
        kael::io::write_safetensors(files_.written, loaded.tensors, loaded.metadata);
        return Digest().add(kael::test::read_whole(files_.written)).value();
    });
}

TEST_F(Faults, OfText) {
    const kael::text::BpeTokenizer tokenizer(files_.vocab, files_.merges);
    expect_clean(kMemory, [&] {
        const auto ids = tokenizer.encode("the other <|endoftext|>, then 12 ways", true);
        return Digest().add(ids).add(tokenizer.decode(ids.data(), ids.size())).value();
    });
}

TEST_F(Faults, OfTensors) {
    expect_clean(kMemory, [] {
        const Tensor sizes = kael::arange(std::int64_t{0}, std::int64_t{6}, std::int64_t{1});
        const Tensor x = sizes.to(DType::float32).view({2, 3}).transpose(0, 1).contiguous();
        return Digest().add(kael::matmul(x, x.transpose(0, 1).clone())).value();
    });
}

TEST_F(Faults, OfLargeTensors) {
    if (!kael::caching_allocator_enabled()) {
        GTEST_SKIP() << "without the caching allocator no tensor is a mapping of its own";
    }
    expect_clean({Fault::allocation, Fault::no_memory, Fault::map_refused}, [] {
        const Tensor large = Tensor::zeros({1 << 20}, DType::float32);
        return Digest().add(large.slice(0, 0, 1)).value();
    });
}

// Blocks that it had no memory to note are missing as a whole.
TEST_F(Faults, OfRecordingMemory) {
    expect_clean({Fault::allocation}, [] {
        kael::MemoryRecording recording;
        const auto made_by = [](const char* name) {
            const kael::OperatorScope scope(name);
            return Tensor::zeros({64}, DType::float32);
        };
        const Tensor tensors[] = {made_by("first"), made_by("second"), made_by("second"),
                                  made_by("third"), made_by("first")};
        const kael::MemoryTimeline timeline = recording.timeline();
        std::int64_t of_operators = 0;
        for (const auto& [name, bytes] : timeline.peak_by_operator) {
            of_operators += bytes;
        }
        const std::int64_t noted = timeline.allocations * tensors[0].nbytes();
        return static_cast<std::uint64_t>(timeline.live_bytes == noted &&
                                          timeline.peak_bytes == noted && of_operators == noted);
    });
}

TEST_F(Faults, OfGradients) {
    expect_clean(kMemory, [] {
        Tensor x = Tensor::zeros({2, 3}, DType::float32);
        x.set_requires_grad(true);
        kael::sum(kael::exp(x) * x + x).backward();
        return Digest().add(x.grad()).value();
    });
}

TEST_F(Faults, OfGenerating) {
    kael::gpt::GPT model = kael::gpt::GPT::from_pretrained(files_.model);
    expect_clean(kMemory, [&] {
        kael::gpt::GenerateOptions options;
        options.max_tokens = 12; // beyond the window
        options.seed = 1;
        const std::int64_t ids[] = {1, 2, 3};
        return Digest().add(model.generate(ids, 3, options).tokens).value();
    });
}

// A model that could not load others keeps the weights that it has.
TEST_F(Faults, OfLoadingOtherWeights) {
    kael::gpt::GPT model = kael::gpt::GPT::from_pretrained(files_.model);
    const std::int64_t ids[] = {1, 2, 3};
    const auto result = [&] { return Digest().add(model.logits(ids, 1, 3)).value(); };
    const std::uint64_t expected = result();
    expect_clean({Fault::allocation, Fault::open_refused, Fault::size_refused, Fault::map_refused},
                 [&] {
                     try {
                         model.load_weights(files_.model / "model.safetensors");
                     } catch (...) {
                         EXPECT_EQ(result(), expected);
                         throw;
                     }
                     return result();
                 });
}

// All parameters can be written, and are what the model computes with, or none.
TEST_F(Faults, OfMakingParametersWritable) {
    expect_clean({Fault::allocation, Fault::no_memory}, [&] {
        kael::gpt::GPT model = kael::gpt::GPT::from_pretrained(files_.model);
        const auto parameters = model.parameters();
        const auto writable = [&] {
            return std::count_if(parameters.begin(), parameters.end(), [](const auto& parameter) {
                return !parameter.second.storage()->is_read_only();
            });
        };
        try {
            model.make_parameters_writable();
        } catch (...) {
            EXPECT_EQ(writable(), 0);
            throw;
        }
        EXPECT_EQ(writable(), std::ssize(parameters));
        Tensor bias = model.weights().ln_f_bias;
        const std::int64_t ids[] = {1, 2, 3};
        Digest digest;
        digest.add(model.logits(ids, 1, 3));
        bias.mutable_data<float>()[0] += 1;
        return digest.add(model.logits(ids, 1, 3)).value();
    });
}

// The keys and values of the first prompt, which is no part of the second, are given up before
// there is memory for those of the second.
TEST_F(Faults, OfALongerPromptThanTheOneBefore) {
    kael::gpt::Config config;
    config.vocab_size = 20;
    config.max_positions = 64;
    config.layers = 1;
    config.heads = 2;
    config.dimension = 8;
    const std::vector<std::int64_t> shorter = {3};
    const std::vector<std::int64_t> longer(50, 1);
    kael::gpt::GenerateOptions options;
    options.max_tokens = 2;
    options.seed = 1;
    expect_clean(kMemory, [&] {
        kael::manual_seed(1);
        kael::gpt::GPT model(config);
        const auto next = [&](const std::vector<std::int64_t>& prompt) {
            return model.generate(prompt.data(), std::ssize(prompt), options).tokens;
        };
        Digest digest;
        digest.add(next(shorter));
        try {
            digest.add(next(longer));
        } catch (...) {
            static_cast<void>(next(shorter)); // the model is as good as before
            throw;
        }
        return digest.value();
    });
}

} // namespace
