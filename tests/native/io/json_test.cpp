#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"

#include "io/json.h"
#include "temporary_folder.h"

namespace {

using kael::io::JsonKind;
using kael::io::JsonMember;
using kael::io::JsonValue;
using kael::io::JsonVisitor;
using kael::io::parse_json;

using namespace std::string_literals;

// The message of the refusal, or "" when the text is accepted.
std::string refusal(std::string_view text) {
    try {
        (void)parse_json(text, "f.json");
        return "";
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.code(), kael::ErrorCode::invalid_file);
        EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
        return error.message();
    }
}

std::string nested(std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
}

TEST(Json, AcceptsWhatRfc8259Allows) {
    const std::vector<std::string> texts = {"null",
                                            "true",
                                            "false",
                                            "0",
                                            "-0",
                                            "-0.0",
                                            "1",
                                            "-1",
                                            "1.5",
                                            "1e5",
                                            "1E+5",
                                            "1e-5",
                                            "-1.5e3",
                                            "123456789012345678901234567890",
                                            "-123456789012345678901234567890",
                                            "1e-400",
                                            "\"\"",
                                            "\"a\"",
                                            "[]",
                                            "{}",
                                            " \t\r\n[ 1 , 2 ]\n",
                                            "[[],[[]],{}]",
                                            "{\"\":null}",
                                            "{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}",
                                            R"("\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00")",
                                            R"("\u0000")",
                                            "\"\x7F\"",
                                            "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
                                            "\"\xEF\xBB\xBF\"",
                                            "\"\xF4\x8F\xBF\xBF\"",
                                            "\"\xED\x9F\xBF\xEE\x80\x80\"",
                                            nested(127)};
    for (const std::string& text : texts) {
        EXPECT_EQ(refusal(text), "") << text;
    }
}

TEST(Json, RefusesEverythingElse) {
    const std::vector<std::string> texts = {
        // no value, more than one, or half of one
        "", " ", "\n", "1 2", "{}{}", "[]]", "[", "{", "[1", "[1,", "{\"a\"", "{\"a\":", "{\"a\":1",
        "{\"a\":1,", "\"", "\"a", "nul", "tru", "falsey", "]", "}", ",", ":", "[1}", "{\"a\":1]",
        // commas and colons
        "[1,]", "[,1]", "[1,,2]", "[1 2]", "{\"a\":1,}", "{,}", "{\"a\" 1}", "{\"a\"::1}",
        "{\"a\",1}", "{:1}", "[\"a\":1]",
        // keys
        "{1:2}", "{a:1}", "{null:1}", "{'a':1}", "{[]:1}",
        // numbers
        "01", "-01", "+1", ".5", "1.", "-", "-.5", "1e", "1e+", "1.e5", "0x10", "1_000", "NaN",
        "Infinity", "-Infinity", "inf", "1e400", "-1e400", "\xD9\xA1",
        // strings
        "'a'", "\"\t\"", "\"\n\"", "\"\x01\"", "\"\x1F\"", R"("\a")", R"("\x41")", R"("\u12")",
        R"("\u12g4")", R"("\")", R"("\uD800")", R"("\uDC00")", R"("\uD800\uD800")",
        R"("\uD800\u0041")", R"("\uD800a")", R"("\u")", R"("\U0041")",
        // literals
        "True", "NULL", "nulll", "None", "undefined",
        // comments, other spaces, bytes that are not JSON
        "// c\n1", "/* c */1", "1 // c", "# c\n1",
        "\x0B"s
        "1",
        "\x0C"s
        "1",
        "\xC2\xA0"
        "1",
        "\xEF\xBB\xBF"
        "1",
        "\xEF\xBB\xBF", "\xFE\xFF", "1\0"s, "\0"s, "[1,\0]"s, "\"\0\""s, "{}\0garbage"s, "[1]\x80",
        // ill-formed UTF-8
        "\"\x80\"", "\"\xBF\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xC2\"", "\"\xC2\x41\"",
        "\"\xE0\x80\x80\"", "\"\xE0\x9F\xBF\"", "\"\xED\xA0\x80\"", "\"\xED\xBF\xBF\"",
        "\"\xE2\x82\"", "\"\xF0\x80\x80\x80\"", "\"\xF0\x8F\xBF\xBF\"", "\"\xF4\x90\x80\x80\"",
        "\"\xF5\x80\x80\x80\"", "\"\xF0\x9F\x98\"", "\"\xFE\"", "\"\xFF\"", "{\"\xFF\":1}",
        // depth (KB023)
        nested(128), std::string(100000, '['), std::string("{\"a\":[").append(nested(126)) + "]}"};
    for (const std::string& text : texts) {
        EXPECT_NE(refusal(text), "") << text.substr(0, 40);
    }
    std::string objects;
    for (int i = 0; i < 500000; ++i) {
        objects += "{\"a\":";
    }
    EXPECT_EQ(refusal(objects),
              "f.json: byte 636: more than 127 arrays and objects in one another");
}

