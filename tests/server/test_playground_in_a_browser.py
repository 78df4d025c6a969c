"""The playground in Chromium: the text and its tokens, settings, errors, keyboard, screen readers."""

from __future__ import annotations

import json
import math
import re
import subprocess
import threading

import pytest
import server_browser
import server_process
from server_between import Between
from server_browser import Page
from server_fakes import Broken, Echo, Paced, Recorder, RingEcho
from server_live import wait_for

KEY = "correct-horse"
SEED = 1
JSON = "application/json"
EVENT_STREAM = "text/event-stream; charset=utf-8"


@pytest.fixture(scope="module")
def browser():
    with server_browser.start() as browser:
        yield browser


@pytest.fixture(scope="module")
def starter():
    """A server of the model that kael ships."""
    with server_process.serve() as process:
        yield process


@pytest.fixture
def shipped(browser, starter):
    return Page(browser, starter.port).ready()


@pytest.fixture
def answered(shipped):
    """With an answer of the shipped model on it."""
    shipped.set(seed=SEED, max_tokens=12).click("generate")
    shipped.wait_for("status", "Finished")
    return shipped


@pytest.fixture
def open_page(browser, serve):
    """The page of a server around a fake, and the server. Fakes know no log probabilities."""

    def open_page(model, **options):
        server = serve(model, **options)
        return Page(browser, server.port).ready().set(logprobs=""), server

    return open_page


@pytest.fixture
def put_between(serve):
    """Something between the browser and a server around a fake."""
    between = []

    def put_between(model, prefix=""):
        between.append(Between(serve(model), prefix))
        return between[-1]

    yield put_between
    for one in between:
        one.close()


def plain(starter, **fields):
    body = {"prompt": "Once upon a time", "seed": SEED, "max_tokens": 12, "logprobs": 5, **fields}
    return starter.post(body).json


def let_go(model, server):
    """Waits for the end of a paced generation whose client has left, as its model sees at the next token."""
    wait_for(lambda: server.counts() == {"cancelled": 1})
    model.step()
    server.wait_until_free()


def percentage(text):
    return float(re.search(r"([\d.]+)%", text)[1]) / 100


def command_of(page):
    """What curl is given by a shell that runs the command."""
    page.find("curl").find_element("tag name", "summary").click()
    page.wait(lambda: page.value("command"))
    script = "curl() { printf '%s\\0' \"$@\"; }\n" + page.value("command")
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return run.stdout.split("\0")[:-1]


# ---- The text and its tokens ----


def test_it_shows_the_text_of_the_server_token_by_token(answered, starter):
    expected = plain(starter)
    assert answered.text("tokens") == answered.text("whole") == expected["text"]
    texts = answered.run("return [...document.querySelectorAll('#tokens > span')].map(e => e.textContent)")
    assert texts == [token["text"] for token in expected["logprobs"]]
    for element, token in zip(answered.tokens, expected["logprobs"], strict=True):
        shown = percentage(element.get_attribute("aria-description"))
        assert shown == pytest.approx(math.exp(token["logprob"]), rel=0.01)


def test_pointing_at_a_token_shows_what_was_likely(answered, starter):
    expected = plain(starter)["logprobs"][5]
    answered.point_at(answered.tokens[5])
    answered.wait_for("token-summary", f"token {expected['token']}:")
    shown = percentage(answered.text("token-summary"))
    assert shown == pytest.approx(math.exp(expected["logprob"]), rel=0.01)
    rows = answered.all("#alternatives tbody tr")
    assert len(rows) == 5
    for row, other in zip(rows, expected["top"], strict=True):
        assert row.text.startswith(other["text"].replace(" ", "␣"))
        assert percentage(row.text) == pytest.approx(math.exp(other["logprob"]), rel=0.01)
        assert ("picked" in row.text) == (other["token"] == expected["token"])


