// Makes the n-th call of one kind fail, for every n. What fails is replaced when this program is
// linked, so that the library is the one that everybody gets.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

namespace kael::test {

enum class Fault {
    allocation,      // one allocation finds no memory
    no_memory,       // neither does any after it
    open_refused,    // open() answers EMFILE
    size_refused,    // fstat() answers EIO
    read_refused,    // pread() answers EIO
    read_at_the_end, // pread() answers that the file has ended
    read_short,      // pread() reads one byte
    read_interrupted,
    map_refused,   // mmap() answers ENOMEM
    write_refused, // write() answers ENOSPC
    write_short,   // write() takes one byte
    sync_refused,  // fsync() answers EIO
    event_refused, // eventfd() answers EMFILE
};

// What a body of expect_clean_failures throws for a status of the C interface; the message is
// kael_last_error_message().
struct Refused {
    std::int32_t status;
};

// Runs `body`, which returns a number that stands for its results, with the first call of the
// fault's kind failing, then with the second one, and so on until there is none left. Each run
// either gives the results of a run without a fault, or ends with an error that fits the fault and
// has a message of one line; after it the body works again, and holds no memory, no mapping and no
// descriptor more than before.
void expect_clean_failures(Fault fault, const std::function<std::uint64_t()>& body);

} // namespace kael::test
