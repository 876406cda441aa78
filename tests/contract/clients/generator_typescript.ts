// Uses the TypeScript client (typescript-fetch) of openapi-generator: set, find, emit, a mistake, delete.
import { Configuration, EventsApi, KindName, Ordering, RegistrationsApi, ResponseError } from "./client";

declare const process: { env: Record<string, string> };

const { HOOKGW_URL, HOOKGW_KEY, HOOKGW_RECEIVER } = process.env;
const configuration = new Configuration({ basePath: HOOKGW_URL, apiKey: HOOKGW_KEY });
const api = new RegistrationsApi(configuration);
const instance = "of-generator-typescript";

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

async function main(): Promise<void> {
  const set = await api.webhookSet({
    instance,
    registrationRequest: {
      url: HOOKGW_RECEIVER,
      events: [KindName.MessagesUpsert],
      webhookBase64: true,
      ordering: Ordering.Chat,
    },
  });
  check(set.url === HOOKGW_RECEIVER && set.webhookBase64 && set.createdAt instanceof Date, "set");

  const found = await api.webhookFind({ instance });
  check(found?.id === set.id && found.ordering === "chat" && found.timeout === null, "find");

  const event = { event: KindName.MessagesUpsert, data: { key: { id: "1" } } };
  const emitted = await new EventsApi(configuration).eventEmit({ instance, emittedEvent: [event, event] });
  check(emitted.accepted === 2, "emit");

  const wrong = await api.webhookSet({ instance, registrationRequest: { url: "ftp://x" } }).catch((error) => error);
  check(wrong instanceof ResponseError && wrong.response.status === 400, "a mistake");

  check((await api.webhookDelete({ instance })).status === "SUCCESS", "delete");
  check((await api.webhookFind({ instance })) === null, "find nothing");
}

main();
