"""The playground in a browser without a window, as its user finds it."""

from __future__ import annotations

import contextlib
import shutil

import pytest
from server_live import SECONDS

_POLL_SECONDS = 0.01
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which needs more rights than a container has; the pages are all ours
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--lang=en",
    "--window-size=1200,1000",
)


def _program(*names):
    return next((path for name in names if (path := shutil.which(name))), None)


@contextlib.contextmanager
def start():
    """A browser. Skips the test where there is none."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="needs selenium and chromium, which are not installed"
    )
    chromium = _program("chromium", "chromium-browser", "google-chrome")
    driver = _program("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver, which are not installed (Debian's chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_script_timeout(SECONDS)
    try:
        yield browser
    finally:
        browser.quit()


class Page:
    """The page of the server on a port of this machine, at a path, for somebody whom the address may name."""

    def __init__(self, browser, port, path="/", user=""):
        self.browser = browser
        self.address = f"http://127.0.0.1:{port}{path}"
        browser.get("about:blank")
        browser.get_log("browser")  # of the page before
        browser.get(self.address.replace("//", f"//{user}@", 1) if user else self.address)

    # Looking

    def find(self, name):
        return self.browser.find_element("id", name)

    def field(self, name):
        """The input of a field."""
        return self.find(f"field-{name}")

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def text(self, name):
        return self.run("return document.getElementById(arguments[0]).textContent", name)

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def value(self, name):
        return self.find(name).get_property("value")

    @property
    def focused(self):
        return self.browser.switch_to.active_element

    @property
    def tokens(self):
        return self.all("#tokens [role=option]")

    def errors(self):
        """What the console of the browser has to complain about, but for statuses."""
        return [
            line["message"]
            for line in self.browser.get_log("browser")
            if "Failed to load resource: the server responded with" not in line["message"]
        ]

    def described(self, element):
        """Role, name and description as the browser tells them to a screen reader."""
        self.run("window.described = arguments[0]", element)
        found = self.browser.execute_cdp_cmd("Runtime.evaluate", {"expression": "window.described"})
        tree = self.browser.execute_cdp_cmd(
            "Accessibility.getPartialAXTree",
            {"objectId": found["result"]["objectId"], "fetchRelatives": False},
        )
        (node,) = tree["nodes"]
        return tuple(node.get(name, {}).get("value", "") for name in ("role", "name", "description"))

    # Waiting

    def wait(self, condition):
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.browser, SECONDS, _POLL_SECONDS).until(lambda _: condition())

    def wait_for(self, name, text):
        """Until the element of that id holds the text."""
        self.wait(lambda: text in self.text(name))

    def ready(self):
        """The page, once it knows the settings and the model."""
        self.wait(lambda: self.text("model-name"))
        return self

    # Acting

    def set(self, **fields):
        """Fills fields as somebody who types does."""
        for name, text in fields.items():
            self.unfold(self.field(name)).clear()
            self.field(name).send_keys(str(text))
        return self

    def unfold(self, element):
        """The element, in sight."""
        self.run("const more = arguments[0].closest('details'); if (more) more.open = true", element)
        return element

    def click(self, name):
        self.find(name).click()

    def press(self, *keys):
        """Presses keys together where the focus is."""
        from selenium.webdriver import ActionChains, Keys

        *held, last = [getattr(Keys, key, key) for key in keys]
        actions = ActionChains(self.browser, duration=0)
        for key in held:
            actions.key_down(key)
        actions.send_keys(last)
        for key in reversed(held):
            actions.key_up(key)
        actions.perform()

    def point_at(self, element):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser, duration=0).move_to_element(element).perform()
