"""A shop that uses the client. Run with: python3 main.py http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]

It has no key and no secret. A real one stores its orders, and authenticates those who may pay and refund.
"""

import json
import sys
import urllib.parse
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from countersign import Countersign


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        """The gateway sends a callback by GET."""
        path, _, query = self.path.partition("?")
        if path == "/callback":
            self.callback(query)
        else:
            self.respond(404)

    def do_POST(self):
        """A payer's browser sends a redirect by POST."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        command = {"/pay": self.pay, "/refund": self.refund}.get(self.path)
        if self.path == "/callback":
            self.callback(body)
        elif command:
            found = command(dict(urllib.parse.parse_qsl(body)))
            self.respond(200, f"{found.next}: {found.row} {found.order_id or found.reason or ''}\n")
        else:
            self.respond(404)

    def pay(self, form):
        """A real shop stores the order ID, and when it was sent, before this."""
        form["server_callback_url"] = f"http://127.0.0.1:{self.server.server_port}/callback"
        sent = countersign.send("v4/transfer", form)
        if sent.next != "query":
            return sent
        return countersign.until_decided({"client_orderid": form["client_orderid"]}, seconds)

    def refund(self, form):
        """Only its serial number tells the status of a refund from that of the payment."""
        sent = countersign.send("v2/return", form)
        serial_number = sent.fields.get("serial-number")
        if sent.next != "query":
            return sent
        if not serial_number:
            return replace(sent, next="ask-support")
        order = {"client_orderid": form["client_orderid"], "orderid": form["orderid"]}
        return countersign.until_decided({**order, "by-request-sn": serial_number}, seconds)

    def callback(self, received):
        found = countersign.callback(received)
        self.respond(found.respond_with)
        if found.order:
            about = f"{json.dumps(found.client_orderid)} is {found.order.next}: {found.order.row}"
            print(f"{found.result}: {about}", flush=True)
        else:
            print(found.result, flush=True)

    def respond(self, status, text=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    url, *others = sys.argv[1:]
    port, seconds = (int(other) for other in others + ["0", "900"][len(others) :])
    countersign = Countersign(url, login="acme", endpoint="1234")  # those of the demo
    server = ThreadingHTTPServer(("127.0.0.1", port), Shop)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
