#include "kael/autograd.h"

namespace kael {

namespace {

thread_local bool recording = true;

} // namespace

bool grad_enabled() noexcept {
    return recording;
}

void set_grad_enabled(bool enabled) noexcept {
    recording = enabled;
}

GradMode::GradMode(bool enabled) noexcept : before_(recording) {
    recording = enabled;
}

GradMode::~GradMode() {
    recording = before_;
}

} // namespace kael
