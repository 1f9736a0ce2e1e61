// The public openai package against a running genbus, whose address is in
// GENBUS_BASE_URL. It prints one JSON object: what each piece of work gave.
// node_test.go says what that must be.
import OpenAI, { toFile } from 'openai';

const base = process.env.GENBUS_BASE_URL;
const sent = { calls: 0 };
const counted = (url, init) => {
  sent.calls++;
  return fetch(url, init);
};
const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'any', maxRetries: 0, fetch: counted });
const results = {};

// work runs one piece and keeps what it gave; an error is kept by its class.
async function work(name, run) {
  try {
    results[name] = await run();
  } catch (err) {
    results[name] = { error: err.constructor.name, status: err.status, code: err.code, message: err.message };
  }
}

const messages = [{ role: 'user', content: 'tell me of the sea' }];
const tools = [{ type: 'function', function: { name: 'count', parameters: { type: 'object', properties: {} } } }];

await work('chat', async () => {
  const reply = await client.chat.completions.create({ model: 'sandbox-chat', messages });
  return { content: reply.choices[0].message.content, finish: reply.choices[0].finish_reason, tokens: reply.usage.total_tokens };
});

await work('chat stream', async () => {
  const stream = await client.chat.completions.create({
    model: 'sandbox-chat', messages, stream: true, stream_options: { include_usage: true }, top_k: 40,
  });
  let content = '', usage = null, blocks = 0;
  for await (const chunk of stream) {
    blocks++;
    content += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  return { content, tokens: usage?.total_tokens, blocks };
});

await work('chat tools', async () => {
  const ask = [{ role: 'user', content: 'use the tool' }];
  const reply = await client.chat.completions.create({ model: 'sandbox-chat', messages: ask, tools });
  const call = reply.choices[0].message.tool_calls[0];
  const runner = client.chat.completions.stream({ model: 'sandbox-chat', messages: ask, tools });
  const streamed = (await runner.finalChatCompletion()).choices[0].message.tool_calls[0];
  const next = await client.chat.completions.create({
    model: 'sandbox-chat', tools, messages: [...ask, reply.choices[0].message, { role: 'tool', tool_call_id: call.id, content: '1' }],
  });
  return { name: call.function.name, same: call.function.arguments === streamed.function.arguments, finish: next.choices[0].finish_reason };
});

await work('chat stream that breaks', async () => {
  const stream = await client.chat.completions.create({ model: 'sandbox-chat:drop_after_chunks=2', messages, stream: true });
  for await (const _ of stream);
  return 'whole';
});

// finished retrieves a video until it has ended: this package has no helper for it.
async function finished(id) {
  for (;;) {
    const { data, response } = await client.videos.retrieve(id).withResponse();
    if (data.status !== 'queued' && data.status !== 'in_progress') return data;
    const wait = Number(response.headers.get('openai-poll-after-ms'));
    if (!(wait > 0)) throw new Error('no openai-poll-after-ms');
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

await work('video', async () => {
  const made = await client.videos.create({ model: 'sandbox-videos', prompt: 'a cat', seconds: '4', size: '1280x720' });
  const done = await finished(made.id);
  const content = await client.videos.downloadContent(made.id);
  const bytes = Buffer.from(await content.arrayBuffer());
  return { object: made.object, status: made.status, seconds: made.seconds, size: made.size, end: done.status, progress: done.progress,
    error: done.error, type: content.headers.get('content-type'), bytes: bytes.toString('base64') };
});

await work('video of a file', async () => {
  const file = await toFile(Buffer.from('\x89PNG\r\n\x1a\n the first frame', 'latin1'), 'frame.png', { type: 'image/png' });
  const made = await client.videos.create({ model: 'sandbox-videos', prompt: 'it moves', input_reference: file });
  return { end: (await finished(made.id)).status };
});

await work('video of a URL', async () => {
  const made = await client.videos.create({ model: 'sandbox-videos', prompt: 'it moves', input_reference: { image_url: 'https://example.com/a.png' } });
  return { end: (await finished(made.id)).status };
});

await work('video that fails', async () => {
  const made = await client.videos.create({ model: 'sandbox-videos:fail=text risk', prompt: 'a cat' });
  const done = await finished(made.id);
  return { end: done.status, code: done.error.code, message: done.error.message };
});

await work('videos listed', async () => {
  const ids = [], ascending = [];
  for await (const v of client.videos.list({ limit: 2 })) ids.push(v.id);
  for await (const v of client.videos.list({ limit: 3, order: 'asc' })) ascending.push(v.id);
  return { count: ids.length, reversed: ids.slice().reverse().join() === ascending.join() };
});

await work('video deleted', async () => {
  const [video] = (await client.videos.list({ limit: 1 })).data;
  const deleted = await client.videos.delete(video.id);
  return { same: deleted.id === video.id, deleted: deleted.deleted };
});

await work('unknown video', () => client.videos.retrieve('video_none'));
await work('unknown model', () => client.chat.completions.create({ model: 'none', messages }));
await work('no prompt', () => client.videos.create({ model: 'sandbox-videos', prompt: '' }));
await work('content too early', async () => {
  const made = await client.videos.create({ model: 'sandbox-videos:duration_ms=600000', prompt: 'a cat' });
  await client.videos.downloadContent(made.id);
});
await work('key used twice', async () => {
  const headers = { 'Idempotency-Key': 'node-1' };
  const first = await client.videos.create({ model: 'sandbox-videos', prompt: 'a cat' }, { headers });
  const again = await client.videos.create({ model: 'sandbox-videos', prompt: 'a cat' }, { headers });
  if (first.id !== again.id) return 'two videos';
  await client.videos.create({ model: 'sandbox-videos', prompt: 'a dog' }, { headers });
});

// retried runs a call that fails, with one retry allowed, and counts its requests.
async function retried(name, model, headers) {
  await work(name, async () => {
    const before = sent.calls, begin = Date.now();
    try {
      await client.chat.completions.create({ model, messages }, { maxRetries: 1, headers });
      return 'answered';
    } catch (err) {
      return { error: err.constructor.name, code: err.code, calls: sent.calls - before, waited: Date.now() - begin };
    }
  });
}

await retried('refused for good', 'sandbox-chat:status=400,code=bad_prompt');
await retried('final for its key', 'sandbox-chat:status=503,code=overloaded', { 'Idempotency-Key': 'node-2' });
await retried('busy', 'sandbox-chat:status=429,retry_after=1');

await work('models', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  return { has: ids.includes('sandbox-videos'), one: (await client.models.retrieve(ids[0])).id === ids[0] };
});

console.log(JSON.stringify(results));
