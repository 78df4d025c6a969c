// Reads merges.txt.
#pragma once

#include <filesystem>

#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace kael::text {

// The file: a first line that begins with "#version", which may be missing, then one merge a line,
// the best first: two tokens with a space between them. Both tokens and their concatenation must be
// in the vocabulary, and no merge may stand there twice. Lines end with LF or CR LF; empty lines
// may only stand at the end. A file without merges is for a vocabulary whose tokens need none.
// Throws kael::Error that names the path and the line.
[[nodiscard]] MergeTable read_merges(const std::filesystem::path& path,
                                     const Vocabulary& vocabulary, const TokenIndex& tokens);

} // namespace kael::text
