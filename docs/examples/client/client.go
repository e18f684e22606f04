// A client of Countersign. Run with: go run client.go http://127.0.0.1:8080/sandbox/gw ORDER_ID [SECONDS]
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Those of the demo.
const login, endpoint, group = "acme", "1234", "77"

var base = strings.TrimSuffix(os.Args[1], "/")

// The product of the environment. The gateway puts it before the names of some fields.
var product = base[strings.LastIndex(base, "/")+1:]

// Until a person decides about an order that is not final: see docs/payments.md.
var patience = 900 * time.Second

var client = http.Client{Timeout: 35 * time.Second}

type response struct {
	status  int
	outcome string
	body    []byte
}

// post sends an unsigned form. A network error says nothing about the outcome, so it counts as unknown.
func post(path string, form url.Values) response {
	request, err := http.NewRequest("POST", base+path, strings.NewReader(form.Encode()))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json") // and Authorization: Bearer <token>
	received, err := client.Do(request)
	if err != nil {
		return response{outcome: "unknown"}
	}
	defer received.Body.Close()
	body, err := io.ReadAll(received.Body)
	outcome := received.Header.Get("Countersign-Outcome")
	if err != nil || outcome == "" {
		outcome = "unknown"
	}
	return response{received.StatusCode, outcome, body}
}

func fieldsOf(body []byte) map[string]any {
	var fields map[string]any
	_ = json.Unmarshal(body, &fields) // No fields: the response of the gateway is not a form.
	return fields
}

// orderStatus is a row of "What the status query says" in docs/payments.md.
func orderStatus(path, id string) string {
	found := post(path, url.Values{"login": {login}, "client_orderid": {id}})
	if found.status != 200 {
		return "no response"
	}
	fields := fieldsOf(found.body)
	status, _ := fields["status"].(string)
	_, exists := fields[product+"-order-id"]
	switch {
	case status == "":
		return "no response"
	case status == "approved", status == "declined", status == "filtered", status == "unknown":
		return status
	case status != "error":
		return "processing"
	case fields["error-code"] == "124":
		return "ambiguous"
	case exists:
		return "in error"
	}
	return "not found"
}

// resolve queries the status until it is final, or a person has to decide. It never sends the payment again.
func resolve(id string) string {
	deadline := time.Now().Add(patience)
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		found := orderStatus("/api/v4/status/"+endpoint, id)
		left := time.Until(deadline)
		switch {
		case found == "approved", found == "declined", found == "filtered":
			return found
		case found == "ambiguous", found == "in error", found == "unknown", left <= 0:
			return "a person decides: " + found
		}
		time.Sleep(min(pause, left))
	}
}

// transfer sends a payment once, and finds out what happened to it. A service stores the order ID before it calls this.
func transfer(id, amount, currency string) string {
	sent := post("/api/v4/transfer/"+endpoint, url.Values{"client_orderid": {id}, "amount": {amount}, "currency": {currency}})
	// 422: another form was sent under this order ID before. What became of that one?
	if sent.outcome == "not-sent" && sent.status != 422 {
		return fmt.Sprint("not sent, may be sent again under this order ID: ", fieldsOf(sent.body)["reason"])
	}
	if sent.outcome == "answered" && (sent.status == 401 || sent.status == 403) {
		return "rejected, may be sent again under this order ID once the cause is fixed"
	}
	return resolve(id)
}

func main() {
	orderID := "order-1"
	if len(os.Args) > 2 {
		orderID = os.Args[2]
	}
	if len(os.Args) > 3 {
		seconds, err := strconv.ParseFloat(os.Args[3], 64)
		if err != nil {
			panic(err)
		}
		patience = time.Duration(seconds * float64(time.Second))
	}
	fmt.Println("manager-balance:", post("/api/v2/get-balance/manager/"+login, nil).status)
	fmt.Println("order-status:", orderStatus("/api/v4/status/"+endpoint, "invoice-1"))
	fmt.Println("order-status-group:", orderStatus("/api/v4/status/group/"+group, "invoice-1"))
	fmt.Println("pan-eligibility-send:", post("/api/v2/pan-eligibility/send/"+endpoint, nil).status)
	fmt.Printf("transfer %s: %s\n", orderID, transfer(orderID, "12.50", "EUR"))
}
