// Package countersign is a client of Countersign to copy into a service (Go 1.22 or later).
// Why it does what it does: docs/payments.md.
package countersign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Next is what to do now.
type Next string

const (
	Paid        Next = "paid"
	NotPaid     Next = "not-paid"
	Refunded    Next = "refunded" // done, if it is your refund
	NotRefunded Next = "not-refunded"
	Query       Next = "query"       // find out what became of it: UntilDecided
	SendAgain   Next = "send-again"  // it was not sent: send it again under the same order ID, after RetryAfter
	Fix         Next = "fix"         // it was not processed: find the cause, then send it again under the same order ID
	AskSupport  Next = "ask-support" // a person decides, with the gateway's support: do not send it again before
)

// The tables of docs/payments.md: the first row that applies says what to do now.

func afterSending(found Response) (row string, next Next) {
	notSent, answered, status := found.Outcome == "not-sent", found.Outcome == "answered", found.Status
	switch {
	case found.OrderMismatch != "":
		return "another order", Query
	case found.Reason == "order-id-reused":
		return "order ID reused", AskSupport
	case notSent && (status == 0 || status >= 500 || status == 408 || status == 429):
		return "not sent", SendAgain
	case notSent:
		return "not sent", Fix
	case answered && (status == 401 || status == 403):
		return "rejected", Fix
	}
	return "may be processed", Query
}

// Of a refund, and of what else was done to a payment since.
var refunds = []string{"reversal", "refund"}
var laterStages = []string{"cancel", "chargeback", "fraud", "dispute", "retrieval"}

func afterQuery(found Response) (row string, next Next) {
	status := found.Fields["status"]
	stage, hasStage := found.Fields["transaction-type"]
	isRepeated := hasStage && stage == ""
	isRefund := slices.Contains(refunds, stage)
	switch {
	case found.Status != 200, status == "", isRepeated:
		return "no response", Query
	case slices.Contains(laterStages, stage):
		return "later stage", AskSupport
	case isRefund && status == "approved":
		return "refunded", Refunded
	case isRefund && (status == "declined" || status == "filtered"):
		return "not refunded", NotRefunded
	case status == "approved":
		return "approved", Paid
	case status == "declined", status == "filtered":
		return "declined", NotPaid
	case status == "unknown":
		return "unknown", AskSupport
	case status != "error":
		return "processing", Query
	case found.Fields["error-code"] == "124":
		return "ambiguous", AskSupport
	case found.OrderID != "":
		return "in error", AskSupport
	}
	return "not found", Query
}

// Response is a response of Countersign. What is absent is empty.
type Response struct {
	Status        int
	Outcome       string
	Reason        string // of Countersign's own error (docs/errors.md), or why there is no response
	Message       string // its detail, or the gateway's error-message
	RequestID     string // finds the log line
	OrderMismatch string // it is about another order: take nothing from it
	RetryAfter    time.Duration
	Body          []byte
	Fields        map[string]string // of the body, if it is a form; empty: it is repeated
	OrderID       string            // of the gateway
	Row           string
	Next          Next
}

// Client calls the gateway through Countersign.
type Client struct {
	URL             string // with environment and product, such as http://127.0.0.1:8080/sandbox/gw
	Login, Endpoint string
	Token           func() string // the bearer token of the service; may be nil
}

// Pay sends a payment once, such as v4/transfer, and says what to do now: Next.
// Store the order ID before. It never repeats it: nothing here does.
func (c *Client) Pay(ctx context.Context, command string, form url.Values) Response {
	found := c.Post(ctx, "/api/"+command+"/"+c.Endpoint, form.Encode())
	found.Row, found.Next = afterSending(found)
	return found
}

// Refund sends a refund once, and queries what became of it. Only its serial number tells it from the payment and from
// other refunds: a person decides about one without. It is given to store, and UntilDecided goes on with it after a
// restart. Begin one when the last one of the order is decided. The form has client_orderid, orderid, and for a part of
// the payment amount and currency.
func (c *Client) Refund(
	ctx context.Context, form url.Values, store func(serialNumber string), patience time.Duration,
) Response {
	sent := c.Pay(ctx, "v2/return", form)
	serialNumber := sent.Fields["serial-number"]
	if sent.Next != Query {
		return sent
	}
	if serialNumber == "" {
		sent.Next = AskSupport
		return sent
	}
	store(serialNumber)
	order := url.Values{
		"client_orderid": form["client_orderid"],
		"orderid":        form["orderid"],
		"by-request-sn":  {serialNumber},
	}
	found := c.UntilDecided(ctx, order, patience)
	found.Message = cmp.Or(sent.Message, found.Message) // why it was not made
	return found
}

// Status says what became of an order, and what to do now. The order has client_orderid, amount and currency: it is paid
// only if the status has the same. A refund has client_orderid, orderid and by-request-sn.
func (c *Client) Status(ctx context.Context, order url.Values) Response {
	form := url.Values{"login": {c.Login}, "client_orderid": order["client_orderid"]}
	serialNumber := order.Get("by-request-sn")
	isRefund := serialNumber != ""
	// With the orderid of a payment, a second one with its client_orderid would not be seen.
	if isRefund {
		form["orderid"], form["by-request-sn"] = order["orderid"], order["by-request-sn"]
	}
	found := c.Post(ctx, "/api/v4/status/"+c.Endpoint, form.Encode())
	found.Row, found.Next = afterQuery(found)
	echo, isEchoed := found.Fields["by-request-sn"]
	switch {
	// A refund has no status of a payment, or of another refund.
	case isRefund && (found.Next == Paid || found.Next == NotPaid || isEchoed && echo != serialNumber):
		found.Row, found.Next = "another stage", AskSupport
	case found.Next == Paid && !hasAmount(order, found.Fields):
		found.Row, found.Next = "another amount", AskSupport
	}
	return found
}

