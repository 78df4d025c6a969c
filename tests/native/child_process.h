// What happens in the child of a fork.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace kael::test {

// Runs `body` in a child process; its exit code, or -1 where a signal ended it.
template <typename Body>
int exit_code_of_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace kael::test