TEST(Json, RefusalNamesPathByteAndReason) {
    EXPECT_EQ(refusal("[1,\0]"s), "f.json: byte 3: a NUL byte is not JSON");
    EXPECT_EQ(refusal("\xEF\xBB\xBF{}"), "f.json: byte 0: a byte order mark is not JSON");
    EXPECT_EQ(refusal("[1e999]"), "f.json: byte 5: a number too large for a double");
    EXPECT_EQ(refusal("[1,x]"),
              "f.json: byte 3: syntax error while parsing value - invalid literal");
    EXPECT_EQ(refusal("[1"),
              "f.json: byte 2: syntax error while parsing array - unexpected end of input; "
              "expected ']'");
    EXPECT_EQ(refusal("[\"\xFF\"]"),
              "f.json: byte 2: syntax error while parsing value - invalid string: ill-formed UTF-8 "
              "byte");
    EXPECT_EQ(refusal("{}{}"),
              "f.json: byte 2: syntax error while parsing value - unexpected '{'; expected end of "
              "input");
}

TEST(Json, RefusesAKeyGivenTwiceInOneObject) {
    EXPECT_EQ(refusal(R"({"a":1,"b":2,"a":3})"), "f.json: byte 16: the key \"a\" is given twice");
    EXPECT_EQ(refusal(R"({"a":1,"\u0061":2})"), "f.json: byte 15: the key \"a\" is given twice");
    EXPECT_EQ(refusal(R"([{"x":{"":1,"":2}}])"), "f.json: byte 14: the key \"\" is given twice");
    // The first one of several is named.
    EXPECT_EQ(refusal(R"({"b":1,"a":1,"a":1,"b":1})"),
              "f.json: byte 16: the key \"a\" is given twice");
    EXPECT_EQ(refusal(R"({"a":1,"b":1,"b":1,"a":1})"),
              "f.json: byte 16: the key \"b\" is given twice");
    EXPECT_EQ(refusal(R"([{"a":1},{"a":1}])"), "");
    EXPECT_EQ(refusal(R"({"a":{"a":{"a":1}},"b":1})"), "");
    EXPECT_EQ(refusal(R"({"a\u0000b":1,"a\u0000c":2})"), "");
}

TEST(Json, TellsHowANumberWasWritten) {
    const JsonValue value =
        parse_json("[0,18446744073709551615,18446744073709551616,-0,-9223372036854775808,"
                   "-9223372036854775809,1.0,1e0,-0.0]",
                   "f.json");
    const std::vector<JsonKind> kinds = {JsonKind::unsigned_integer,
                                         JsonKind::unsigned_integer,
                                         JsonKind::real,
                                         JsonKind::negative_integer,
                                         JsonKind::negative_integer,
                                         JsonKind::real,
                                         JsonKind::real,
                                         JsonKind::real,
                                         JsonKind::real};
    ASSERT_EQ(value.elements.size(), kinds.size());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        EXPECT_EQ(value.elements[i].kind, kinds[i]) << i;
    }
    EXPECT_EQ(value.elements[1].unsigned_integer, UINT64_MAX);
    EXPECT_EQ(value.elements[2].number, 18446744073709551616.0);
    EXPECT_EQ(value.elements[4].number, -9223372036854775808.0);
    EXPECT_EQ(value.elements[7].number, 1.0);
    EXPECT_TRUE(std::signbit(value.elements[8].number));
}

TEST(Json, TreeKeepsOrderAndText) {
    const JsonValue value =
        parse_json(R"({"b":[true,null,"x\u0000\u00e9"],"a":{"c":false}, "":0.5})", "f.json");
    ASSERT_EQ(value.members.size(), 3U);
    EXPECT_EQ(value.members[0].key, "b");
    EXPECT_EQ(value.members[1].key, "a");
    EXPECT_TRUE(value.find("b")->elements[0].boolean);
    EXPECT_EQ(value.find("b")->elements[1].kind, JsonKind::null);
    EXPECT_EQ(value.find("b")->elements[2].string, "x\0\xC3\xA9"s);
    EXPECT_FALSE(value.find("a")->find("c")->boolean);
    EXPECT_EQ(value.find("")->number, 0.5);
    EXPECT_EQ(value.find("d"), nullptr);
    EXPECT_EQ(value.find("b")->find("x"), nullptr);
}

// Writes down what it is given.
class Recorder final : public JsonVisitor {
public:
    std::string events;

