#!/usr/bin/env python3
"""A worker for termdrill in Python, 3.8 or newer, without packages: termdrill run NAME --worker 'python3 worker.py'

It keeps to docs/worker-contract.md and commits to the SQLite store, or to the one of JSON Lines where there is no other.
"""

import os
import signal
import sys


def setting(name, default, allowed=None):
    """What a variable says, checked."""
    value = os.environ.get(name, default)
    if allowed is not None and value not in allowed:
        sys.exit(f"{name}={value!r} is not allowed: it must be one of {', '.join(allowed)}")
    return value


def number(name, default):
    """What a variable says, as a whole number."""
    value = os.environ.get(name, str(default))
    if not value.isdecimal():
        sys.exit(f"{name}={value!r} is not allowed: it must be a whole number")
    return int(value)


# The handler writes a byte here and takes no lock, so that it can come at any moment.
WAKE_READ, WAKE_WRITE = os.pipe()
os.set_blocking(WAKE_READ, False)
os.set_blocking(WAKE_WRITE, False)


def install_handler():
    signal.set_wakeup_fd(WAKE_WRITE, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)


# Before anything that takes time, the other imports included: a signal that comes first meets the default disposition.
ON_SIGTERM = setting("TERMDRILL_ON_SIGTERM", "default", ("drain", "default", "ignore"))
AFTER_BOOT = setting("TERMDRILL_HANDLER_INSTALLED", "at_start", ("at_start", "after_boot")) == "after_boot"
if ON_SIGTERM == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif ON_SIGTERM == "drain" and not AFTER_BOOT:
    install_handler()

import json  # noqa: E402
import select  # noqa: E402
import socket  # noqa: E402
import sqlite3  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # noqa: E402

NAME = os.environ.get("TERMDRILL_WORKER", "worker-1")
PORT = number("PORT", 8080)
SLOTS = number("TERMDRILL_SLOTS", 4)
ORIGIN_NS = number("TERMDRILL_ORIGIN_NS", time.monotonic_ns())
TICK_NS = number("TERMDRILL_TICK_NS", 100_000_000)
READY_TICK = number("TERMDRILL_READY_TICK", 40)
INVOCATION_TICKS = number("TERMDRILL_INVOCATION_TICKS", 200)
FAIL_BOOT = setting("TERMDRILL_FAIL_BOOT", "false", ("true", "false")) == "true"
MAX_BODY = 64 * 1024
LOCK_PATIENCE_S, LOCK_RETRY_S = 1, 0.001


def start_of(tick):
    return ORIGIN_NS + tick * TICK_NS


def sleep_until(at_ns):
    left_ns = at_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


class Refused(Exception):
    """The store has a result of the request already."""


class SqliteStore:
    """The database that the harness has made, and that all workers of a drill share."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.connection = sqlite3.connect(
            f"file:{path}?mode=rw", uri=True, isolation_level=None, timeout=0, check_same_thread=False
        )
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute("SELECT count(*) FROM results").fetchone()

    def commit(self, row):
        values = (row["request"], NAME, os.getpid(), json.dumps(row["addends"]), row["sum"], row["committed_us"])
        until = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                with self.lock:
                    self.connection.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", values)
                return
            except sqlite3.IntegrityError as error:
                raise Refused from error
            except sqlite3.OperationalError:
                # Another worker writes; SQLite's own way to wait for it is a long one.
                if time.monotonic() > until:
                    raise
            time.sleep(LOCK_RETRY_S)


class LinesStore:
    """A file that every worker appends to: one write, one line, one commit."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def commit(self, row):
        line = (json.dumps({**row, "worker": NAME, "pid": os.getpid()}) + "\n").encode()
        if os.write(self.file, line) != len(line):
            raise OSError("the line was cut short")


class NoStore:
    def commit(self, row):
        raise OSError(f"there is no result store, so the sum {row['sum']} is not stored")


def open_store():
    if path := os.environ.get("TERMDRILL_STORE"):
        return SqliteStore(path)
    if path := os.environ.get("TERMDRILL_STORE_LINES"):
        return LinesStore(path)
    return NoStore()


