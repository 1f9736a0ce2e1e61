// Makes, follows, reads, downloads, cancels and lists videos over NATS alone, in JSON:
// `node jobs.js "a paper boat"`. It needs no generated files, and no HTTP or gRPC.
import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { jetstream } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import { connectTo, leave, options, run } from './connect.js';

/** Attempts to download, if replies are lost. */
const attempts = 3;

/** Returns the headers of a JSON request. */
function json(requestId) {
  const h = headers();
  h.set('content-type', 'application/json');
  if (requestId) {
    h.set('genbus-request-id', requestId);
  }
  return h;
}

/** Returns a reply, unless it is an error. */
function checked(reply) {
  const code = reply.headers.get('genbus-error-code');
  if (code) {
    throw new Error(`refused: ${code}: ${reply.json().error.message}`);
  }
  return reply;
}

/** Sends a request, and returns the answer. */
async function ask(nc, subject, request, requestId) {
  const reply = await nc.request(subject, JSON.stringify(request), { headers: json(requestId), timeout: 40_000 });
  return checked(reply).json();
}

/** Prints the events of a video up to its end. */
async function follow(nc, tenant, id) {
  const consumer = await jetstream(nc).consumers.get('GENBUS_TASKS', { filter_subjects: `genbus.task.video.${tenant}.${id}` });
  for await (const event of await consumer.consume()) {
    const status = event.headers.get('genbus-status');
    console.log(`event ${event.headers.get('genbus-version')}: ${status}`);
    if (['completed', 'failed', 'cancelled'].includes(status)) {
      return;
    }
  }
}

/** Downloads a video. A request returns up to 2 MiB in several replies, so it sends requests until the end. */
async function download(nc, tenant, id, path) {
  const file = await open(path, 'w');
  try {
    for (let offset = 0, end = 'more', lost = 0; end !== 'complete';) {
      const replies = await nc.requestMany(`genbus.content.${tenant}`, JSON.stringify({ id, offset }), {
        headers: json(), strategy: 'sentinel', maxWait: 40_000, // the last reply is empty
      });
      end = 'lost';
      for await (const reply of replies) {
        const { headers, data } = checked(reply);
        if (headers.has('genbus-end')) {
          end = headers.get('genbus-end');
        } else if (headers.get('content-range').startsWith(`bytes ${offset}-`)) {
          await file.write(data);
          offset += data.length;
        } else {
          break; // a reply was lost
        }
      }
      if (end === 'lost' && ++lost === attempts) {
        throw new Error(`no more replies at byte ${offset}`);
      }
    }
  } finally {
    await file.close();
  }
}

await run(async () => {
  const { positionals, tenant, model, out, ...where } = options({
    model: { type: 'string', default: 'sandbox-video' },
    out: { type: 'string', default: 'video.mp4' },
  });
  const nc = await connectTo(where);
  try {
    const prompt = positionals[0] ?? 'a paper boat on a quiet lake';
    const { id } = await ask(nc, `genbus.call.video.${tenant}`, { model, prompt }, randomUUID());
    await follow(nc, tenant, id);
    const { status } = await ask(nc, `genbus.get.video.${tenant}`, { id });
    console.log(`${id} is ${status}`);
    await download(nc, tenant, id, out);
    console.log(`wrote ${out}`);

    const other = await ask(nc, `genbus.call.video.${tenant}`, { model, prompt: 'not needed' }, randomUUID());
    const cancelled = await ask(nc, `genbus.cancel.video.${tenant}`, { id: other.id });
    console.log(`${other.id} is ${cancelled.status}`);
    const { data } = await ask(nc, `genbus.list.video.${tenant}`, { status: 'completed', page_size: 100 });
    console.log(`completed: ${data.map((video) => video.id).join(' ')}`);
  } finally {
    await leave(nc);
  }
});
