"""A client of Countersign to copy into a service (Python 3.10 or later).

Why it does what it does: docs/payments.md.
"""

import http.client
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

# The tables of docs/payments.md: the first row that applies says what to do now.
#
# paid, not-paid           done
# refunded, not-refunded   done, if it is your refund
# query                    find out what became of it: until_decided()
# send-again               it was not sent: send it again under the same order ID, after retry_after seconds
# fix                      it was not processed: find the cause, then send it again under the same order ID
# ask-support              a person decides, with the gateway's support: do not send it again before
# Without a connection, and of Countersign: any other status of what was not sent is for the caller to correct.
TEMPORARY = (0, 408, 429, 500, 502, 503, 504)
AFTER_SENDING = [
    ("another order", "query", lambda r: r.order_mismatch),
    ("order ID reused", "ask-support", lambda r: r.reason == "order-id-reused"),
    ("not sent", "send-again", lambda r: r.outcome == "not-sent" and r.status in TEMPORARY),
    ("not sent", "fix", lambda r: r.outcome == "not-sent"),
    ("rejected", "fix", lambda r: r.outcome == "answered" and r.status in (401, 403)),
    ("may be processed", "query", lambda r: True),
]
# Of a refund, and of what else was done to a payment since.
REFUNDS = ("reversal", "refund")
LATER_STAGES = ("cancel", "chargeback", "fraud", "dispute", "retrieval")
AFTER_QUERY = [
    ("no response", "query", lambda r: r.status != 200 or not r.fields.get("status") or _is_repeated(r)),
    ("later stage", "ask-support", lambda r: r.fields.get("transaction-type") in LATER_STAGES),
    ("refunded", "refunded", lambda r: _is_refund(r) and r.fields["status"] == "approved"),
    ("not refunded", "not-refunded", lambda r: _is_refund(r) and r.fields["status"] in ("declined", "filtered")),
    ("approved", "paid", lambda r: r.fields["status"] == "approved"),
    ("declined", "not-paid", lambda r: r.fields["status"] in ("declined", "filtered")),
    ("unknown", "ask-support", lambda r: r.fields["status"] == "unknown"),
    ("processing", "query", lambda r: r.fields["status"] != "error"),
    ("ambiguous", "ask-support", lambda r: r.fields.get("error-code") == "124"),
    ("in error", "ask-support", lambda r: r.order_id),
    ("not found", "query", lambda r: True),
]

# What to do about a callback: whether to query the status, and the status of the response to the gateway. 503, so that the
# gateway repeats it, also if the query gets no response.
CALLBACKS = {
    "verified": (True, 200),
    "key-missing": (True, 200),  # ask the platform team for the control key of the login
    "not-verified": (False, 403),
    "invalid": (False, 400),
    "unavailable": (False, 503),
}

TIMEOUT = 35  # seconds; longer than Countersign waits for the gateway


@dataclass(frozen=True)
class Response:
    status: int = 0
    outcome: str = "unknown"
    reason: str | None = None  # of Countersign's own error (docs/errors.md), or why there is no response
    message: str = ""  # its detail, or the gateway's error-message
    request_id: str | None = None  # finds the log line
    order_mismatch: str | None = None  # it is about another order: take nothing from it
    retry_after: int = 0  # seconds
    body: bytes = b""
    fields: Mapping = field(default_factory=dict)  # of the body, if it is a form; of a repeated one a list
    order_id: str | None = None  # of the gateway
    row: str | None = None
    next: str | None = None  # what to do now


@dataclass(frozen=True)
class Callback:
    result: str
    respond_with: int  # the status of the response to the gateway
    order: Mapping | None = None  # what was queried, if anything was
    found: Response | None = None


