"""A stand-in for Zenodo on loopback that can serve well, badly, slowly, or not at all."""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StandIn(ThreadingHTTPServer):
    """Serve a record of `files` (name -> bytes).

    `answers` maps a path to what it is answered with, in turn, the last one for ever: an int is a
    status, (status, headers) too, and "truncated", "stalled" and (bytes) are what they say.
    """

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.record_path = "/api/records/7968969"
        self.files = files
        self.answers: dict[str, list] = {}
        self.requests: list[tuple[str, str]] = []  # path, User-Agent
        self.released = threading.Event()
        entries = [
            {
                "key": name,
                "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
                "links": {"self": self.url + self.path_of(name)},
            }
            for name, content in files.items()
        ]
        self.record = {"files": entries}

    def path_of(self, name: str) -> str:
        return f"{self.record_path}/files/{name}/content"

    def entry(self, name: str) -> dict:
        return next(entry for entry in self.record["files"] if entry["key"] == name)

    def content(self, path: str) -> bytes | None:
        if path == self.record_path:
            return json.dumps(self.record).encode()
        names = {self.path_of(name): name for name in self.files}
        return self.files[names[path]] if path in names else None


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests.append((self.path, self.headers.get("User-Agent", "")))
        queue = server.answers.get(self.path, [200])
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        content = answer if isinstance(answer, bytes) else server.content(self.path)
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        if content is None:
            status = 404
        if isinstance(status, int) and status != 200:
            content = b"no"
        self.send_response(status if isinstance(status, int) else 200)
        for header, value in headers.items():
            self.send_header(header, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        half = len(content) // 2
        if answer == "truncated":
            self.wfile.write(content[:half])
        elif answer == "stalled":
            self.wfile.write(content[:half])
            self.wfile.flush()
            server.released.wait(20)
        else:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def stand_in(files: dict[str, bytes]):
    """Run a StandIn while the block runs."""
    server = StandIn(files)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