def test_the_keyboard_shows_the_same(answered):
    answered.run("document.querySelector('#tokens [tabindex=\"0\"]').focus()")
    seen = []
    for key, index in [("ARROW_RIGHT", 1), ("ARROW_DOWN", 2), ("ARROW_LEFT", 1), ("END", 11), ("HOME", 0)]:
        answered.press(key)
        assert answered.focused == answered.tokens[index]
        seen.append(answered.text("token-summary"))
    answered.press("ARROW_LEFT")
    assert answered.focused == answered.tokens[0]
    assert seen[0] == seen[2] != seen[1]
    for marked in ("[tabindex='0']", "[aria-selected=true]"):
        assert answered.all(f"#tokens {marked}") == [answered.focused]


def test_the_tokens_are_marked_by_more_than_colour(answered):
    looks = {}
    for element in answered.tokens:
        style = element.value_of_css_property("border-bottom-style")
        looks.setdefault(element.get_attribute("data-level"), set()).add(style)
    legend = answered.all("#legend .token")
    samples = [sample.value_of_css_property("border-bottom-style") for sample in legend]
    assert len(set(samples)) == len(samples) == 4
    assert looks == {level: {samples[int(level)]} for level in looks}


def test_characters_of_several_tokens_stay_whole(shipped):
    shipped.set(prompt="aß€", max_tokens=1)
    shipped.unfold(shipped.field("echo")).click()
    shipped.click("generate")
    shipped.wait_for("status", "Finished: 1 token.")
    assert shipped.text("tokens").startswith("aß€")
    names = [shipped.described(element)[1] for element in shipped.tokens[:6]]
    assert names == ["a", "bytes c3", "ß", "bytes e2", "bytes 82", "€"]
    assert shipped.tokens[0].get_attribute("aria-description") == "no probability"


def test_text_behind_a_stop_string_is_not_shown(shipped, starter):
    stop = [" the l"]
    shipped.set(seed=SEED, max_tokens=12, stop=stop[0]).click("generate")
    shipped.wait_for("status", "Finished")
    expected = plain(starter, stop=stop)
    assert expected["finish_reason"] == "stop"
    assert shipped.text("tokens") == expected["text"]
    assert shipped.text("figure-reason") == "a stop string or the end of text"


def test_the_figures_are_the_servers_and_the_seed_repeats_the_text(shipped):
    shipped.set(max_tokens=12).click("generate")
    shipped.wait_for("status", "Finished: 12 tokens.")
    text, seed = shipped.text("tokens"), shipped.text("figure-seed")
    assert shipped.text("figure-tokens") == "12"
    assert float(shipped.text("figure-rate")) > 0
    assert re.fullmatch(r"[\d.]+ m?s", shipped.text("figure-first"))
    assert shipped.text("figure-reason") == "max_tokens"
    shipped.click("repeat")
    assert shipped.value("field-seed") == seed
    shipped.press("ENTER")
    shipped.wait(lambda: shipped.text("status").startswith("Finished") and shipped.text("tokens"))
    assert (shipped.text("tokens"), shipped.text("figure-seed")) == (text, seed)


def test_the_text_comes_as_it_is_made(open_page):
    model = Paced()
    page, _ = open_page(model)
    page.set(max_tokens=3).click("generate")
    for text in ("a", "ab", "abc"):
        model.step()
        page.wait(lambda text=text: page.text("tokens") == text)
    page.wait_for("status", "Finished: 3 tokens.")
    assert not page.find("repeat").is_displayed()  # since this model does not tell its seed
    assert page.errors() == []


@pytest.mark.parametrize("way", ["button", "key"])
def test_stopping_ends_the_generation(open_page, way):
    model = Paced()
    page, server = open_page(model)
    page.click("generate")
    model.step(2)
    page.wait(lambda: page.text("tokens") == "ab")
    page.click("stop") if way == "button" else page.press("ESCAPE")
    page.wait_for("status", "Stopped after 2 tokens.")
    assert page.text("tokens") == "ab"
    assert page.text("alert") == ""
    let_go(model, server)
    model.step(3)
    page.set(max_tokens=3).click("generate")
    page.wait_for("status", "Finished: 3 tokens.")


