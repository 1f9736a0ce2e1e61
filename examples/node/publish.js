// Requests a video: `node publish.js "a paper boat"`. By default, it waits until genbus
// accepts the job, and prints the job ID. With --stream, it stores the request in the
// inbox, even while no replica runs.
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { jetstream } from '@nats-io/jetstream';
import { TimeoutError } from '@nats-io/transport-node';
import { TaskErrorSchema } from './gen/genbus/v1/job_pb.js';
import { VideoRequestSchema } from './gen/genbus/v1/video_pb.js';
import { CreateVideoTaskResponseSchema } from './gen/genbus/v1/video_rpc_pb.js';
import { connectTo, options, run } from './connect.js';

const attempts = 3;

/**
 * Encodes a request. With the same request ID, sending it again attaches to the same
 * job, which is paid for once.
 */
function videoRequest({ requestId, model, prompt }) {
  return toBinary(VideoRequestSchema, create(VideoRequestSchema, {
    requestId,
    body: { case: 'video', value: { model, prompt } },
    labels: { from: 'examples/node' },
  }));
}

/** Sends the request until there is an answer, and returns the accepted task. */
async function call(nc, subject, request) {
  for (let attempt = 1; ; attempt++) {
    try {
      const answer = await nc.request(subject, request, { timeout: 10_000 });
      const code = answer.headers?.get('genbus-error-code');
      if (!code) {
        return fromBinary(CreateVideoTaskResponseSchema, answer.data).task;
      }
      const after = Number(answer.headers.get('Retry-After'));
      if (!after || attempt === attempts) {
        throw new Error(`refused: ${code}: ${fromBinary(TaskErrorSchema, answer.data).message}`);
      }
      await wait(after * 1000); // genbus accepted nothing, as with rate_limited
    } catch (err) {
      if (!(err instanceof TimeoutError) || attempt === attempts) {
        throw err;
      }
    }
  }
}

/** Stores the request for admission. It throws if no ack arrives; then run it again with the same ID. */
async function store(nc, subject, request) {
  return await jetstream(nc).publish(subject, request, { timeout: 10_000 });
}

await run(async () => {
  const { positionals, tenant, stream, model, 'request-id': requestId, ...where } = options({
    'request-id': { type: 'string', default: randomUUID() },
    model: { type: 'string', default: 'sandbox-video' },
    stream: { type: 'boolean', default: false },
  });
  const request = videoRequest({ requestId, model, prompt: positionals[0] ?? 'a paper boat on a quiet lake' });
  const nc = await connectTo(where);
  try {
    if (stream) {
      const ack = await store(nc, `genbus.request.video.${tenant}`, request);
      console.log(`stored for admission: ${ack.stream}, message ${ack.seq}, request id ${requestId}`);
    } else {
      const task = await call(nc, `genbus.call.video.${tenant}`, request);
      console.log(`accepted: ${task.id}, request id ${requestId}`);
    }
  } finally {
    await nc.close();
  }
});
