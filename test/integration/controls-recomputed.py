"""Recomputes controls on its own. Reads a JSON document from standard input, and prints the problems, one a line."""

import hashlib
import json
import sys
from decimal import Decimal
from urllib.parse import parse_qsl

DECIMALS = {"JPY": 0, "KRW": 0, "EUR": 2, "USD": 2, "KWD": 3, "TND": 3}
COVERED = ["login", "endpoint", "client_orderid", "amount", "currency", "email"]


def control(key, values):
    return hashlib.sha1(("".join(values) + key).encode("utf-8")).hexdigest()


def covered(form, name):
    if name == "login":
        return "acme"
    if name == "endpoint":
        return "1234"
    if name == "amount" and "amount" in form:
        amount = Decimal(form["amount"]).scaleb(DECIMALS[form["currency"]])
        assert amount == amount.to_integral_value()
        return str(int(amount))
    return form.get(name, "")


def problem(key, sent, received):
    pairs = parse_qsl(received, keep_blank_values=True, strict_parsing=True, errors="strict")
    expected = [["login", "acme"]] + sent
    if [list(pair) for pair in pairs[:-1]] != expected:
        return "the form was changed"
    form = dict(sent)
    if pairs[-1] != ("control", control(key, [covered(form, name) for name in COVERED])):
        return "the control differs"
    return None


data = json.load(sys.stdin)
for index, (sent, received) in enumerate(data["forms"]):
    found = problem(data["key"], sent, received)
    if found is not None:
        print(f"form {index}: {found}")
print(json.dumps([control(data["key"], values) for values in data["callbacks"]]))
