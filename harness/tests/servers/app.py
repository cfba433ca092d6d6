"""The same small application for WSGI (gunicorn) and ASGI (uvicorn): /slow takes half a second, /slower
1.5 s, /endless an hour, anything else none."""

import asyncio
import time

TAKES_S = {"/slow": 0.5, "/slower": 1.5, "/endless": 3600}


def wsgi(environ, start_response):
    time.sleep(TAKES_S.get(environ["PATH_INFO"], 0))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"done\n"]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    await asyncio.sleep(TAKES_S.get(scope["path"], 0))
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"done\n"})