// 12.5 is 12.50.
func hasAmount(order url.Values, fields map[string]string) bool {
	ordered, isNumber := new(big.Rat).SetString(order.Get("amount"))
	found, isFound := new(big.Rat).SetString(fields["amount"])
	currency := order.Get("currency")
	return isNumber && isFound && ordered.Cmp(found) == 0 && currency != "" && currency == fields["currency"]
}

// Patience is how long to query the status of a payment.
const Patience = 15 * time.Minute

// UntilDecided queries the status until nothing is left to query. After the patience a person decides.
func (c *Client) UntilDecided(ctx context.Context, order url.Values, patience time.Duration) Response {
	deadline := time.Now().Add(patience)
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		found := c.Status(ctx, order)
		left := time.Until(deadline)
		if found.Next != Query || ctx.Err() != nil {
			return found
		}
		if left <= 0 {
			found.Next = AskSupport
			return found
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(max(pause, found.RetryAfter), left)):
		}
	}
}

// Callback is what to do about a callback: respond to the gateway with the status RespondWith.
type Callback struct {
	Result      string // verified, not-verified, key-missing, invalid or unavailable
	RespondWith int
	Order       url.Values // what was queried
	Found       *Response  // nil if there was no query
}

// Callback verifies a callback or redirect, and then queries the status: it is a reason to query, never the status.
// What was received is its query string or body, unchanged; stored returns what is known of a client_orderid.
func (c *Client) Callback(ctx context.Context, received string, stored func(id string) url.Values) Callback {
	said := c.Post(ctx, "/verify-callback/login/"+c.Login, received)
	result := said.Fields["result"]
	switch {
	case said.Status == 400:
		return Callback{Result: "invalid", RespondWith: 400}
	case said.Status == 200 && result == "not-verified":
		return Callback{Result: result, RespondWith: 403}
	case said.Status == 200 && (result == "verified" || result == "key-missing"):
		// Without a key: ask the platform team for the control key of the login.
		form, _ := url.ParseQuery(received) // Countersign has parsed it.
		id := form.Get("client_orderid")
		order := url.Values{}
		maps.Copy(order, stored(id))
		order.Set("client_orderid", id)
		found := c.Status(ctx, order)
		respondWith := 200
		if found.Row == "no response" {
			respondWith = 503 // so that the gateway repeats it
		}
		return Callback{Result: result, RespondWith: respondWith, Order: order, Found: &found}
	}
	return Callback{Result: "unavailable", RespondWith: 503}
}

// Longer than Countersign waits for the gateway. A redirect would send a payment again.
var httpClient = http.Client{
	Timeout:       35 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Post posts a form. Without a response the outcome is unknown, without a connection not-sent.
func (c *Client) Post(ctx context.Context, target, form string) Response {
	request, err := http.NewRequestWithContext(ctx, "POST", strings.TrimSuffix(c.URL, "/")+target, strings.NewReader(form))
	if err != nil {
		return noResponse(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	if c.Token != nil {
		request.Header.Set("Authorization", "Bearer "+c.Token())
	}
	received, err := httpClient.Do(request)
	if err != nil {
		return noResponse(err)
	}
	defer received.Body.Close()
	body, err := io.ReadAll(received.Body)
	if err != nil {
		return noResponse(err)
	}
	return c.read(received, body)
}

func noResponse(err error) Response {
	outcome := "unknown"
	if operation := (*net.OpError)(nil); errors.As(err, &operation) && operation.Op == "dial" {
		outcome = "not-sent"
	}
	return Response{Outcome: outcome, Reason: err.Error()}
}

func (c *Client) read(received *http.Response, body []byte) Response {
	header := received.Header
	retryAfter, _ := strconv.Atoi(header.Get("Retry-After")) // Anything else, such as a date, is no reason to wait.
	found := Response{
		Status:        received.StatusCode,
		Outcome:       header.Get("Countersign-Outcome"),
		RequestID:     header.Get("X-Request-Id"),
		OrderMismatch: header.Get("Countersign-Order-Mismatch"),
		RetryAfter:    time.Duration(retryAfter) * time.Second,
		Body:          body,
		Fields:        map[string]string{},
	}
	if found.Outcome == "" {
		found.Outcome = "unknown"
	}
	var members map[string]any
	_ = json.Unmarshal(body, &members) // No members: it is no form.
	for name, value := range members {
		if value != "" {
			found.Fields[name], _ = value.(string)
		}
	}
	if strings.HasPrefix(header.Get("Content-Type"), "application/problem+json") {
		found.Reason, found.Message = found.Fields["reason"], found.Fields["detail"]
		found.Fields = nil
	} else if found.OrderMismatch != "" {
		found.Fields = nil
	} else {
		found.Message = found.Fields["error-message"]
	}
	found.OrderID = found.Fields[path.Base(c.URL)+"-order-id"] // the name begins with the product
	return found
}
