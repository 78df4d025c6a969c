#include "kael/autograd.h"

namespace kael {

namespace {

thread_local bool recording = true;

} // namespace

bool grad_enabled() noexcept {
    return recording;
}

GradMode::GradMode(bool enabled) noexcept : before_(recording) {
    recording = enabled;
}

GradMode::~GradMode() {
    recording = before_;
}

} // namespace kael
