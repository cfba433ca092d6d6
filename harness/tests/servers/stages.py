"""A server in stages, each as the environment says:

BOOT_MS    so long after its start it listens on PORT
READY_MS   so long after that it is ready: GET /ready is answered with 200, and with 503 before
SAYS       what it then tells NOTIFY_SOCKET, `READY=1` if nothing is said
DRAIN_MS   so long it goes on after the first signal, 300 if nothing is said, and then exits 0; on a second one it exits 7 at
           once
"""

import http.server
import os
import signal
import socket
import sys
import threading
import time


def milliseconds(name, otherwise=0):
    return int(os.environ.get(name, otherwise)) / 1000


def tell(message):
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        # An address that begins with @ is in the abstract namespace, any other one is a path.
        address = "\0" + address[1:] if address.startswith("@") else address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(message.encode(), address)


def stop(number, _frame):
    global signals
    signals += 1
    print(f"got {signal.Signals(number).name}", flush=True)
    if signals > 1:
        os._exit(7)
    threading.Timer(milliseconds("DRAIN_MS", 300), os._exit, [0]).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        booting = self.path == "/ready" and time.monotonic() < ready_at
        status = 503 if booting else 404 if self.path == "/missing" else 200
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100
    daemon_threads = True


signals = 0
for number in signal.SIGTERM, signal.SIGINT, signal.SIGUSR1:
    signal.signal(number, stop)
time.sleep(milliseconds("BOOT_MS"))
server = Server(("127.0.0.1", int(os.environ["PORT"])), Handler)
ready_at = time.monotonic() + milliseconds("READY_MS")
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listens", flush=True)
time.sleep(milliseconds("READY_MS"))
tell(os.environ.get("SAYS", "READY=1"))
print("is ready", flush=True)
while True:
    # Handlers run in this thread, and the kernel may give a signal to another one, which does not wake it.
    time.sleep(0.02)
