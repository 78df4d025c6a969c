// Accepted or refused, and why: tests/data/safetensors_verdicts.json, which tests/py checks against
// the reference as well, and the files of other projects in ../shared/data/safetensors-cases.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/safetensors.h"

#include "base/mapped_file.h"
#include "io/json.h"
#include "io/safetensors_file.h"
#include "temporary_folder.h"

namespace {

using kael::ErrorCode;
using kael::io::JsonKind;
using kael::io::JsonValue;
using kael::io::LoadMode;

struct Verdict {
    std::optional<ErrorCode> refused; // nothing: accepted
    std::string message;
};

Verdict load(const std::filesystem::path& path, LoadMode mode) {
    try {
        (void)kael::io::read_safetensors(path, mode);
        return {};
    } catch (const kael::Error& error) {
        return {error.code(), error.message()};
    }
}

std::string from_hexadecimal(const std::string& digits) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

// The table's text holds one byte in each character up to U+00FF.
std::string from_latin1(const std::string& utf8) {
    std::string bytes;
    for (std::size_t i = 0; i < utf8.size(); ++i) {
        const auto byte = static_cast<unsigned char>(utf8[i]);
        bytes += byte < 0x80 ? utf8[i]
                             : static_cast<char>((byte & 3) << 6 |
                                                 (static_cast<unsigned char>(utf8[++i]) & 0x3F));
    }
    return bytes;
}

std::string file_of(const JsonValue& row) {
    if (const JsonValue* file = row.find("file")) {
        return from_hexadecimal(file->string);
    }
    std::string header;
    for (const JsonValue& part : row.find("header")->elements) {
        const bool repeated = part.kind == JsonKind::object;
        const std::string text = from_latin1(repeated ? part.find("text")->string : part.string);
        const std::uint64_t times = repeated ? part.find("times")->unsigned_integer : 1;
        for (std::uint64_t i = 0; i < times; ++i) {
            header += text;
        }
    }
    const JsonValue* length = row.find("length");
    return kael::test::length_prefix(length != nullptr ? length->unsigned_integer : header.size()) +
           header + from_hexadecimal(row.find("data")->string);
}

std::optional<ErrorCode> code_of(const std::string& verdict) {
    if (verdict == "accept") {
        return std::nullopt;
    }
    return verdict == "unsupported" ? ErrorCode::unsupported : ErrorCode::invalid_file;
}

TEST(SafeTensorsVerdicts, AreThoseOfTheTableInBothModes) {
    const kael::test::TemporaryFolder folder;
    const JsonValue table =
        kael::io::read_json_file(KAEL_SOURCE_DIR "/tests/data/safetensors_verdicts.json");
    ASSERT_GT(table.elements.size(), 200U);
    for (const JsonValue& row : table.elements) {
        SCOPED_TRACE(row.find("case")->string);
        const std::filesystem::path path = folder.write("case.safetensors", file_of(row));
        const std::optional<ErrorCode> expected = code_of(row.find("kael")->string);
        const Verdict copied = load(path, LoadMode::Copy);
        EXPECT_EQ(copied.refused, expected) << copied.message;
        if (const JsonValue* reason = row.find("reason")) {
            EXPECT_NE(copied.message.find(reason->string), std::string::npos) << copied.message;
            EXPECT_TRUE(copied.message.starts_with(path.string() + ": ")) << copied.message;
        }
        const Verdict mapped = load(path, LoadMode::Mapped);
        EXPECT_EQ(mapped.refused, copied.refused) << mapped.message;
        EXPECT_EQ(mapped.message, copied.message);
    }
}

TEST(SafeTensorsVerdicts, AgreeWithTheReferenceOnFilesOfOtherProjects) {
    const std::filesystem::path cases = KAEL_SOURCE_DIR "/../shared/data/safetensors-cases";
    if (!std::filesystem::exists(cases)) {
        GTEST_SKIP() << "the recorded verdicts are not there: ../shared/data/safetensors-cases";
    }
    const JsonValue expected = kael::io::read_json_file(cases / "expected_safetensors_0.8.0.json");
    ASSERT_FALSE(expected.members.empty());
    for (const auto& [name, verdict] : expected.members) {
        SCOPED_TRACE(name);
        const bool accepted = verdict.find("accept")->boolean;
        for (const LoadMode mode : {LoadMode::Copy, LoadMode::Mapped}) {
            const Verdict ours = load(cases / name, mode);
            EXPECT_EQ(!ours.refused.has_value(), accepted) << ours.message;
            if (accepted && !ours.refused.has_value()) {
                EXPECT_EQ(kael::io::read_safetensors(cases / name, mode).tensors.size(),
                          verdict.find("n_tensors")->unsigned_integer);
            }
        }
    }
}

} // namespace
