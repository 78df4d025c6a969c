#include "session.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace kael::fuzz {

namespace {

bool is_one_line_of_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const kael::Utf8Character character = kael::decode_utf8(text, i);
        if (character.code_point == kael::kInvalidCharacter || character.code_point == '\n') {
            return false;
        }
        i += character.length;
    }
    return !text.empty();
}

} // namespace

std::int64_t item_size(kael_dtype dtype) {
    constexpr std::int64_t kSizes[] = {4, 8, 2, 2, 8, 4, 1, 1, 1};
    return dtype >= 0 && dtype < 9 ? kSizes[dtype] : 1;
}

const kael::text::TokenizerFolder
    Session::tokenizer_(kael::text::byte_vocabulary({{"t", "h"}, {"th", "e"}}),
                        kael::text::merges_file({{"t", "h"}, {"th", "e"}}));
const kael::test::TemporaryFolder Session::files_;
Session* Session::running_ = nullptr;

std::int64_t Session::size() {
    const std::uint8_t choice = input_.byte();
    return choice < 240 ? choice % 4 : kWrongSizes[choice % std::size(kWrongSizes)];
}

std::int64_t Session::integer() {
    const std::uint8_t choice = input_.byte();
    return choice < 240 ? choice % 8 - 2 : kWrongSizes[choice % std::size(kWrongSizes)];
}

Sizes Session::sizes() {
    Sizes result;
    const std::uint8_t choice = input_.byte();
    result.rank = choice < 240 ? choice % 5
                  : choice < 244
                      ? KAEL_MAX_RANK
                      : static_cast<std::int32_t>(kWrongSizes[choice % std::size(kWrongSizes)]);
    const int given = std::clamp(result.rank, 0, 20);
    for (int i = 0; i < given; ++i) {
        // A shape of many dimensions must stay small.
        const std::int64_t value = size();
        result.values[static_cast<std::size_t>(i)] = i < 4 || value < 0 || value > 3 ? value : 1;
    }
    return result;
}

kael_dtype Session::dtype() {
    const std::uint8_t choice = input_.byte();
    return choice < 250 ? choice % 9
                        : static_cast<kael_dtype>(kWrongSizes[choice % std::size(kWrongSizes)]);
}

Text Session::text() {
    const std::uint8_t choice = input_.byte();
    if (choice == 255) {
        must_fail_ = true;
        return {nullptr, 3};
    }
    if (choice == 254) {
        must_fail_ = true;
        return {"text", std::numeric_limits<std::int64_t>::min()};
    }
    if (choice == 253) {
        return {nullptr, 0};
    }
    const std::vector<char>& kept = texts_.emplace_back(input_.bytes(choice % 24));
    return {kept.data(), static_cast<std::int64_t>(kept.size())};
}

Text Session::path(bool is_written) {
    // With the configuration of the model that kael_gpt_load may find there.
    static const std::string folder =
        files_
            .write("config.json", R"({"vocab_size": 4, "n_positions": 4, "n_embd": 2,
                                      "n_layer": 1, "n_head": 1, "n_inner": 1})")
            .parent_path()
            .string();
    static const std::string paths[] = {folder + "/model.safetensors",
                                        folder + "/other",
                                        folder,
                                        folder + "/missing/file",
                                        folder + "/\xFF\n",
                                        folder + std::string("/a\0b", 4),
                                        folder + '/' + std::string(300, 'x'),
                                        "",
                                        tokenizer_.vocab_path().string(),
                                        tokenizer_.merges_path().string()};
    const std::uint8_t choice = input_.byte();
    if (choice >= 250) {
        must_fail_ = true;
        return choice % 2 == 0 ? Text{nullptr, 3} : Text{folder.data(), -1};
    }
    const std::string& chosen = paths[choice % (std::size(paths) - (is_written ? 2 : 0))];
    return {chosen.data(), static_cast<std::int64_t>(chosen.size())};
}

