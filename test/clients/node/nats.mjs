// nats.js: requests by request-reply and through the inbox, and the events of a video.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, headers } from '@nats-io/transport-node';
import { nats, tenant, unique } from './service.mjs';

const nc = await connect({ servers: nats });
after(() => nc.close());
const js = jetstream(nc);
const body = JSON.stringify({ model: 'sandbox-video:duration_ms=300', prompt: 'a cat' });

function head(requestId) {
  const h = headers();
  h.set('content-type', 'application/json');
  h.set('genbus-request-id', requestId);
  return h;
}

/** Requests a video by request-reply and returns the answer. */
const call = (requestId, body) => nc.request(`genbus.call.video.${tenant}`, body, { headers: head(requestId), timeout: 10_000 });

/** Returns all events of a job. */
async function events(id) {
  const consumer = await js.consumers.get('GENBUS_TASKS', { filter_subjects: `genbus.task.video.${tenant}.${id}` });
  const messages = await consumer.consume();
  const seen = [];
  for await (const message of messages) {
    seen.push(message);
    if (['completed', 'failed', 'cancelled'].includes(message.headers.get('genbus-status'))) {
      break;
    }
  }
  return seen;
}

test('request-reply answers with the job, and its events can be followed', async () => {
  const answer = await call(unique('call'), body);
  const id = answer.headers.get('genbus-job-id');
  assert.equal(answer.json().id, id);
  const seen = await events(id);
  assert.deepEqual(seen.map(({ headers }) => Number(headers.get('genbus-version'))), seen.map((_, i) => i + 1));
  assert.equal(seen[0].headers.get('genbus-status'), 'queued');
  assert.equal(seen.at(-1).headers.get('genbus-status'), 'completed');
});

test('live events reach a subscriber', async () => {
  const subscription = nc.subscribe(`genbus.live.task.video.${tenant}.*`);
  await nc.flush();
  const id = (await call(unique('live'), body)).headers.get('genbus-job-id');
  for await (const { headers } of subscription) {
    if (headers.get('ce-subject') === id && headers.get('genbus-status') === 'completed') {
      break;
    }
  }
});

test('a request in the inbox becomes a job, which the feed of finished videos has', async () => {
  const requestId = unique('inbox');
  const manager = await jetstreamManager(nc);
  const { name } = await manager.consumers.add('GENBUS_TASKS', {
    ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.New, filter_subject: `genbus.done.video.${tenant}.completed.*`, inactive_threshold: 60e9,
  });
  const ack = await js.publish(`genbus.request.video.${tenant}`, body, { headers: head(requestId) });
  assert.equal(ack.stream, 'GENBUS_REQUESTS');

  const consumer = await js.consumers.get('GENBUS_TASKS', name);
  for await (const message of await consumer.consume()) {
    message.ack();
    const { headers } = await call(requestId, body); // the same request ID returns the same job
    if (message.headers.get('ce-subject') === headers.get('genbus-job-id')) {
      break;
    }
  }
  await consumer.delete();
});

test('a refusal says its code', async () => {
  const { headers } = await call(unique('none'), JSON.stringify({ model: 'none', prompt: 'a cat' }));
  assert.equal(headers.get('genbus-error-code'), 'model_not_found');
  assert.equal(headers.get('Nats-Service-Error-Code'), '404');
});
