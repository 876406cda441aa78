// Uses the client of oapi-codegen: set, find, emit, a mistake, delete.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"example.com/hookgw/hookgw"
)

const instance = "of-go"

func check(holds bool, what string, err error) {
	if err != nil || !holds {
		log.Fatalf("%s: %v", what, err)
	}
}

func main() {
	ctx, receiver := context.Background(), os.Getenv("HOOKGW_RECEIVER")
	withKey := func(_ context.Context, request *http.Request) error {
		request.Header.Set("apikey", os.Getenv("HOOKGW_KEY"))
		return nil
	}
	client, err := hookgw.NewClientWithResponses(os.Getenv("HOOKGW_URL"), hookgw.WithRequestEditorFn(withKey))
	check(true, "client", err)

	kinds, base64, ordering := []hookgw.KindName{hookgw.KindNameMESSAGESUPSERT}, true, hookgw.OrderingChat
	wanted := hookgw.RegistrationRequest{Url: receiver, Events: &kinds, WebhookBase64: &base64, Ordering: &ordering}
	set, err := client.WebhookSetWithResponse(ctx, instance, wanted)
	check(err == nil && set.JSON201 != nil && set.JSON201.Url == receiver && set.JSON201.WebhookBase64, "set", err)

	find, err := client.WebhookFindWithResponse(ctx, instance)
	check(err == nil && find.JSON200 != nil && find.JSON200.Id == set.JSON201.Id, "find", err)
	check(find.JSON200.Ordering == hookgw.OrderingChat && find.JSON200.Timeout == nil, "find", err)

	event := hookgw.EmittedEvent{Event: hookgw.KindNameMESSAGESUPSERT, Data: map[string]string{"id": "1"}}
	batch := []hookgw.EmittedEvent{event, event}
	emit, err := client.EventEmitWithResponse(ctx, instance, nil, batch)
	check(err == nil && emit.JSON202 != nil && emit.JSON202.Accepted == 2, "emit", err)

	wrong, err := client.WebhookSetWithResponse(ctx, instance, hookgw.RegistrationRequest{Url: "ftp://x"})
	check(err == nil && wrong.JSON400 != nil && len(wrong.JSON400.Response.Message) == 1, "a mistake", err)

	gone, err := client.WebhookDeleteWithResponse(ctx, instance)
	check(err == nil && gone.JSON200 != nil && gone.JSON200.Status == "SUCCESS", "delete", err)
}