bool Session::succeeded(kael_status status) {
    require(status >= KAEL_OK && status <= KAEL_ANOMALY && status != KAEL_INTERNAL);
    const bool must_fail = std::exchange(must_fail_, false);
    if (status == KAEL_OK) {
        require(!must_fail);
        return true;
    }
    std::int64_t length = -1;
    const char* const message = kael_last_error_message(&length);
    require(is_one_line_of_utf8({message, static_cast<std::size_t>(length)}));
    const char* const whole = kael_last_error(&length);
    require(is_one_line_of_utf8({whole, static_cast<std::size_t>(length)}));
    require(kael_last_error_message(nullptr) == message);
    kael_last_anomaly(&length);
    require((length > 0) == (status == KAEL_ANOMALY));
    return false;
}

void Session::keep(kael_tensor* tensor) {
    kael_tensor_info info = {};
    info.struct_size = sizeof(info);
    require(succeeded(kael_tensor_describe(tensor, &info)));
    require(info.rank >= 0 && info.rank <= KAEL_MAX_RANK);
    require((info.data == nullptr) == (info.element_count == 0));
    if (info.element_count <= kMostElements) {
        read(info);
        tensors_.push_back(tensor);
    } else {
        kael_tensor_free(tensor);
    }
}

void Session::read(const kael_tensor_info& info) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(info.rank));
    const auto* const data = static_cast<const std::uint8_t*>(info.data);
    for (std::int64_t i = 0; i < info.element_count; ++i) {
        std::int64_t rest = i;
        std::int64_t place = 0;
        for (std::size_t d = index.size(); d-- > 0;) {
            place += rest % info.shape[d] * info.strides[d];
            rest /= info.shape[d];
        }
        for (std::int64_t byte = 0; byte < item_size(info.dtype); ++byte) {
            bytes_read_ += data[place * item_size(info.dtype) + byte];
        }
    }
}

std::int32_t Session::on_gradient(kael_tensor* gradient, kael_tensor** replacement,
                                  void* user_data) {
    Session& session = of(user_data);
    kael_tensor_free(gradient);
    if (!session.tensors_.empty() && session.input_.rarely(4)) {
        kael_tensor_share(session.one_of_tensors(), replacement);
    }
    return session.input_.rarely(16) ? 1 : 0;
}

std::int32_t Session::on_node(kael_tensor** gradients, std::int64_t count, kael_tensor* taken,
                              kael_tensor** replacements, std::uint8_t* replaces, void* user_data) {
    Session& session = of(user_data);
    std::for_each(gradients, gradients + count, kael_tensor_free);
    *replaces = session.input_.rarely(4) ? 1 : 0;
    if (*replaces != 0 && count > 0) {
        kael_tensor_share(taken,
                          &replacements[session.input_.below(static_cast<std::size_t>(count))]);
    }
    kael_tensor_free(taken);
    return session.input_.rarely(16) ? -1 : 0;
}

void Session::on_line(const char* line, std::int64_t length, void* user_data) {
    require(line != nullptr && length > 0);
    Session& session = **static_cast<Session**>(user_data);
    session.bytes_read_ += static_cast<std::uint8_t>(line[length - 1]);
}

std::int32_t Session::on_call_site(char* text, std::int64_t capacity, std::int64_t* length,
                                   void* user_data) {
    Session& session = of(user_data);
    *length = session.input_.rarely(8) ? session.integer() : 6;
    std::memcpy(text, "a.c:\xFF\n", static_cast<std::size_t>(std::min<std::int64_t>(6, capacity)));
    return session.input_.rarely(16) ? 1 : 0;
}

std::int32_t Session::on_token(void* user_data, std::int64_t /*token*/) {
    Session& session = of(user_data);
    return session.input_.rarely(8) ? static_cast<std::int32_t>(session.integer())
                                    : KAEL_TOKEN_CONTINUE;
}

std::uint8_t Session::should_stop(void* user_data) {
    return of(user_data).input_.rarely(16) ? 1 : 0;
}

std::int32_t Session::push(void* user_data, std::int64_t token) {
    Ring& ring = *static_cast<Ring*>(user_data);
    const std::int32_t answer = kael_token_ring_push(ring.handle, token);
    if (answer == KAEL_TOKEN_CONTINUE) {
        ring.pushed.push_back(token);
    }
    return answer;
}

std::uint8_t Session::is_stopping(void* user_data) {
    return kael_token_ring_stopping(static_cast<Ring*>(user_data)->handle);
}

} // namespace kael::fuzz
