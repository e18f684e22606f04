// Prints what a client of oapi-codegen reads. Arguments: the API, then API#ORDER_ID for each transfer.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"example/countersign"
)

func clientOf(api, accept string) *countersign.ClientWithResponses {
	setAccept := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Accept", accept)
		return nil
	}
	client, err := countersign.NewClientWithResponses(api, countersign.WithRequestEditorFn(setAccept))
	exitOn(err)
	return client
}

func exitOn(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	client := clientOf(os.Args[1], "application/json")
	balances, err := client.ManagerBalanceWithFormdataBodyWithResponse(ctx, "acme", nil, countersign.ManagerBalanceFormdataRequestBody{})
	exitOn(err)
	fmt.Println("balance", *(*balances.JSON200)[0].Amount)
	body := countersign.OrderStatusFormdataRequestBody{Login: "acme", ClientOrderid: "invoice-1"}
	found, err := client.OrderStatusWithFormdataBodyWithResponse(ctx, "1234", nil, body)
	exitOn(err)
	fmt.Println("status", *found.JSON200.Status)
	for _, accept := range []string{"*/*", "application/json"} {
		for _, transfer := range os.Args[2:] {
			api, orderID, _ := strings.Cut(transfer, "#")
			outcome, status, reason := Pay(ctx, clientOf(api, accept), orderID)
			fmt.Println(orderID, outcome, orDash(fmt.Sprint(status), "0"), orDash(reason, ""))
		}
	}
}

func orDash(text, absent string) string {
	if text == absent {
		return "-"
	}
	return text
}
