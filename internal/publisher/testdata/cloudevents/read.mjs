// Reads events with the CloudEvents SDK for JavaScript: lines of {headers, data} in, where
// data is in Base64, and lines of what the SDK understood out. It fails at the first event
// that the SDK refuses.
import { createInterface } from "node:readline";
import { HTTP } from "cloudevents";

for await (const line of createInterface({ input: process.stdin })) {
  const { headers, data } = JSON.parse(line);
  const type = headers["ce-datacontenttype"];
  const body = type === "application/json" ? Buffer.from(data, "base64").toString() : Buffer.from(data, "base64");
  // NATS has the attribute where HTTP has Content-Type; all others are equal in both bindings.
  const event = HTTP.toEvent({ headers: { ...headers, "content-type": type }, body });
  event.validate();
  console.log(JSON.stringify({ id: event.id, type: event.type, source: event.source, dataschema: event.dataschema, datacontenttype: event.datacontenttype }));
}