@pytest.mark.parametrize("place", ["about:blank", "http://127.0.0.1:{}/health", "http://localhost:{}/health"])
def test_leaving_the_page_ends_the_generation(open_page, place):
    model = Paced()
    page, server = open_page(model)
    page.click("generate")
    model.step()
    page.wait_for("tokens", "a")
    page.browser.get(place.format(server.port))
    let_go(model, server)


def test_a_key_of_an_input_method_is_not_one_of_the_page(open_page):
    model = Paced()
    page, _ = open_page(model)
    page.set(max_tokens=2).click("generate")
    model.step()
    page.wait_for("tokens", "a")
    page.field("prompt").click()
    composition = {"text": "か", "selectionStart": 1, "selectionEnd": 1}
    page.browser.execute_cdp_cmd("Input.imeSetComposition", composition)
    page.run("document.addEventListener('keydown', (event) => { window.composing = event.isComposing; })")
    page.press("ESCAPE")
    assert page.run("return window.composing")
    model.step()
    page.wait_for("status", "Finished: 2 tokens.")


def test_a_page_in_the_answer_stays_text(open_page):
    text = "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&amp;"
    page, _ = open_page(Echo())
    page.set(prompt=text, max_tokens=len(text)).click("generate")
    page.wait_for("status", "Finished")
    assert page.text("tokens") == text
    assert page.run("return document.querySelectorAll('#tokens *').length") == 0
    assert page.run("return window.broken") is None
    assert page.errors() == []


def test_a_page_in_the_tokens_stays_text(shipped):
    text = "<script>window.broken = 1</script>"
    shipped.set(prompt=text, max_tokens=1)
    shipped.unfold(shipped.field("echo")).click()
    shipped.click("generate")
    shipped.wait_for("status", "Finished")
    assert shipped.text("tokens").startswith(text)
    assert shipped.run("return document.querySelectorAll('#answer script').length") == 0
    assert shipped.run("return window.broken") is None


# ---- Settings ----


def test_every_field_of_the_schema_has_an_input_with_its_limits(shipped, starter):
    operation = starter.get("/openapi.json").json["paths"]["/generate"]["post"]
    fields = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    shipped.unfold(shipped.field("echo"))
    for name in fields.keys() - {"stream", "details"}:
        element = shipped.field(name)
        role, label, description = shipped.described(element)
        assert label == ("Prompt" if name == "prompt" else name)
        if name != "prompt":
            assert fields[name]["description"] in description
        if role == "spinbutton":
            assert float(element.get_attribute("min")) == fields[name].get("minimum", 0)
            if fields[name]["maximum"] < 2**53:
                assert float(element.get_attribute("max")) == fields[name]["maximum"]
            if name != "logprobs":
                value = element.get_property("value")
                assert (float(value) if value else None) == fields[name].get("default")


def test_the_settings_arrive_as_they_were_typed(open_page):
    model = Recorder()
    page, _ = open_page(model)
    page.set(
        max_tokens=2,
        temperature="0",
        top_k="07",
        top_p=".5",
        min_p="1e-3",
        presence_penalty="-1.5",
        logit_bias='{"11": -5}',
        seed=2**64 - 1,
        prompt='two\nlines "quoted" \\',
    ).click("generate")
    page.wait_for("status", "Finished: 2 tokens.")
    (call,) = model.calls
    assert bytes(call.pop("prompt")).decode() == 'two\nlines "quoted" \\'
    assert call == {
        "max_tokens": 2,
        "temperature": 0.0,
        "top_k": 7,
        "top_p": 0.5,
        "min_p": 0.001,
        "presence_penalty": -1.5,
        "logit_bias": {11: -5.0},
        "seed": 2**64 - 1,
    }
    assert page.text("figure-seed") == str(2**64 - 1)