    void null() override { events += "null "; }
    void boolean(bool value) override { events += value ? "true " : "false "; }
    void unsigned_integer(std::uint64_t value) override { events += std::to_string(value) + " "; }
    void string(std::string_view value) override { events += "'" + std::string(value) + "' "; }
    void begin_array() override { events += "[ "; }
    void end_array() override { events += "] "; }
    void begin_object() override { events += "{ "; }
    JsonMember key(std::string_view key) override {
        events += std::string(key) + ": ";
        return key.starts_with("skip") ? JsonMember::skip : JsonMember::visit;
    }
    void end_object() override { events += "} "; }
};

TEST(Json, VisitorSeesEveryPieceButWhatItSkips) {
    Recorder recorder;
    kael::io::visit_json(
        R"([1,{"a":true,"skip1":[{"k":1,"k":2,"deep":[[]]}],"b":"x","skip2":-1.5},null])", "f.json",
        0, recorder);
    EXPECT_EQ(recorder.events, "[ 1 { a: true skip1: b: 'x' skip2: } null ] ");
    Recorder outer;
    kael::io::visit_json(R"({"skip":{"x":{}},"c":{"skip":{}},"d":[]})", "f.json", 0, outer);
    EXPECT_EQ(outer.events, "{ skip: c: { skip: } d: [ ] } ");
}

TEST(Json, SkippedValuesMustBeJsonAllTheSame) {
    const auto message = [](const std::string& text) {
        Recorder recorder;
        try {
            kael::io::visit_json(text, "f.json", 100, recorder);
        } catch (const kael::Error& error) {
            return error.message();
        }
        return ""s;
    };
    EXPECT_EQ(message(R"({"skip":[1,]})"),
              "f.json: byte 111: syntax error while parsing value - unexpected ']'; expected '[', "
              "'{', or a literal");
    EXPECT_EQ(message(std::string(R"({"skip":)").append(nested(127)) + "}"),
              "f.json: byte 235: more than 127 arrays and objects in one another");
    EXPECT_EQ(message(R"({"skip":1,"skip":2})"),
              "f.json: byte 116: the key \"skip\" is given twice");
}

TEST(Json, VisitorRefusesWhatItDoesNotOverride) {
    class OnlyKeys final : public JsonVisitor {
        void begin_object() override {}
        JsonMember key(std::string_view /*key*/) override { return JsonMember::visit; }
    };
    const auto message = [](std::string_view text) {
        OnlyKeys visitor;
        try {
            kael::io::visit_json(text, "f.json", 0, visitor);
        } catch (const kael::Error& error) {
            return error.message();
        }
        return ""s;
    };
    EXPECT_EQ(message(R"({"a":"x"})"), "f.json: byte 8: a string has no place here");
    EXPECT_EQ(message(R"({"a":[]})"), "f.json: byte 6: an array has no place here");
    EXPECT_EQ(message(R"({"a":null})"), "f.json: byte 9: null has no place here");
    EXPECT_EQ(message(R"({"a":true})"), "f.json: byte 9: a boolean has no place here");
}

TEST(Json, KeysOfALargeObjectAreComparedInTime) {
    // Comparing each with each would take minutes.
    std::string text = "{";
    for (int i = 0; i < 200000; ++i) {
        text.append("\"").append(std::to_string(i)).append("\":0,");
    }
    EXPECT_EQ(refusal(text + "\"x\":0}"), "");
    EXPECT_NE(refusal(text + "\"4711\":0}").find("the key \"4711\" is given twice"),
              std::string::npos);
}

TEST(Json, FileIsReadWhole) {
    const kael::test::TemporaryFolder folder;
    EXPECT_EQ(kael::io::read_json_file(folder.write("a.json", "[1,2]")).elements.size(), 2U);
    EXPECT_THROW((void)kael::io::read_json_file(folder.path() / "none.json"), kael::Error);
    std::filesystem::resize_file(folder.write("big.json", ""), (std::uint64_t{16} << 20) + 1);
    EXPECT_THROW((void)kael::io::read_json_file(folder.path() / "big.json"), kael::Error);
}

TEST(Json, StringsAreEscapedNoMoreThanNeeded) {
    std::string out = "x";
    kael::io::append_json_string(out, "a\"b\\c/\b\f\n\r\t\0\x1F\x7F\xC3\xA9\xF0\x9F\x98\x80"s);
    EXPECT_EQ(out, "x\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0000\\u001f\x7F\xC3\xA9\xF0\x9F\x98\x80\"");
    EXPECT_EQ(parse_json(std::string_view(out).substr(1), "f").string,
              "a\"b\\c/\b\f\n\r\t\0\x1F\x7F\xC3\xA9\xF0\x9F\x98\x80"s);
    for (const char* bad : {"\xFF", "a\x80", "\xC3", "\xED\xA0\x80"}) {
        EXPECT_THROW(kael::io::append_json_string(out, bad), kael::Error) << bad;
    }
}

} // namespace