def notify(state):
    """Tells the harness, by the protocol of sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    address = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling:
        telling.sendto(f"{state}=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}\n".encode(), address)


class Worker:
    """What it holds and how far it is in its life; everything under one lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.idle = threading.Condition(self.lock)
        self.phase = "starting"
        self.slots = set()
        self.known = set()
        self.answers = 0

    def take(self, request):
        """A slot, or the status and body of a refusal."""
        with self.lock:
            if self.phase != "ready":
                return None, (503, {"reason": f"worker_{self.phase}"})
            if request in self.known:
                return None, (409, {"error": f"request-{request} runs here or is committed already"})
            free = [slot for slot in range(1, SLOTS + 1) if slot not in self.slots]
            if not free:
                return None, (503, {"reason": "no_free_slot"})
            self.slots.add(free[0])
            self.known.add(request)
            return free[0], None

    def release(self, slot, request, committed):
        with self.lock:
            self.slots.discard(slot)
            if not committed:
                self.known.discard(request)

    def begin_answer(self):
        with self.lock:
            self.answers += 1

    def end_answer(self):
        with self.lock:
            self.answers -= 1
            self.idle.notify_all()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, text, *values):
        print(text % values, flush=True)

    def answer(self, status, body):
        data = (json.dumps(body) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 503:
            self.send_header("Retry-After", "1")
        if worker.phase == "draining":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def handle_one_request(self):
        # Waiting for a request is nothing that a drain has to wait for; answering one is.
        if not select.select([self.connection], [], [])[0]:
            return
        worker.begin_answer()
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True
        finally:
            worker.end_answer()

    def do_GET(self):
        if self.path == "/livez":
            self.answer(200, {"phase": worker.phase})
        elif self.path == "/readyz":
            self.answer(200 if worker.phase == "ready" else 503, {"phase": worker.phase})
        else:
            self.answer(404, {"error": "there are /livez, /readyz and /invocations"})

    def do_POST(self):
        if self.path != "/invocations":
            return self.answer(404, {"error": "there are /livez, /readyz and /invocations"})
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= MAX_BODY:
                raise ValueError(f"the body must have at most {MAX_BODY} bytes")
            asked = json.loads(self.rfile.read(length))
            request, addends = asked["request"], asked["addends"]
            if type(request) is not int or request < 1 or any(type(one) is not int or one < 0 for one in addends):
                raise ValueError("request is a number from 1 and addends are numbers from 0")
            given = self.headers.get("termdrill-tick")
            admitted = (time.monotonic_ns() - ORIGIN_NS) // TICK_NS if given is None else int(given)
        except (ValueError, KeyError, TypeError) as error:
            self.close_connection = True
            return self.answer(400, {"error": f"the body is not an invocation: {error}"})
        slot, refusal = worker.take(request)
        if refusal:
            return self.answer(*refusal)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.listening = True
        self.invoke(request, addends, slot, admitted)
        self.chunk(b"")

    def invoke(self, request, addends, slot, admitted):
        """The stages and the commit, each at its own moment, so that lateness never adds up."""
        now_ns = time.monotonic_ns()
        self.tell(now_ns, now_ns, {"event": "accepted", "slot": slot})
        self.tell(now_ns, now_ns, {"event": "stage_entered", "stage": "prepare"})
        for part, stage in ((1, "model"), (2, "tool")):
            # The first whole tick that is not before the third.
            planned_ns = start_of(admitted + -(-part * INVOCATION_TICKS // 3))
            sleep_until(planned_ns)
            self.tell(time.monotonic_ns(), planned_ns, {"event": "stage_entered", "stage": stage})
        planned_ns = start_of(admitted + INVOCATION_TICKS)
        sleep_until(planned_ns)
        total, at_ns = sum(addends), time.monotonic_ns()
        committed = True
        try:
            row = {"request": request, "addends": addends, "sum": total, "committed_us": at_ns // 1000}
            store.commit(row)
            step = {"event": "result_committed", "sum": total}
        except Refused:
            step = {"event": "commit_refused", "sum": total}
        except (OSError, sqlite3.Error) as error:
            committed, step = False, {"event": "commit_failed", "error": str(error)}
        worker.release(slot, request, committed)
        self.tell(at_ns, planned_ns, step)

    def tell(self, at_ns, planned_ns, step):
        line = {"at_us": at_ns // 1000, "late_us": max(0, at_ns - planned_ns) // 1000, **step}
        self.chunk((json.dumps(line) + "\n").encode())

    def chunk(self, data):
        # A client that is gone misses the rest, and the work goes on: the store is the truth.
        if self.listening:
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            except OSError:
                self.listening, self.close_connection = False, True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def sigterm_came(until_ns=None):
    """Waits for SIGTERM, where there is a handler for it; False when that took until `until_ns`."""
    while True:
        left_s = None if until_ns is None else max(0.0, (until_ns - time.monotonic_ns()) / 1e9)
        if select.select([WAKE_READ], [], [], left_s)[0]:
            os.read(WAKE_READ, 64)
            return True
        if left_s is not None and time.monotonic_ns() >= until_ns:
            return False


worker = Worker()
try:
    # Binds with SO_REUSEADDR, which is needed: the harness keeps the port for this worker until it listens.
    server = Server(("0.0.0.0", PORT), Handler)
    store = open_store()
except (OSError, sqlite3.Error) as problem:
    sys.exit(f"can't listen on port {PORT}, or open the store: {problem}")
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"listens on port {PORT}", flush=True)

if not sigterm_came(until_ns=start_of(READY_TICK)):
    if FAIL_BOOT:
        print("the boot fails, as it was told to", flush=True)
        os._exit(1)
    if ON_SIGTERM == "drain" and AFTER_BOOT:
        install_handler()
    with worker.lock:
        worker.phase = "ready"
    notify("READY")
    sigterm_came()
with worker.lock:
    worker.phase = "draining"
notify("STOPPING")
with worker.idle:
    worker.idle.wait_for(lambda: worker.answers == 0)
print("has drained: exits 0", flush=True)
# At once: nothing is left that the interpreter would have to tidy up.
os._exit(0)