def test_stop_strings_may_have_line_breaks(open_page):
    page, _ = open_page(Echo())
    page.set(prompt="one\ntwo", stop="\\nt\nx", max_tokens=7).click("generate")
    page.wait_for("status", "Finished")
    assert page.text("tokens") == "one"


def test_the_command_asks_for_the_same(open_page):
    page, server = open_page(Echo())
    page.set(prompt="it's", max_tokens=4)
    command = command_of(page)
    assert command[:2] == ["-sN", f"{page.address}generate"]
    body = {"prompt": "it's", "max_tokens": 4, "stream": True, "details": True}
    assert json.loads(command[command.index("-d") + 1]) == body
    assert server.post(body).text == "it's"


@pytest.mark.parametrize("user", ["user:pw", "$(id)", "user:'$(id)'"])
def test_who_asks_is_not_part_of_the_addresses_that_the_page_makes(browser, serve, user):
    page = Page(browser, serve(Echo()).port, user=user).ready()
    page.set(logprobs="", max_tokens=3).click("generate")
    page.wait_for("status", "Finished: 3 tokens.")
    assert command_of(page)[1] == f"{page.address}generate"


def test_the_command_is_safe_for_a_shell_at_every_address(browser, put_between):
    prefix = "/$(id)/it's;a&b"
    page = Page(browser, put_between(Echo(), prefix).port, f"{prefix}/?a=$(id)#b").ready()
    assert command_of(page)[1] == f"{page.address.partition('?')[0]}generate"


# ---- What goes wrong ----


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_tokens", "0", "must be at least 1"),
        ("temperature", "11", "must be at most 10"),
        ("top_k", "1.5", "must be a whole number"),
        ("timeout_s", "0", "must be above 0"),
        ("stop", "x" * 201, "must have at most 200 characters"),
        ("logit_bias", "{", "must be JSON"),
        ("logit_bias", '{"x": 1}', "must have token ids for names"),
        ("prompt", "", "must have 1 or more characters"),
        ("logprobs", "1", "is not supported by this model"),
        ("top_k", "e", "must be a number"),
    ],
)
def test_a_wrong_field_says_so(open_page, field, value, message):
    page, _ = open_page(Echo())
    page.set(**{field: value}).click("generate")
    page.wait_for("alert", f"{field} {message}")
    element = page.field(field)
    assert element.get_attribute("aria-invalid") == "true"
    assert page.focused == element
    assert page.find(f"field-{field}-error").is_displayed()
    assert message in page.described(element)[2]
    assert page.text("status") == ""
    # Mended, it is as if nothing had been.
    page.set(**{field: "5" if field in ("prompt", "max_tokens") else ""}).click("generate")
    page.wait_for("status", "Finished")
    assert element.get_attribute("aria-invalid") is None
    assert message not in page.described(element)[2]
    assert page.text("alert") == ""


def test_too_long_a_prompt_says_so(open_page):
    page, _ = open_page(Echo(), context=64)
    page.click("generate")
    page.wait_for("alert", "the context holds 64")
    assert "the context holds 64" in page.text("field-prompt-error")
    assert page.focused == page.field("prompt")


def test_a_busy_model_says_when_to_ask_again(open_page):
    model = Paced()
    page, server = open_page(model)
    with server.begin(max_tokens=1):
        wait_for(lambda: not server.is_free())
        page.click("generate")
        page.wait_for("alert", "The server says: the model is busy. Try again in 1 s.")
        model.step()
        server.wait_until_free()
    model.step()
    page.set(max_tokens=1).click("generate")
    page.wait_for("status", "Finished: 1 token.")
    assert page.text("alert") == ""


def test_a_server_that_ends_says_so(open_page):
    page, server = open_page(Echo())
    server.generator.shut_down()
    page.click("generate")
    page.wait_for("alert", "The server says: the server is shutting down. Try again in 1 s.")


