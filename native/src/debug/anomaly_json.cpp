#include <string>
#include <vector>

#include "kael/debug.h"

#include "io/json_writer.h"

namespace kael {

namespace {

void write(io::JsonWriter& json, const TensorSummary& tensor) {
    json.begin_object();
    json.key("shape").integers(tensor.shape);
    json.key("dtype").string(name(tensor.dtype));
    if (tensor.range.has_value()) {
        json.key("least").real(tensor.range->least);
        json.key("most").real(tensor.range->most);
        json.key("nans").integer(tensor.range->nans);
        json.key("infinities").integer(tensor.range->infinities);
    }
    json.end_object();
}

} // namespace

std::string anomaly_json(const Anomaly& anomaly) {
    io::JsonWriter json;
    json.begin_object();
    json.key("in_forward").boolean(anomaly.in_forward);
    json.key("operation").string(anomaly.operation);
    json.key("inside").string(anomaly.inside);
    json.key("call_site").string(anomaly.call_site);
    json.key("operands").begin_array();
    for (const TensorSummary& operand : anomaly.operands) {
        write(json, operand);
    }
    json.end_array();
    json.key("taken");
    if (anomaly.taken.has_value()) {
        write(json, *anomaly.taken);
    } else {
        json.null();
    }
    json.key("output").integer(static_cast<std::int64_t>(anomaly.output));
    json.key("found");
    write(json, anomaly.found);
    json.key("first_bad_index").integers(anomaly.first_bad_index);
    json.key("creators").begin_array();
    for (const Anomaly::Call& creator : anomaly.creators) {
        json.begin_object();
        json.key("node").string(creator.node);
        json.key("call_site").string(creator.call_site);
        json.end_object();
    }
    json.end_array();
    json.key("text").string(to_string(anomaly));
    json.end_object();
    return json.text();
}

} // namespace kael
