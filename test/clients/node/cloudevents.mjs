// The CloudEvents SDK for JavaScript reads the events of a video from NATS.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect, headers } from '@nats-io/transport-node';
import { HTTP } from 'cloudevents';
import { nats, tenant } from './service.mjs';

const nc = await connect({ servers: nats });
after(() => nc.close());

/** Converts a message to an event. The bindings for NATS and HTTP differ only in datacontenttype, which is Content-Type in HTTP. */
function event({ headers, data }) {
  const attributes = Object.fromEntries([...headers].map(([name, [value]]) => [name.toLowerCase(), value]));
  return HTTP.toEvent({ headers: { ...attributes, 'content-type': attributes['ce-datacontenttype'] }, body: Buffer.from(data) });
}

test('every event of a video is a CloudEvent', async () => {
  const h = headers();
  h.set('content-type', 'application/json');
  const answer = await nc.request(`genbus.call.video.${tenant}`, '{"model":"sandbox-video:duration_ms=300","prompt":"a cat"}', { headers: h, timeout: 10_000 });
  const id = answer.headers.get('genbus-job-id');
  const consumer = await jetstream(nc).consumers.get('GENBUS_TASKS', { filter_subjects: `genbus.task.video.${tenant}.${id}` });
  const types = [];
  for await (const message of await consumer.consume()) {
    const e = event(message);
    assert.ok(e.validate());
    assert.equal(e.subject, id);
    assert.equal(e.source, `/genbus/${tenant}/video/${id}`);
    types.push(e.type);
    if (e.type === 'genbus.video.task.completed.v1' || e.type === 'genbus.video.task.failed.v1') {
      break;
    }
  }
  assert.equal(types[0], 'genbus.video.task.queued.v1');
  assert.equal(types.at(-1), 'genbus.video.task.completed.v1');
});