def test_a_server_that_is_gone_is_missed(open_page):
    page, server = open_page(Echo())
    server.close()
    page.click("generate")
    page.wait_for("alert", "The server does not answer")
    assert page.text("status") == ""


def test_a_failure_in_the_middle_is_told(open_page):
    page, _ = open_page(Broken(tokens=3))
    page.click("generate")
    page.wait_for("alert", "The server says: generation failed.")
    assert page.text("tokens") == "xxx"
    assert page.text("status") == "Broken off after 3 tokens."


def test_a_stream_that_is_cut_is_told(open_page):
    model = Paced()
    page, server = open_page(model)
    page.click("generate")
    model.step(2)
    page.wait(lambda: page.text("tokens") == "ab")
    (handler,) = server.app.active
    server.loop.call_soon_threadsafe(handler.stream.close)
    page.wait_for("alert", "The connection broke before the end")
    assert page.text("tokens") == "ab"
    assert page.text("status") == "Broken off after 2 tokens."
    let_go(model, server)


def test_a_key_is_asked_for_and_kept_in_memory_alone(browser, serve):
    server = serve(Echo(), api_keys=(KEY,))
    page = Page(browser, server.port)
    page.wait_for("alert", "The server asks for a key.")
    assert page.focused == page.field("key")
    assert page.described(page.field("key"))[1] == "Key"
    page.field("key").send_keys("wrong")
    page.press("ENTER")
    page.wait_for("field-key-error", "The key is not the server's.")
    page.set(key="w\xf6rong")
    page.press("ENTER")
    page.wait_for("field-key-error", "must have ASCII characters alone")
    page.set(key=KEY)
    page.press("ENTER")
    page.ready()
    assert not page.find("key-form").is_displayed()
    page.set(logprobs="", prompt="abc", max_tokens=3).click("generate")
    page.wait_for("status", "Finished: 3 tokens.")
    stored = page.run("return [document.cookie, localStorage.length, sessionStorage.length, location.href]")
    assert stored == ["", 0, 0, page.address]
    page.find("curl").find_element("tag name", "summary").click()
    page.wait(lambda: "-H 'Authorization: Bearer KEY'" in page.value("command"))
    assert KEY not in page.value("command")
    browser.refresh()
    page.wait_for("alert", "The server asks for a key.")
    assert page.value("field-key") == ""


def test_a_key_does_not_outlive_the_page(browser, serve):
    server = serve(Echo(), api_keys=(KEY,))
    page = Page(browser, server.port)
    page.wait_for("alert", "The server asks for a key.")
    page.set(key=KEY)
    page.press("ENTER")
    page.ready()
    assert page.value("field-key") == ""
    page.run("window.kept = true")
    browser.get(f"{page.address}health")
    browser.back()
    page.wait_for("alert", "The server asks for a key.")
    assert page.run("return window.kept")  # the browser has not made the page again
    assert page.find("key-form").is_displayed()
    page.click("generate")
    page.wait_for("field-key-error", "The server asks for a key.")


def test_a_description_that_comes_late_changes_nothing_that_is_there(browser, put_between):
    model = Paced()
    between = put_between(model)
    between.gates["/openapi.json"] = threading.Event()
    page = Page(browser, between.port)
    page.click("generate")
    model.step()
    page.wait_for("tokens", "a")
    between.gates["/openapi.json"].set()
    page.ready()
    assert page.text("tokens") == "a"
    model.step()
    page.wait_for("tokens", "ab")
    page.press("ESCAPE")
    page.wait_for("status", "Stopped after 2 tokens.")
    model.step()


