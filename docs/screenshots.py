#!/usr/bin/env python3
"""Makes the pictures of the page in this folder: a drill is run for real, served, and photographed at 31 s, on a screen and
on a phone, light and dark, once all of it is there.

Needs chromedriver and the Chromium of the same version, and pngquant to make the pictures small. TERMDRILL=... takes a
program that is built already."""

import base64
import json
import os
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path

DOCS = Path(__file__).resolve().parent
# File, width and height in CSS pixels, pixels for each of them, colours.
PICTURES = [
    ("page-light.png", 1280, 1160, 1, "light"),
    ("page-dark.png", 1280, 1160, 1, "dark"),
    ("phone-light.png", 360, 1240, 2, "light"),
    ("phone-dark.png", 360, 1240, 2, "dark"),
]
BROWSER = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"]
BROWSER += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
# The verdict comes last, and the fonts may come later still.
DRAWN = """const done = arguments[0];
const look = () => document.querySelector('#verdict')?.textContent === 'verdict: MATCHED'
    && document.querySelector('#time-slider')?.value === '310'
  ? document.fonts.ready.then(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))
  : setTimeout(look, 20);
look();"""


def build():
    if "TERMDRILL" in os.environ:
        return os.environ["TERMDRILL"]
    subprocess.run(["cargo", "build", "--release"], cwd=DOCS.parent, check=True)
    return str(DOCS.parent / os.environ.get("CARGO_TARGET_DIR", "target") / "release/termdrill")


def started(*command, says, **options):
    """A program that goes on, and what it says about where it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    for line in process.stdout:
        if found := re.search(says, line):
            return process, found[1]
    raise SystemExit(f"{command[0]} ended before it listened")


def call(driver, path, **body):
    request = urllib.request.Request(f"{driver}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["value"]


def photograph(driver, address):
    options = {"args": BROWSER, **({"binary": os.environ["CHROMIUM"]} if "CHROMIUM" in os.environ else {})}
    session = call(driver, "/session", capabilities={"alwaysMatch": {"goog:chromeOptions": options}})["sessionId"]
    at = f"/session/{session}"
    call(driver, f"{at}/timeouts", script=30_000)

    def devtools(command, **parameters):
        call(driver, f"{at}/goog/cdp/execute", cmd=command, params=parameters)

    for file, width, height, scale, colours in PICTURES:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        devtools("Emulation.setDeviceMetricsOverride", **size)
        devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
        # Another address than the one before but for its fragment would not be loaded anew.
        call(driver, f"{at}/url", url="about:blank")
        call(driver, f"{at}/url", url=address)
        call(driver, f"{at}/execute/async", script=DRAWN, args=[])
        with urllib.request.urlopen(f"{driver}{at}/screenshot") as answer:
            (DOCS / file).write_bytes(base64.b64decode(json.load(answer)["value"]))
        try:
            subprocess.run(["pngquant", "--force", "--strip", "--speed", "1", "--output", DOCS / file, DOCS / file], check=True)
        except FileNotFoundError:
            print("note: there is no pngquant, so the pictures stay large")
        print(f"{(DOCS / file).stat().st_size:7} {file}")
    urllib.request.urlopen(urllib.request.Request(f"{driver}{at}", method="DELETE")).close()


def main():
    termdrill, processes = build(), []
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "XDG_STATE_HOME": state}
        try:
            subprocess.run([termdrill, "run", "ignored-signal", "--clock", "stepped", "--quiet"], env=environment, check=True)
            run = (Path(state) / "termdrill/runs/latest").resolve().name
            server, address = started(termdrill, "serve", "--listen", "127.0.0.1:0", says=r"(http://\S+)", env=environment)
            processes.append(server)
            driver, port = started("chromedriver", "--port=0", says=r"successfully on port (\d+)")
            processes.append(driver)
            photograph(f"http://127.0.0.1:{port}", f"{address}#run={run}&at=31")
        finally:
            for process in processes:
                process.terminate()
                process.wait()


main()