class Countersign:
    def __init__(self, url: str, *, login: str, endpoint: str, token: Callable[[], str] | None = None):
        """url has environment and product, such as http://127.0.0.1:8080/sandbox/gw; token returns a bearer token."""
        self._url, self._login, self._endpoint, self._token = url.rstrip("/"), login, endpoint, token

    def pay(self, command: str, form: Mapping) -> Response:
        """Sends a payment once, such as v4/transfer, and says what to do now: `next`. Store the order ID before.

        This never repeats it: nothing here does.
        """
        return _decided(AFTER_SENDING, self.post(f"/api/{command}/{self._endpoint}", form))

    def refund(self, form: Mapping, store: Callable[[str], object], seconds: float = 900) -> Response:
        """Sends a refund once, and queries what became of it.

        Only its serial number tells it from the payment and from other refunds: a person decides about one without. `store`
        stores it, and `until_decided` goes on with it after a restart. Begin one when the last one of the order is decided.

        The form has client_orderid, orderid, and for a part of the payment amount and currency.
        """
        sent = self.pay("v2/return", form)
        serial_number = sent.fields.get("serial-number")
        if sent.next != "query":
            return sent
        if not serial_number or not isinstance(serial_number, str):
            return replace(sent, next="ask-support")
        store(serial_number)
        ids = {name: form.get(name, "") for name in ("client_orderid", "orderid")}
        found = self.until_decided({**ids, "by-request-sn": serial_number}, seconds)
        return replace(found, message=sent.message or found.message)  # why it was not made

    def status(self, order: Mapping) -> Response:
        """What became of an order, and what to do now.

        It has client_orderid, amount and currency: it is paid only if the status has the same. A refund has client_orderid,
        orderid and by-request-sn.
        """
        # With the orderid of a payment, a second one with its client_orderid would not be seen.
        is_refund = bool(order.get("by-request-sn"))
        names = ("client_orderid", "orderid", "by-request-sn") if is_refund else ("client_orderid",)
        form = {"login": self._login, **{name: order[name] for name in names}}
        found = _decided(AFTER_QUERY, self.post(f"/api/v4/status/{self._endpoint}", form))
        doubt = _doubt(order, found)
        return replace(found, row=doubt, next="ask-support") if doubt else found

    def until_decided(self, order: Mapping, seconds: float = 900) -> Response:
        """Queries the status until nothing is left to query: at most for 15 minutes, then a person decides."""
        deadline = time.monotonic() + seconds
        pause = 1
        while True:
            found = self.status(order)
            left = deadline - time.monotonic()
            if found.next != "query":
                return found
            if left <= 0:
                return replace(found, next="ask-support")
            time.sleep(min(max(pause, found.retry_after), left))
            pause = min(2 * pause, 60)

    def callback(self, received: str, stored: Callable[[str], Mapping]) -> Callback:
        """Verifies a callback or redirect, and then queries the status: it is a reason to query, never the status.

        `received` is its query string or body, unchanged; `stored` returns what is known of a client_orderid.
        """
        said = self.post(f"/verify-callback/login/{self._login}", received)
        result = said.fields.get("result") if said.status == 200 else "invalid" if said.status == 400 else None
        if result not in CALLBACKS:
            result = "unavailable"
        is_to_query, respond_with = CALLBACKS[result]
        if not is_to_query:
            return Callback(result, respond_with)
        client_orderid = dict(urllib.parse.parse_qsl(received)).get("client_orderid", "")
        order = {**stored(client_orderid), "client_orderid": client_orderid}
        found = self.status(order)
        return Callback(result, 503 if found.row == "no response" else respond_with, order, found)

    def post(self, path: str, form: Mapping | str = "") -> Response:
        """Posts a form, or its text. Without a response the outcome is `unknown`, without a connection `not-sent`."""
        body = form if isinstance(form, str) else urllib.parse.urlencode(form)
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token()}"
        request = urllib.request.Request(self._url + path, body.encode(), headers, method="POST")
        try:
            try:
                response = _opener.open(request, timeout=TIMEOUT)
            except urllib.error.HTTPError as error:
                response = error
            with response:
                return self._read(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as error:
            is_unconnected = isinstance(getattr(error, "reason", None), (ConnectionRefusedError, socket.gaierror))
            return Response(outcome="not-sent" if is_unconnected else "unknown", reason=str(error))

    def _read(self, status, headers, body) -> Response:
        members = _members(body)
        is_problem = headers.get("Content-Type", "").startswith("application/problem+json")
        mismatch = headers.get("Countersign-Order-Mismatch")
        fields = {} if is_problem or mismatch else members
        retry_after = headers.get("Retry-After", "")
        return Response(
            status=status,
            outcome=headers.get("Countersign-Outcome", "unknown"),
            reason=members.get("reason") if is_problem else None,
            request_id=headers.get("X-Request-Id"),
            message=str(members.get("detail", "") if is_problem else fields.get("error-message", "")),
            order_mismatch=mismatch,
            retry_after=int(retry_after) if retry_after.isdecimal() and len(retry_after) < 7 else 0,
            body=body,
            fields=fields,
            order_id=fields.get(f"{self._url.rsplit('/', 1)[1]}-order-id"),  # the name begins with the product
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # It would send the request again.


_opener = urllib.request.build_opener(_NoRedirect)


def _is_repeated(response: Response) -> bool:
    return any(isinstance(response.fields.get(name), list) for name in ("status", "transaction-type"))


def _is_refund(response: Response) -> bool:
    return response.fields.get("transaction-type") in REFUNDS


def _doubt(order: Mapping, found: Response) -> str | None:
    """Why what a query says is left to a person. A refund has no status of a payment, or of another refund."""
    if serial_number := order.get("by-request-sn"):
        is_echoed = found.fields.get("by-request-sn", serial_number) == serial_number
        return "another stage" if found.next in ("paid", "not-paid") or not is_echoed else None
    return "another amount" if found.next == "paid" and not _has_amount(order, found.fields) else None


def _has_amount(order: Mapping, fields: Mapping) -> bool:
    """12.5 is 12.50."""
    try:
        is_amount = Decimal(order["amount"]) == Decimal(fields["amount"])
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return is_amount and bool(order.get("currency")) and order["currency"] == fields.get("currency")


def _decided(table, response: Response) -> Response:
    row, what, _ = next(entry for entry in table if entry[2](response))
    return replace(response, row=row, next=what)


def _members(body: bytes) -> dict:
    """Of a JSON object, or none."""
    try:
        members = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}
