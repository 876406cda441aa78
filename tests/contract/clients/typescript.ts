// Uses the types of openapi-typescript with openapi-fetch: set, find, emit, a mistake, delete.
import createClient from "openapi-fetch";
import type { components, paths } from "./hookgw";

declare const process: { env: Record<string, string> };

const { HOOKGW_URL, HOOKGW_KEY, HOOKGW_RECEIVER } = process.env;
const client = createClient<paths>({ baseUrl: HOOKGW_URL, headers: { apikey: HOOKGW_KEY } });
const params = { path: { instance: "of-typescript" } };

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

async function main(): Promise<void> {
  const wanted: components["schemas"]["RegistrationRequest"] = {
    url: HOOKGW_RECEIVER,
    events: ["MESSAGES_UPSERT"],
    webhookBase64: true,
    ordering: "chat",
  };
  const set = await client.POST("/webhook/set/{instance}", { params, body: wanted });
  check(set.data?.url === HOOKGW_RECEIVER && set.data.webhookBase64, "set");

  const find = await client.GET("/webhook/find/{instance}", { params });
  check(find.data?.id === set.data.id && find.data.ordering === "chat" && find.data.timeout === null, "find");

  const event: components["schemas"]["EmittedEvent"] = { event: "MESSAGES_UPSERT", data: { key: { id: "1" } } };
  const emit = await client.POST("/event/emit/{instance}", { params, body: [event, event] });
  check(emit.data?.accepted === 2, "emit");

  const wrong = await client.POST("/webhook/set/{instance}", { params, body: { url: "ftp://x" } });
  check(wrong.error?.status === 400 && wrong.error.response.message[0].startsWith("url: "), "a mistake");

  const gone = await client.DELETE("/webhook/delete/{instance}", { params });
  check(gone.data?.status === "SUCCESS", "delete");
  check((await client.GET("/webhook/find/{instance}", { params })).data === null, "find nothing");
}

main();
