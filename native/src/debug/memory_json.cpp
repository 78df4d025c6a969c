#include "kael/debug.h"

#include "io/json_writer.h"

namespace kael {

std::string memory_timeline_json(const MemoryTimeline& timeline) {
    io::JsonWriter json;
    json.begin_object();
    json.key("peak_bytes").integer(timeline.peak_bytes);
    json.key("live_bytes").integer(timeline.live_bytes);
    json.key("allocations").integer(timeline.allocations);
    json.key("dropped_events").integer(timeline.dropped_events);
    json.key("peak_by_operator").begin_array();
    for (const auto& [operation, bytes] : timeline.peak_by_operator) {
        json.begin_object();
        json.key("operator").string(operation);
        json.key("bytes").integer(bytes);
        json.end_object();
    }
    json.end_array();
    json.key("events").begin_array();
    for (const MemoryEvent& event : timeline.events) {
        json.begin_object();
        json.key("seconds").real(event.seconds);
        json.key("bytes").integer(event.bytes);
        json.key("live_bytes").integer(event.live_bytes);
        json.key("operator").string(event.operation);
        json.end_object();
    }
    json.end_array();
    json.end_object();
    return json.text();
}

} // namespace kael