def test_settings_survive_a_key(browser, put_between):
    between = put_between(Echo())
    between.answers["/v1/models"] = 401, JSON, '{"error": "no key"}'
    page = Page(browser, between.port)
    page.wait_for("alert", "The server asks for a key.")
    page.set(max_tokens=3)
    between.answers.clear()
    page.set(key=KEY)
    page.press("ENTER")
    page.ready()
    assert page.value("field-max_tokens") == "3"
    assert page.text("alert") == page.text("field-key-error") == ""


UNKNOWN = "The answer is not kael's: its form is unknown."


@pytest.mark.parametrize(
    ("status", "content_type", "body", "sentence"),
    [
        (500, JSON, "null", "The server says: status 500."),
        (500, JSON, '{"error": {"message": "No luck."}}', "The server says: No luck."),
        (500, JSON, '{"error": {}}', "The server says: status 500."),
        (503, "text/html", "<h1>Sorry</h1>", "The server says: status 503."),
        (422, JSON, '{"error": "no", "details": "because"}', "The server says: no."),
        (422, JSON, '{"error": "no", "details": [null, {"field": 1}]}', "The server says: no."),
        (200, "text/html", "<h1>Log in</h1>", "The answer is not kael's: status 200, text/html."),
        (204, None, "", "The answer is not kael's: status 204, no content type."),
        (200, EVENT_STREAM, "data: null\n\n", UNKNOWN),
        (200, EVENT_STREAM, "data: {\n\n", UNKNOWN),
        (200, EVENT_STREAM, "data: {}\n\n", UNKNOWN),
        (200, EVENT_STREAM, 'data: {"text": "a", "logprobs": 5}\n\n', UNKNOWN),
        (200, EVENT_STREAM, 'data: {"finish_reason": "length"}\n\n', UNKNOWN),
        (200, EVENT_STREAM, 'data: {"error": {"message": "m"}}\n\n', "The server says: m."),
        (200, EVENT_STREAM, "", "The connection broke before the end: the text is not complete."),
    ],
)
def test_an_answer_of_somebody_else_is_told_in_a_sentence(
    browser, put_between, status, content_type, body, sentence
):
    between = put_between(Echo())
    between.answers["/generate"] = status, content_type, body
    page = Page(browser, between.port).ready()
    page.click("generate")
    page.wait(lambda: page.text("alert"))
    assert page.text("alert") == sentence
    assert page.find("stop").get_attribute("aria-disabled") == "true"
    assert [line for line in page.errors() if "Uncaught" in line] == []
    between.answers.clear()
    page.set(logprobs="", max_tokens=2).click("generate")
    page.wait_for("status", "Finished: 2 tokens.")
    assert page.text("alert") == ""


@pytest.mark.parametrize("path", ["/openapi.json", "/v1/models"])
@pytest.mark.parametrize(
    ("status", "content_type", "body", "sentence"),
    [
        (500, JSON, "null", "The server says: status 500."),
        (200, "text/html", "<h1>Log in</h1>", "The answer is not kael's: status 200, text/html."),
        (200, JSON, "{}", UNKNOWN),
        (200, JSON, "", UNKNOWN),
    ],
)
def test_a_description_of_somebody_else_leaves_a_page_that_works(
    browser, put_between, path, status, content_type, body, sentence
):
    between = put_between(RingEcho())
    between.answers[path] = status, content_type, body
    page = Page(browser, between.port)
    page.wait(lambda: page.text("alert"))
    assert page.text("alert") == sentence
    if path == "/v1/models":
        page.set(logprobs="")
    page.click("generate")
    page.wait_for("status", "Finished: 64 tokens.")
    assert page.text("figure-seed").isdigit()
    assert page.find("repeat").is_displayed() == (path == "/v1/models")
    assert [line for line in page.errors() if "Uncaught" in line] == []


def test_a_browser_that_refuses_to_copy_is_told(open_page):
    page, _ = open_page(Echo())
    command_of(page)
    denied = {"permission": {"name": "clipboard-write"}, "setting": "denied"}
    page.browser.execute_cdp_cmd("Browser.setPermission", denied)
    try:
        page.click("copy")
        page.wait_for("status", "The browser does not let the page copy")
    finally:
        page.browser.execute_cdp_cmd("Browser.resetPermissions", {})
    assert page.run("return getSelection().toString()") == page.value("command")
    assert page.errors() == []


