// Prints each finished video once, starting with the oldest stored one: `node finished.js`.
// A restart continues where the last run stopped. Processes with the same --durable share
// the videos. Press Ctrl-C to stop.
import { setTimeout as wait } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { VideoTaskEventSchema } from './gen/genbus/v1/video_pb.js';
import { connectTo, leave, options, run } from './connect.js';

/**
 * Returns the task of an event, in either encoding. Names of several words differ:
 * `request_id` in JSON is `requestId` in the generated types.
 * @returns {Pick<import('./gen/genbus/v1/video_pb.js').VideoTask, 'id' | 'model' | 'videos'>}
 */
function decode(message) {
  if (message.headers.get('ce-datacontenttype') === 'application/json') {
    return message.json().task;
  }
  return fromBinary(VideoTaskEventSchema, message.data).task;
}

/** Handles a finished video; replace the body with your code. After a crash, it may run again for the same video. */
async function finished({ id, model, videos }) {
  // If the result has no URL, read it by the task's ID (docs/content.md).
  const urls = (videos ?? []).map((v) => v.url).filter(Boolean);
  console.log(`${id}  ${model}  ${urls.join(' ') || `GET /v1/videos/${id}/content`}`);
}

/**
 * Returns the next message, or undefined if none arrives within 30 seconds or stop is
 * aborted. It fetches one message at a time, because NATS redelivers messages that wait
 * here for longer than 30 seconds.
 */
async function next(consumer, stop) {
  try {
    const messages = await consumer.fetch({ max_messages: 1 });
    stop.onabort = () => messages.stop();
    for await (const message of messages) {
      return message;
    }
  } catch (err) {
    if (!['JetStreamError', 'JetStreamStatusError'].includes(err.name)) {
      throw err;
    }
    await consumer.info().catch(({ status, message }) => {
      if (status === 404) { // after a restore, for example
        throw new Error(`${message}: it was deleted; restart to recreate it, starting with the oldest video`);
      }
    });
    await wait(1000); // for a server restart or a new leader
  }
}

/** Handles a message, and extends its ack deadline every 10 seconds. Otherwise NATS would redeliver it after 30 seconds. */
async function handle(message) {
  const working = setInterval(() => message.working(), 10_000);
  try {
    await finished(decode(message));
  } finally {
    clearInterval(working);
  }
}

/**
 * Handles messages one at a time. Delivery is at least once, so it skips events by
 * their ce-id. To never act twice, store the ids with the results, for example in a
 * column of the same database.
 */
async function read(consumer, stop) {
  const seen = new Set();
  while (!stop.aborted) {
    const message = await next(consumer, stop);
    if (!message) {
      continue;
    }
    const id = message.headers.get('ce-id');
    if (!seen.has(id)) {
      await handle(message); // if this throws, the program ends, and NATS redelivers the message
      seen.add(id);
      if (seen.size > 10_000) {
        seen.delete(seen.values().next().value); // the oldest
      }
    }
    message.ack();
  }
}

await run(async () => {
  const { tenant, durable, ...where } = options({ durable: { type: 'string', default: 'node-finished' } });
  const nc = await connectTo(where);
  try {
    const manager = await jetstreamManager(nc, { checkAPI: false }); // a tenant's NATS user may not read account information
    await manager.consumers.add('GENBUS_TASKS', {
      durable_name: durable,
      filter_subject: `genbus.done.video.${tenant}.completed.*`, // completed, failed, cancelled, or * for all
      ack_policy: AckPolicy.Explicit,
    });
    const consumer = await jetstream(nc).consumers.get('GENBUS_TASKS', durable);
    const stop = new AbortController();
    for (const signal of ['SIGINT', 'SIGTERM']) {
      process.once(signal, () => stop.abort());
    }
    console.log(`waiting for finished videos of ${tenant}; Ctrl-C ends it`);
    await read(consumer, stop.signal);
  } finally {
    await leave(nc);
  }
});
