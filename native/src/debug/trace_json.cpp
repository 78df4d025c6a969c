#include "kael/debug.h"

#include "io/json_writer.h"

namespace kael {

std::string trace_record_json(const TraceRecord& record) {
    io::JsonWriter json;
    json.begin_object();
    json.key("node").string(record.node.name());
    json.key("shape").integers(record.taken.shape);
    json.key("dtype").string(name(record.taken.dtype));
    json.key("norm").real(record.norm);
    json.key("returned").begin_array();
    for (const Tensor& gradient : record.returned) {
        if (gradient.defined()) {
            json.integers(gradient.shape());
        } else {
            json.null();
        }
    }
    json.end_array();
    json.key("bytes").integer(record.bytes);
    json.key("nans").integer(record.nans);
    json.key("infinities").integer(record.infinities);
    json.key("milliseconds").real(record.milliseconds);
    json.end_object();
    return json.text();
}

} // namespace kael