# ---- The reader of events ----

STREAM = (
    "\ufeffdata: {}\n\n: ping\n\ndata:no space\r\n\r\ndata: two\rdata:  lines\r\rid: 5\nretry: 1\n\n"
    "data: ß€😀\u2028\r\n\r\ndata\n\nda: x\n\ndata: a: b\n\ndata: not complete\n"
)
EVENTS = ["{}", "no space", "two\n lines", "ß€😀\u2028", "", "a: b"]

READ = """
const [address, streams, done] = arguments;
(async () => {
  const { readEvents } = await import(address);
  const read = [];
  for (const chunks of streams) {
    const bytes = chunks.map((chunk) => Uint8Array.from(chunk));
    const stream = new ReadableStream({
      pull(controller) { bytes.length ? controller.enqueue(bytes.shift()) : controller.close(); },
    });
    const events = [];
    for await (const data of readEvents(stream)) events.push(data);
    read.push(events);
  }
  return read;
})().then(done, (error) => done(String(error)));
"""


def test_events_are_read_however_their_bytes_are_divided(shipped):
    data = list(STREAM.encode())
    halves = [[data[:cut], data[cut:]] for cut in range(len(data) + 1)]
    singly = [[byte] for byte in data]
    threes = [data[start : start + 3] for start in range(0, len(data), 3)]
    streams = [*halves, singly, threes]
    read = shipped.browser.execute_async_script(READ, f"{shipped.address}playground/events.js", streams)
    assert read == [EVENTS] * len(streams)


# ---- For everybody ----


def test_nothing_is_asked_of_anybody_else(answered):
    names = answered.run(
        "return [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
        ".map(entry => entry.name)"
    )
    assert len(names) > 6
    assert all(name.startswith(answered.address) for name in names)
    assert answered.errors() == []


def test_the_keyboard_is_enough(shipped):
    assert shipped.focused == shipped.field("prompt")
    shipped.press("CONTROL", "ENTER")
    shipped.wait_for("status", "Finished: 64 tokens.")
    stops = []
    for _ in range(30):
        shipped.press("TAB")
        stops.append(shipped.focused.get_attribute("id") or shipped.focused.get_attribute("role"))
    expected = ["generate", "stop", "option", "repeat", "field-max_tokens"]
    assert [name for name in stops if name in expected][: len(expected)] == expected
    assert stops.count("option") <= 2  # all tokens together are one stop of a round
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert shipped.run(outline) != "none"
    shipped.run("document.getElementById('generate').focus()")
    shipped.press("SPACE")
    shipped.wait_for("status", "Finished: 64 tokens.")


def test_every_control_has_a_name_and_every_part_a_role(answered):
    answered.run("for (const more of document.querySelectorAll('details')) more.open = true")
    controls = answered.all("input, textarea, button, summary, [tabindex='0']")
    assert len(controls) > 20
    for element in controls:
        if element.is_displayed():
            role, name, _ = answered.described(element)
            assert name, element.get_attribute("outerHTML")
            assert role not in ("", "generic"), element.get_attribute("outerHTML")
    assert answered.all("html[lang]")
    assert answered.browser.title
    assert [len(answered.all(name)) for name in ("header", "main", "h1")] == [1, 1, 1]
    regions = {answered.described(element)[:2] for element in answered.all("main section")}
    assert regions == {("region", "Answer"), ("region", "Token"), ("region", "Settings")}
    assert answered.described(answered.find("tokens"))[:2] == ("listbox", "Tokens of the answer")
    role, name, description = answered.described(answered.tokens[2])
    assert (role, name.strip()) == ("option", answered.tokens[2].text.strip())
    assert description.startswith("probability ")


