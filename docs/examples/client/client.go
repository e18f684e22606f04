// A client of Countersign. Run with: go run client.go http://127.0.0.1:8080/sandbox/gw ORDER_ID
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const login = "acme"

var client = http.Client{Timeout: 35 * time.Second}

type response struct {
	status  int
	outcome string
	body    []byte
}

// post sends an unsigned form. A network error says nothing about the outcome, so it counts as unknown.
func post(path string, form url.Values) response {
	request, err := http.NewRequest("POST", os.Args[1]+path, strings.NewReader(form.Encode()))
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

func field(body []byte, name string) string {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	text, _ := fields[name].(string)
	return text
}

func orderStatus(path, id string) string {
	found := post(path, url.Values{"login": {login}, "client_orderid": {id}})
	if found.status != 200 {
		return ""
	}
	return field(found.body, "status")
}

// transfer sends a payment once, and finds out what became of it.
func transfer(id, amount, currency string) string {
	sent := post("/api/v4/transfer/1234", url.Values{"client_orderid": {id}, "amount": {amount}, "currency": {currency}})
	if sent.outcome == "not-sent" {
		return "not sent, may be sent again: " + field(sent.body, "reason")
	}
	if sent.outcome == "answered" && sent.status < 500 && sent.status != 200 {
		return fmt.Sprint("rejected with ", sent.status)
	}
	// Made, or perhaps made (unknown, or a 5xx of the gateway): the status decides. Never resubmit under a new ID.
	for attempt := range 5 {
		if found := orderStatus("/api/v4/status/1234", id); found != "" && found != "error" {
			return found
		}
		time.Sleep(500 * time.Millisecond << attempt)
	}
	return "unresolved: query the status again later"
}

func main() {
	orderID := "order-1"
	if len(os.Args) > 2 {
		orderID = os.Args[2]
	}
	fmt.Println("manager-balance:", post("/api/v2/get-balance/manager/"+login, nil).status)
	fmt.Println("order-status:", orderStatus("/api/v4/status/1234", "invoice-1"))
	fmt.Println("order-status-group:", orderStatus("/api/v4/status/group/77", "invoice-1"))
	fmt.Println("pan-eligibility-send:", post("/api/v2/pan-eligibility/send/1234", nil).status)
	fmt.Printf("transfer %s: %s\n", orderID, transfer(orderID, "12.50", "EUR"))
}