def test_a_screen_reader_hears_the_beginning_the_end_and_errors_but_no_token(shipped):
    shipped.run(
        "window.heard = [];"
        "for (const live of document.querySelectorAll('[role=status], [role=alert], [aria-live]'))"
        "  new MutationObserver(() => heard.push([live.id, live.textContent]))"
        "    .observe(live, {childList: true, subtree: true, characterData: true});"
    )
    shipped.set(max_tokens=12).click("generate")
    shipped.wait_for("status", "Finished")
    heard = shipped.run("return heard")
    assert [text for name, text in heard if name == "status"] == ["Generating.", "Finished: 12 tokens."]
    assert not any(text for name, text in heard if name != "status")
    assert {name for name, _ in heard} <= {"status", "alert"}


@pytest.mark.parametrize("width", [320, 600, 1200])
def test_nothing_is_cut_off_on_a_narrow_screen_or_zoomed_in(answered, width):
    size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    answered.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        answered.run("for (const more of document.querySelectorAll('details')) more.open = true")
        assert answered.run("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        answered.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_long_name_of_a_model_stays_in_the_window(browser, serve):
    server = serve(Echo())
    server.generator.name = "m" * 255
    page = Page(browser, server.port).ready()
    assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_text_that_runs_the_other_way_turns_no_text_of_the_page(browser, put_between):
    turned = "\u202eab"
    between = put_between(Echo())
    between.answers["/v1/models"] = 200, JSON, json.dumps({"data": [{"id": turned}]})
    token = {"token": 7, "text": turned, "bytes": list(turned.encode()), "logprob": -1, "top": []}
    event = {"text": turned, "logprobs": [token]}
    between.answers["/generate"] = 200, EVENT_STREAM, f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n"
    page = Page(browser, between.port).ready()
    page.click("generate")
    page.wait_for("status", "Finished: 1 token.")
    page.point_at(page.tokens[0])
    page.wait_for("token-summary", f"{turned} is token 7: ")
    # From left to right: what was turned, and the sentence about it.
    starts = page.run(
        "return [...document.getElementById('token-summary').childNodes].map((node) => {"
        "  const range = document.createRange();"
        "  range.selectNodeContents(node);"
        "  return range.getBoundingClientRect().left;"
        "})"
    )
    assert len(starts) == 2
    assert starts == sorted(starts)
    (name,) = page.all("#model bdi")
    assert name.get_property("textContent") == turned


CONTRAST = """
const luminance = ([red, green, blue]) => {
  const [r, g, b] = [red, green, blue].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
const ground = (element) => {
  for (; element; element = element.parentElement) {
    const color = numbers(getComputedStyle(element).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll(arguments[0])].map((element) => {
  const text = luminance(numbers(getComputedStyle(element).color));
  const behind = luminance(ground(element));
  return [element.outerHTML.slice(0, 80), (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05)];
});
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_legible(answered, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    answered.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        answered.set(max_tokens=0).click("generate")
        answered.wait_for("alert", "must be at least 1")
        selector = ".token, label, h1, h2, button, input, textarea, .hint, .error, #status, summary, dt, li"
        contrasts = answered.run(CONTRAST, selector)
        grounds = answered.run("return getComputedStyle(document.body).backgroundColor")
    finally:
        answered.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [found for found in contrasts if found[1] < 4.5] == []
    assert (sum(map(int, re.findall(r"\d+", grounds))) < 200) == (scheme == "dark")


def test_nothing_moves_for_whoever_wants_no_motion(open_page):
    model = Paced()
    page, server = open_page(model)
    page.click("generate")
    model.step()
    page.wait_for("tokens", "a")
    moving = "return document.getAnimations().length"
    assert page.run(moving) == 1
    media = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page.wait(lambda: page.run(moving) == 0)
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    page.press("ESCAPE")
    let_go(model, server)
